from pathlib import Path

import pytest

from justitia_api.config import KeyTable, PoolConfig
from justitia_sidecar.reload import InvalidDocumentError, WatchedDocument

VALID = '{"generation": %d, "namespace": "ns", "name": "p", "model": "m"}'


def test_a_document_is_given_once_for_each_content(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(VALID % 1)
    watched = WatchedDocument(path, PoolConfig)
    first = watched.poll()
    assert first is not None
    assert first.generation == 1
    assert watched.poll() is None
    path.write_text(VALID % 12)
    second = watched.poll()
    assert second is not None
    assert second.generation == 12


def test_a_file_replaced_by_equal_content_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(VALID % 1)
    watched = WatchedDocument(path, PoolConfig)
    watched.poll()
    new = tmp_path / "new"
    new.write_text(VALID % 1)
    new.replace(path)
    assert watched.poll() is None


def test_a_link_that_is_switched_is_a_change(tmp_path: Path) -> None:
    """As a ConfigMap's files are."""
    for generation in (1, 2):
        (tmp_path / f"data{generation}").mkdir()
        (tmp_path / f"data{generation}" / "config.json").write_text(VALID % generation)
    link, path = tmp_path / "current", tmp_path / "config.json"
    link.symlink_to("data1")
    path.symlink_to("current/config.json")
    watched = WatchedDocument(path, PoolConfig)
    watched.poll()
    (tmp_path / "next").symlink_to("data2")
    (tmp_path / "next").replace(link)
    changed = watched.poll()
    assert changed is not None
    assert changed.generation == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [("{", "Invalid JSON"), (VALID % -1, "generation"), ('{"generation": 1, "colour": "red"}', "Field required")],
)
def test_an_invalid_document_is_told_once_and_names_what_is_wrong(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    watched = WatchedDocument(path, PoolConfig)
    with pytest.raises(InvalidDocumentError, match=says):
        watched.poll()
    assert watched.poll() is None


def test_a_missing_file_is_told_once_and_found_later(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    watched = WatchedDocument(path, PoolConfig)
    with pytest.raises(InvalidDocumentError, match="No such file"):
        watched.poll()
    assert watched.poll() is None
    path.write_text(VALID % 1)
    assert watched.poll() is not None


def test_secrets_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text('{"pepper": "not-hex-but-secret"}')
    with pytest.raises(InvalidDocumentError) as invalid:
        WatchedDocument(path, KeyTable).poll()
    assert "not-hex-but-secret" not in str(invalid.value)
