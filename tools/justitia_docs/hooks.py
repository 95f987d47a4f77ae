"""MkDocs hook: adds the pages that are made from the code, so that the reference cannot differ from it."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from justitia_docs import conditions, metrics, refusals, resources


def build_reference() -> dict[str, str]:
    """The text of each generated page, by its path below docs/."""
    kinds = {f"reference/{name}.md": text for name, text in resources.build_pages().items()}
    return kinds | {
        "reference/conditions.md": conditions.build_page(),
        "reference/metrics.md": metrics.build_page(),
        "reference/refusals.md": refusals.build_page(),
    }


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for path, text in build_reference().items():
        files.append(File.generated(config, path, content=text))
    return files
