"""An answer that is told in one step is charged what it is token by token, in every cost model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import (
    CostModel,
    EngineTime,
    KVTokenTimeCost,
    ProfiledCost,
    StepTime,
    WeightedTokens,
    Work,
)
from justitia_scheduling.core.model import Progress
from justitia_vocabulary.units import RequestId

MODELS: list[CostModel] = [
    KVTokenTimeCost(),
    WeightedTokens(),
    ProfiledCost(),
    EngineTime(StepTime(per_step=0.01, per_token=0.0001, per_kv_token=0.000001)),
]


def charge(model: CostModel, prompt: int, before: int, progress: Progress, running: int) -> float:
    return model.step([Work(progress, prompt, before)], None, running)[0]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@given(
    prompt=st.integers(0, 5000), produced=st.integers(1, 200), before=st.integers(0, 300), running=st.integers(1, 50)
)
def test_one_step_is_charged_as_token_by_token(
    model: CostModel, prompt: int, produced: int, before: int, running: int
) -> None:
    def told(prefilled: int, tokens: int) -> Progress:
        return Progress(RequestId("r"), prefilled=prefilled, produced=tokens)

    single = sum(charge(model, prompt, before + i, told(0 if i else prompt, 1), running) for i in range(produced))
    assert charge(model, prompt, before, told(prompt, produced), running) == pytest.approx(single)
