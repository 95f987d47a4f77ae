"""The picture of README.md is what `make picture` draws."""

import pytest

from justitia_docs.first_token import CURVES, Wait, draw, simulate
from support.pages import DOCS, ROOT


def test_the_committed_picture_is_what_the_simulation_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    drawn = draw([(way, simulate(way.policy)) for way in CURVES])
    assert (DOCS / "assets/first-token.svg").read_text() == drawn, "`make picture` draws it again"


def test_each_request_is_a_dot_and_the_label_has_median_and_worst() -> None:
    fcfs, default = CURVES
    picture = draw([(fcfs, [Wait(0, 20), Wait(10, 40), Wait(20, 60)]), (default, [Wait(0, 0.5)])])
    assert picture.count('r="4.5"') == 4
    assert "First come, first served: median 40 s, worst 60 s" in picture
    assert "Default policy: median 0.5 s, worst 0.5 s" in picture
