"""What an HTML page refers to, and where others may point in it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Attributes whose address a browser fetches by itself."""
_ONLY_NAMED = {"canonical", "next", "prev", "alternate"}
"""Kinds of `link` that name an address and load nothing."""


@dataclass
class Html(HTMLParser):
    """`links` are for readers to follow, `loaded` is fetched with the page, `anchors` are places in it."""

    file: Path
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if (tag == "a" and "href" in found) or found.get("rel") in _ONLY_NAMED:
            self.links.append(found["href"])
        elif (address := found.get(_LOADED.get(tag, ""))) is not None:
            self.loaded.append(address)
