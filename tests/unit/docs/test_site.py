"""The site builds without a warning, its links lead somewhere, and it loads nothing from other hosts."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from support.built_pages import Html
from support.pages import ROOT, blocks_of, written_pages

EXTERNAL = ("http", "https", "mailto")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FETCHED = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)\"']*")
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


class Site:
    """The pages of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages = {file: Html(file) for file in folder.rglob("*.html")}

    def broken(self) -> list[str]:
        """Internal links that lead nowhere."""
        return [
            f"{page.file.relative_to(self.folder)}: {address}"
            for page in self.pages.values()
            for address in (*page.links, *page.loaded)
            if is_internal(address) and not self._has(page, address)
        ]

    def _has(self, page: Html, address: str) -> bool:
        parts = urlsplit(address)
        start = self.folder if parts.path.startswith("/") else page.file.parent
        file = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else page.file
        if file.is_dir():
            file /= "index.html"
        anchors = self.pages[file].anchors if file in self.pages else {parts.fragment}
        return file.exists() and (not parts.fragment or unquote(parts.fragment) in anchors)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site as `make docs` builds it. Strict: a warning ends the build."""
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return Site(folder)


def test_every_internal_link_leads_to_a_page_and_a_place_in_it(site: Site) -> None:
    assert site.broken() == []


def test_every_external_link_is_well_formed(site: Site) -> None:
    found = {address for page in site.pages.values() for address in page.links if not is_internal(address)}
    assert found
    assert {address for address in found if not is_well_formed(address)} == set()


def test_nothing_is_loaded_from_another_host(site: Site) -> None:
    assert {each for page in site.pages.values() for each in page.loaded if not is_internal(each)} == set()
    styles = [file.read_text() for file in site.folder.rglob("*.css")]
    assert styles
    assert [found for text in styles for found in _FETCHED.findall(text)] == []


@pytest.mark.parametrize("page", written_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_diagrams_are_pictures(page: Path) -> None:
    """The theme fetches the program that draws Mermaid from another host."""
    assert "mermaid" not in {block.language for block in blocks_of(page)}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "AGENTS.md"], ids=lambda page: page.name)
def test_links_of_pages_outside_of_the_site_lead_to_files(page: Path) -> None:
    assert [address for address in internal_links(page) if not (page.parent / address).exists()] == []


@pytest.mark.parametrize(
    ("address", "there"),
    [("there.html#place", True), ("#here", True), ("gone.html", False), ("there.html#gone", False), ("#gone", False)],
)
def test_a_broken_link_is_found_out(tmp_path: Path, address: str, there: bool) -> None:
    (tmp_path / "here.html").write_text(f'<p id="here"><a href="{address}">x</a>')
    (tmp_path / "there.html").write_text('<h2 id="place">x</h2>')
    assert (Site(tmp_path).broken() == []) is there


@pytest.mark.parametrize("address", ["https:/one.slash", "http://", "ftp://example.com", "https://spa ce.com/"])
def test_a_malformed_address_is_found_out(address: str) -> None:
    assert not is_well_formed(address)


def is_internal(address: str) -> bool:
    parts = urlsplit(address)
    return not parts.scheme and not parts.netloc


def is_well_formed(address: str) -> bool:
    parts = urlsplit(address)
    host = parts.netloc or parts.scheme == "mailto"
    return parts.scheme in EXTERNAL and bool(host) and not re.search(r"\s", address)


def internal_links(page: Path) -> Iterator[str]:
    for address in _LINK.findall(_FENCE.sub("", page.read_text())):
        if is_internal(address):
            yield address.partition("#")[0]
