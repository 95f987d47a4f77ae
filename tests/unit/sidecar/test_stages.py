"""The stages of a request."""

from itertools import product

import pytest

from justitia_sidecar.admission.stages import TRANSITIONS, Event, ImpossibleTransitionError, Stage, after

POSSIBLE = {
    (Stage.HELD, Event.RELEASE): Stage.QUEUED,
    (Stage.QUEUED, Event.HOLD_BACK): Stage.HELD,
    (Stage.QUEUED, Event.SEND): Stage.SENT,
    (Stage.SENT, Event.START): Stage.STARTED,
    **{(stage, Event.END): Stage.OVER for stage in (Stage.HELD, Stage.QUEUED, Stage.SENT, Stage.STARTED)},
}


@pytest.mark.parametrize(("stage", "event"), list(product(Stage, Event)), ids=str)
def test_what_can_happen_leads_on_and_what_cannot_raises(stage: Stage, event: Event) -> None:
    if (stage, event) in POSSIBLE:
        assert after(stage, event) is POSSIBLE[stage, event]
    else:
        with pytest.raises(ImpossibleTransitionError, match=f"{stage.value} cannot {event.value}"):
            after(stage, event)


def test_every_stage_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Stage)
