"""The API server goes and comes back, with its history forgotten; the leading operator dies, and the next one leads."""

import itertools
import json
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.control_plane import ControlPlane
from justitia_operator.world.objects import OWN_KINDS, WATCHED_KINDS, Kind
from support.kubectl import Kubectl, OperatorProcess, eventually
from support.stage import SYSTEM, Stage

FAILOVER_SECONDS = 20.0
_numbers = itertools.count(1)
LISTER = "lister"
"""Whose lists are in the log too."""
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["list"], "users": [LISTER]},
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Metadata"},
    ],
}


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "log"


@pytest.fixture(scope="module")
def plane(audit: Path) -> Iterator[ControlPlane]:
    """One that may be killed. It keeps a log of all writes."""
    policy = audit.with_name("policy.yaml")
    policy.write_text(yaml.safe_dump(POLICY))
    with ControlPlane(api_options=[f"--audit-policy-file={policy}", f"--audit-log-path={audit}"]) as plane:
        plane.define_resources()
        plane.kubectl("create", "namespace", SYSTEM)
        yield plane


@pytest.fixture(scope="module")
def own_kubectl(plane: ControlPlane) -> Kubectl:
    return plane.administrator


@pytest.fixture
def begin(plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[[str], OperatorProcess]]:
    """Starts an operator who goes by this name in the audit log."""
    started: list[OperatorProcess] = []

    def start(name: str) -> OperatorProcess:
        log = tmp_path / f"{name}-{len(started)}.log"
        started.append(OperatorProcess(str(plane.issue_kubeconfig(name)), SYSTEM, log))
        return started[-1]

    yield start
    for process in started:
        process.stop()


@pytest.fixture
def own_stage(own_kubectl: Kubectl) -> Stage:
    name = f"stage-{next(_numbers)}"
    own_kubectl("create", "namespace", name)
    stage = Stage(own_kubectl, name)
    stage.set()
    return stage


def forget_history(plane: ControlPlane) -> None:
    """What `etcdctl compact` asks for, up to now: who watches from an earlier version on is told that it is gone."""
    status = ask_etcd(plane, "maintenance/status", {})
    ask_etcd(plane, "kv/compaction", {"revision": status["header"]["revision"], "physical": True})


def ask_etcd(plane: ControlPlane, what: str, body: dict[str, object]) -> dict[str, Any]:
    request = urllib.request.Request(f"{plane.etcd}/v3/{what}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def come_back(plane: ControlPlane, kubectl: Kubectl) -> None:
    plane.start_again("kube-apiserver")
    eventually(lambda: kubectl.run("get", "--raw", "/readyz").stdout == "ok")


def test_an_operator_that_starts_lists_every_kind_twice_once_by_kopf_and_once_by_itself(
    plane: ControlPlane, own_stage: Stage, audit: Path, tmp_path: Path
) -> None:
    kubeconfig = str(plane.issue_kubeconfig(LISTER))
    operator = OperatorProcess(kubeconfig, SYSTEM, tmp_path / "log", JUSTITIA_RESYNC_SECONDS="3600")
    try:
        operator.wait_until_working()
        own_stage.settle()
    finally:
        operator.stop()
    listed = Counter(event["objectRef"]["resource"] for event in events_of(audit, LISTER) if event["verb"] == "list")
    assert listed.keys() >= {kind.plural for kind in (*OWN_KINDS, *WATCHED_KINDS, Kind.NAMESPACE)}
    assert set(listed.values()) == {2}


def test_a_short_outage_that_forgets_history_is_survived_and_what_changed_is_seen(
    plane: ControlPlane, own_kubectl: Kubectl, own_stage: Stage, begin: Callable[[str], OperatorProcess]
) -> None:
    operator = begin("operator")
    own_stage.settle()
    operator.wait_for_resyncs(2)
    before = own_stage.child("deployment")["metadata"]["generation"]
    plane.kill("kube-apiserver")
    eventually(lambda: operator.entries("not resynchronised"))
    forget_history(plane)
    come_back(plane, own_kubectl)
    own_stage.set(tenant={"weight": "6"})
    eventually(lambda: own_stage.config().tenants[0].weight == 6.0)
    operator.wait_for_resyncs(2)
    assert own_stage.child("deployment")["metadata"]["generation"] == before


def test_a_long_outage_ends_the_operator_which_says_why_and_the_next_one_waits_for_its_end(
    plane: ControlPlane, own_kubectl: Kubectl, own_stage: Stage, begin: Callable[[str], OperatorProcess]
) -> None:
    operator = begin("operator")
    own_stage.settle()
    before = own_stage.child("deployment")["metadata"]["generation"]
    plane.kill("kube-apiserver")
    assert operator.wait() == 1
    last = json.loads(operator.log().splitlines()[-1])
    assert "was not renewed" in last["error"]
    forget_history(plane)
    next_one = begin("operator")
    eventually(lambda: next_one.entries("waiting for the API server"))
    come_back(plane, own_kubectl)
    own_stage.set(tenant={"weight": "7"})
    next_one.wait_until_working()
    eventually(lambda: own_stage.config().tenants[0].weight == 7.0)
    assert own_stage.child("deployment")["metadata"]["generation"] == before


def test_a_killed_leader_is_followed_within_seconds_and_nobody_writes_beside_the_leader(
    own_stage: Stage, begin: Callable[[str], OperatorProcess], audit: Path
) -> None:
    names = ("first", "second", "third")
    leader = begin(names[0])
    own_stage.settle()
    for number, name in enumerate(names[1:]):
        standby = begin(name)
        eventually(lambda standby=standby: standby.entries("watching"))  # type: ignore[misc]
        own_stage.set(tenant={"weight": str(10 + number)})
        eventually(lambda number=number: own_stage.config().tenants[0].weight == 10.0 + number)  # type: ignore[misc]
        leader.kill()
        killed = time.monotonic()
        own_stage.set(tenant={"weight": str(20 + number)})
        eventually(lambda number=number: own_stage.config().tenants[0].weight == 20.0 + number)  # type: ignore[misc]
        assert time.monotonic() - killed <= FAILOVER_SECONDS
        leader = standby
    spans = [writes_of(audit, name) for name in names]
    assert all(spans), "each of them has led"
    for earlier, later in pairwise(spans):
        assert max(earlier) < min(later), "two operators wrote at the same time"


def writes_of(audit: Path, user: str) -> list[datetime]:
    """When this one changed something, Leases excepted: those are how they agree."""
    return [
        datetime.fromisoformat(event["requestReceivedTimestamp"])
        for event in events_of(audit, user)
        if event["objectRef"]["resource"] != "leases"
    ]


def events_of(audit: Path, user: str) -> list[dict[str, Any]]:
    """What the log has of this one."""
    events = map(json.loads, audit.read_text().splitlines())
    return [event for event in events if event["user"]["username"] == user]
