"""How objectives stand is seen by kubectl: a real API server, the operator's process, and a pod that tells what it
counted over the real control port.
"""

from pathlib import Path

import pytest

from justitia_api.wire import CONTROL_PORT
from support.kubectl import Json, eventually
from support.local_pod import Files, running
from support.objectives import FIRST_TOKEN, boosted, some, told
from support.stage import Stage
from support.telling_pod import TellingPod, reporting_pod

ADDRESS = "127.0.0.5"
"""The pod's: no other test listens there."""
FOLLOWS = {"policy": "UniBoost", "enforcement": "Engine", "boost": {"mode": "SLO"}}


def met(stage: Stage) -> tuple[str, str]:
    return stage.condition("llmapp", "chat", "SLOMet")


def application(stage: Stage) -> Json:
    return stage.kubectl.get("llmapp", "chat", stage.namespace)


@pytest.mark.usefixtures("operator")
def test_a_missed_objective_is_shown_and_told_and_its_figures_are_not_written_each_time(
    stage: Stage, tmp_path: Path
) -> None:
    def counts(good: int, missed: int) -> None:
        here = {"namespace": stage.namespace}
        pod.objectives = (told(FIRST_TOKEN, some(good, missed)).model_copy(update=here),)

    stage.set(pool={"scheduling": FOLLOWS}, application={"slo": [FIRST_TOKEN]})
    assert eventually(lambda: met(stage)) == ("Unknown", "NothingObserved")
    eventually(lambda: stage.config().applications[0].objectives)
    name, *_ = stage.pods()
    Files(stage, tmp_path)
    pod = TellingPod(namespace=stage.namespace, boost=boosted(0.0234))
    counts(50, 50)
    with reporting_pod(tmp_path, pod, ADDRESS, CONTROL_PORT):
        stage.report(name, **running("one", ADDRESS))
        eventually(lambda: met(stage) == ("False", "Missed"))
        missed = application(stage)
        (observed,) = missed["status"]["slo"]["objectives"]
        assert (observed["state"], observed["values"], observed["errorBudgetPercent"]) == ("Missed", 100, -400)
        table = stage.kubectl("get", "llmapp", "chat", "-n", stage.namespace, "-o", "wide").splitlines()
        column = table[0].index("SLO")
        assert table[1][column:].split()[0] == "False"
        assert "P90 of time to first token is 2 s" in stage.kubectl("describe", "llmapp", "chat", "-n", stage.namespace)
        gamma = eventually(lambda: stage.kubectl.get("spool", "shared", stage.namespace)["status"]["gamma"])
        assert gamma == {"lowest": "0.02", "highest": "0.02"}

        counts(49, 51)
        asked = pod.asked
        eventually(lambda: pod.asked >= asked + 2)
        assert application(stage)["metadata"]["resourceVersion"] == missed["metadata"]["resourceVersion"]

        counts(100, 0)
        eventually(lambda: met(stage) == ("True", "Met"))
        assert application(stage)["status"]["slo"]["objectives"][0]["attainedPercent"] == "100.0"
    events = stage.kubectl.items("events")
    ours = {(e["type"], e["reason"]) for e in events if e["involvedObject"].get("namespace") == stage.namespace}
    assert {("Warning", "Missed"), ("Normal", "Met")} <= ours
