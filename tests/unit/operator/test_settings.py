"""What the environment says to the operator."""

import pytest

from justitia_operator.runtime.settings import Settings


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        pytest.param(None, (), id="the whole cluster"),
        pytest.param("", (), id="empty is the whole cluster too"),
        pytest.param("team-a", ("team-a",), id="one namespace"),
        pytest.param("team-a,team-b", ("team-a", "team-b"), id="some"),
    ],
)
def test_namespaces_are_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch, given: str | None, understood: tuple[str, ...]
) -> None:
    monkeypatch.delenv("JUSTITIA_WATCH_NAMESPACES", raising=False)
    if given is not None:
        monkeypatch.setenv("JUSTITIA_WATCH_NAMESPACES", given)
    assert Settings().watch_namespaces == understood
