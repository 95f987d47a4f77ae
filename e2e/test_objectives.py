"""A declared objective is counted, and gamma follows it inside shares when it is tightened. Nothing restarts."""

import json

import openai

from justitia_e2e.example import APPLICATION, CHANGE_SECONDS, NAMESPACE, POOL, Record, User, pods, restarts, timed
from support.kubectl import Json, eventually

LOOSE, TIGHT = 10_000, 1
"""Milliseconds. A first token takes a fraction of ten seconds here, and more than one."""
SLO = {"metric": "TimeToFirstToken", "percentile": 90, "windowSeconds": 600}
FOLLOWED_SECONDS = 300.0


def declare(user: User, milliseconds: int) -> None:
    spec = {"spec": {"slo": [SLO | {"boundMilliseconds": milliseconds}]}}
    user.patch("llmapplication", APPLICATION, NAMESPACE, spec)


def stream(client: openai.OpenAI) -> None:
    with client.completions.create(model="tiny", prompt="Hello", max_tokens=4, stream=True) as chunks:
        for _ in chunks:
            pass


def slo_met(user: User) -> tuple[str, str] | None:
    try:
        return user.condition("llmapplication", APPLICATION, NAMESPACE, "SLOMet")
    except KeyError:
        return None


def gamma(user: User) -> float | None:
    status: Json = user.get("servingpool", POOL, NAMESPACE)["status"]
    return float(status["gamma"]["highest"]) if "gamma" in status else None


def warnings(user: User) -> set[str]:
    """The reasons of warnings about the application."""
    events = json.loads(user("-n", NAMESPACE, "get", "events", "-o", "json"))["items"]
    return {e["reason"] for e in events if e["involvedObject"]["name"] == APPLICATION and e["type"] == "Warning"}


def test_an_objective_that_is_tightened_moves_gamma(user: User, client: openai.OpenAI, record_property: Record) -> None:
    before = {pod["metadata"]["name"]: restarts(pod) for pod in pods(user)}
    declare(user, LOOSE)

    def settled() -> bool:
        stream(client)
        return slo_met(user) == ("True", "Met") and gamma(user) is not None

    with timed(record_property, "objective declared, until SLOMet says that it is met"):
        eventually(settled, FOLLOWED_SECONDS)
    loose = gamma(user)
    assert loose is not None
    declare(user, TIGHT)

    def followed() -> bool:
        stream(client)
        now = gamma(user)
        return now is not None and now <= loose / 5

    with timed(record_property, "objective tightened, until gamma is a fifth in status"):
        eventually(followed, FOLLOWED_SECONDS)
    record_property("gamma before and after", f"{loose:g} and {gamma(user):g} per second")

    def told() -> bool:
        stream(client)
        return slo_met(user) == ("False", "Unattainable")

    with timed(record_property, "and until SLOMet says that no gamma meets it"):
        eventually(told, FOLLOWED_SECONDS)
    [observed] = user.get("llmapplication", APPLICATION, NAMESPACE)["status"]["slo"]["objectives"]
    assert (observed["state"], observed["attainedPercent"]) == ("Unattainable", "0.0")
    # The status is written before the Event.
    eventually(lambda: "Unattainable" in warnings(user), CHANGE_SECONDS)
    user.patch("llmapplication", APPLICATION, NAMESPACE, {"spec": {"slo": None}})
    eventually(lambda: gamma(user) is None and slo_met(user) is None, CHANGE_SECONDS)
    assert {pod["metadata"]["name"]: restarts(pod) for pod in pods(user)} == before
