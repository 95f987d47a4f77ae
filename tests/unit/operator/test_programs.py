"""The programs that are part of pods, run as a container runs them."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from justitia_api.config import KeyTable, PoolConfig
from justitia_api.pool import ServingPool
from justitia_cli.local.ports import free_ports
from justitia_operator.build.builders import build_children
from justitia_operator.build.credentials import make_pod_credentials
from justitia_operator.world.installation import Installation
from justitia_operator.world.objects import Json, Kind
from support.container import Container, StandInSidecar, serving
from support.resources import PEPPER, ROOT, pool

ENGINE_PORT, ADMIN_PORT = 8001, 8002
LEAVING_SECONDS = 10
STAND_IN_VLLM = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(7)"


def pods(**spec: Any) -> list[Json]:
    """The leader's and, where there is one, the worker's."""
    parsed = ServingPool.model_validate(pool(**spec))
    config = PoolConfig(generation=1, namespace="apps", name="shared", model="m")
    installation = Installation("justitia-system", "sidecar:1", ROOT)
    made = build_children(
        parsed,
        config,
        KeyTable(pepper=PEPPER),
        make_pod_credentials(ROOT, "uid", 0),
        installation,
    )
    if Kind.DEPLOYMENT in made:
        return [made[Kind.DEPLOYMENT]["spec"]["template"]["spec"]]
    group = made[Kind.LEADER_WORKER_SET]["spec"]["leaderWorkerTemplate"]
    return [group["leaderTemplate"]["spec"], group["workerTemplate"]["spec"]]


def engine_of(pod: Json) -> Json:
    (container,) = pod["containers"]
    found: Json = container
    return found


def before_stop(container: Json) -> list[str]:
    command: list[str] = container["lifecycle"]["preStop"]["exec"]["command"]
    return command


@pytest.fixture
def listening() -> Iterator[int]:
    """The port of an engine that listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """One where nobody listens."""
    (port,) = free_ports(1)
    return port


def test_an_engine_that_goes_waits_until_its_endpoint_has_left_and_then_until_its_sidecar_has_drained(
    tmp_path: Path, listening: int
) -> None:
    (pod,) = pods(engine={"drainSeconds": 900})
    with serving(StandInSidecar()) as sidecar:
        container = Container(tmp_path, {ENGINE_PORT: listening, ADMIN_PORT: sidecar.port})
        with container.start(before_stop(engine_of(pod))) as process:
            assert sidecar.was_asked.wait(30)
            assert process.poll() is None, "it waits for the answer"
            sidecar.may_answer.set()
            assert process.wait(30) == 0
        assert sidecar.asked == [("POST", "/internal/drain")]
    assert container.slept == [LEAVING_SECONDS]
    assert [note.get("port") for note in container.notes] == [ENGINE_PORT, None, ADMIN_PORT]
    assert container.limits_of(ADMIN_PORT) == [900]
    assert pod["terminationGracePeriodSeconds"] > LEAVING_SECONDS + 900


def test_an_engine_that_listens_to_nobody_yet_has_nothing_to_drain(tmp_path: Path, closed: int) -> None:
    (pod,) = pods()
    container = Container(tmp_path, {ENGINE_PORT: closed})
    assert container.run(before_stop(engine_of(pod))) == (0, "")
    assert [note.get("port") for note in container.notes] == [ENGINE_PORT]


def test_an_engine_that_is_too_busy_for_a_connection_drains(tmp_path: Path) -> None:
    (pod,) = pods()
    with serving(StandInSidecar()) as sidecar:
        sidecar.may_answer.set()
        container = Container(tmp_path, {ENGINE_PORT: "busy", ADMIN_PORT: sidecar.port})
        assert container.run(before_stop(engine_of(pod))) == (0, "")
        assert sidecar.asked == [("POST", "/internal/drain")]


@pytest.mark.parametrize(
    ("answers", "waited"),
    [
        pytest.param(1, [1], id="until the leader's sidecar is gone"),
        pytest.param(4, [1] * 4, id="however often it has to ask"),
        pytest.param(None, [1] * (LEAVING_SECONDS + 12), id="and not for ever"),
    ],
)
def test_a_worker_that_goes_waits_for_its_leader(tmp_path: Path, answers: int | None, waited: list[int]) -> None:
    leader, worker = pods(engine={"nodes": 2, "drainSeconds": 12})
    assert worker["terminationGracePeriodSeconds"] == leader["terminationGracePeriodSeconds"]
    with serving(StandInSidecar(answers)) as sidecar:
        sidecar.may_answer.set()
        container = Container(tmp_path, {ADMIN_PORT: sidecar.port})
        assert container.run(before_stop(engine_of(worker)), LWS_LEADER_ADDRESS="127.0.0.1") == (0, "")
        assert set(sidecar.asked) == {("GET", "/healthz")}
    assert container.slept == waited


def test_a_worker_whose_leader_is_gone_ends_at_once(tmp_path: Path, closed: int) -> None:
    _, worker = pods(engine={"nodes": 2})
    container = Container(tmp_path, {ADMIN_PORT: closed})
    assert container.run(before_stop(engine_of(worker)), LWS_LEADER_ADDRESS="127.0.0.1") == (0, "")
    assert container.slept == []


@pytest.mark.parametrize(
    ("nodes", "part", "module"),
    [
        pytest.param(1, 0, "vllm.entrypoints.openai.api_server", id="the whole engine"),
        pytest.param(2, 1, "vllm.entrypoints.cli.main", id="a part of it"),
    ],
)
def test_vllm_gets_its_arguments_as_they_are_and_ends_the_container_with_its_code(
    tmp_path: Path, nodes: int, part: int, module: str
) -> None:
    container = Container(tmp_path)
    path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    path.write_text(STAND_IN_VLLM)
    engine = engine_of(pods(engine={"nodes": nodes, "args": ["--override=a b", "--x={}"]})[part])
    assert "$(" not in str(engine["command"]), "the kubelet would replace it"
    code, printed = container.run([*engine["command"], *engine["args"]])
    assert code == 7
    assert ["-m", module, *json.loads(printed)] == engine["args"]
    assert engine["args"][-2:] == ["--override=a b", "--x={}"]


def test_an_engine_that_hangs_is_ended_by_the_file_that_its_sidecar_makes_and_before_it_would_drain(
    tmp_path: Path, listening: int
) -> None:
    (pod,) = pods(engine={"hangSeconds": 33})
    (*_, sidecar), engine = pod["initContainers"], engine_of(pod)
    told = {v["name"]: v.get("value") for v in sidecar["env"]}
    assert told["JUSTITIA_HANG_SECONDS"] == "33"
    path = told["JUSTITIA_HANG_FILE"]
    shared = [m["name"] for c in (sidecar, engine) for m in c["volumeMounts"] if path.startswith(f"{m['mountPath']}/")]
    assert shared == ["tmp", "tmp"]

    here = tmp_path / "engine-hangs"
    probe = [str(here) if part == path else part for part in engine["livenessProbe"]["exec"]["command"]]
    assert str(here) in probe
    container = Container(tmp_path, {ENGINE_PORT: listening, ADMIN_PORT: "busy"})
    assert container.run(probe) == (0, "")
    here.touch()
    assert container.run(probe) == (1, "")
    container.run(before_stop(engine))
    assert engine["livenessProbe"]["terminationGracePeriodSeconds"] < sum(container.slept)
