"""LoRA adapters in a real vLLM with our scheduler inside, behind a real sidecar: who may use which."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from justitia_api.engine import Adapter, EngineSpec, ModelSpec
from justitia_api.pool import ServingPoolSpec
from justitia_cli.tiny_model import make_tiny_model
from justitia_operator.build.arguments import engine_command
from support.serving import KEYS, MODEL, RunningSidecar, Vllm, eventually, http, running_sidecar, running_vllm
from support.tiny_adapter import make_tiny_adapter

FIXED: dict[str, Any] = {"ignore_eos": True, "temperature": 0, "max_tokens": 8}
COUNTS = ("prompt", "output")
ADAPTERS = [{"name": "everybodys"}, {"name": "golds", "tenants": ["gold"]}]


def lora_arguments(*adapters: Adapter) -> list[str]:
    """As the operator gives them."""
    spec = ServingPoolSpec(
        model=ModelSpec(uri="hf://a/b", adapters=adapters), engine=EngineSpec(args=("--max-loras=2",))
    )
    command = engine_command(spec)
    return command[command.index("--enable-lora") :]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningSidecar, Vllm]]:
    directory = tmp_path_factory.mktemp("adapters")
    socket = directory / "engine.sock"
    made = [make_tiny_adapter(directory / name, seed) for seed, name in enumerate(("everybodys", "golds"))]
    with (
        running_vllm(
            directory,
            make_tiny_model(directory / "model"),
            max_length=1024,
            block_size=32,
            blocks=65,
            arguments=lora_arguments(*(Adapter(name=path.name, uri=f"file://{path}") for path in made)),
            environment={"JUSTITIA_SOCKET": str(socket)},
            scheduler="support.braked_scheduler.JustitiaScheduler",
        ) as vllm,
        running_sidecar(directory / "sidecar", vllm.url, engine_socket=socket) as sidecar,
    ):
        eventually("the plug-in has connected", lambda: "plug-in has connected" in sidecar.log.read_text())
        sidecar.reconfigure(adapters=ADAPTERS)
        yield sidecar, vllm


def ask(sidecar: RunningSidecar, model: str, tenant: str = "gold", token: int = 7) -> Any:
    return http.post(
        f"{sidecar.public}/v1/completions",
        json=FIXED | {"model": model, "prompt": [token, 8, 9]},
        headers={"authorization": f"Bearer {KEYS[tenant]}"},
    )


def listed(sidecar: RunningSidecar, tenant: str) -> set[str]:
    return {model.id for model in sidecar.client(tenant).models.list()}


def test_each_adapter_answers_as_a_model_of_its_own(pool: tuple[RunningSidecar, Vllm]) -> None:
    sidecar, _ = pool
    answers = {name: ask(sidecar, name).raise_for_status().json() for name in (MODEL, "everybodys", "golds")}
    assert {name: answer["model"] for name, answer in answers.items()} == {name: name for name in answers}
    assert len({answer["choices"][0]["text"] for answer in answers.values()}) == 3


def test_a_model_is_served_and_listed_to_whom_it_is_allowed_alone(pool: tuple[RunningSidecar, Vllm]) -> None:
    sidecar, vllm = pool
    assert listed(sidecar, "gold") == {MODEL, "everybodys", "golds"}
    assert listed(sidecar, "silver") == {MODEL, "everybodys"}
    assert ask(sidecar, "everybodys", "silver").status_code == 200
    before = vllm.metric("vllm:request_success_total")
    refused = ask(sidecar, "golds", "silver")
    unknown = ask(sidecar, "nobodys", "silver")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert refused.text.replace("golds", "nobodys") == unknown.text, "nobody learns what others have"
    assert vllm.metric("vllm:request_success_total") == before


def test_tokens_of_adapters_are_counted_as_all_others(pool: tuple[RunningSidecar, Vllm]) -> None:
    sidecar, vllm = pool

    def counted() -> tuple[float, float]:
        text = sidecar.metrics()
        found = [re.findall(rf"^justitia_{name}_tokens_total\{{.*\}} (\S+)$", text, re.MULTILINE) for name in COUNTS]
        return sum(map(float, found[0])), sum(map(float, found[1]))

    def computed() -> tuple[float, float]:
        return vllm.metric("vllm:prompt_tokens_total"), vllm.metric("vllm:generation_tokens_total")

    models = [MODEL, "everybodys", "golds"]
    with ThreadPoolExecutor(6) as many:
        answers = list(many.map(lambda i: ask(sidecar, models[i % 3], token=20 + i), range(18)))
    assert [answer.status_code for answer in answers] == [200] * 18
    eventually("all is counted", lambda: counted() == computed())


def test_an_adapter_that_is_taken_from_a_tenant_is_refused_at_once(pool: tuple[RunningSidecar, Vllm]) -> None:
    sidecar, _ = pool
    sidecar.reconfigure(adapters=[{"name": "everybodys", "tenants": ["gold"]}])
    assert (ask(sidecar, "everybodys", "silver").status_code, ask(sidecar, "golds").status_code) == (404, 404)
    assert ask(sidecar, "everybodys").status_code == 200
    sidecar.reconfigure(adapters=ADAPTERS)
