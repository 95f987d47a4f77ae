"""Tokens a second of an engine that always has more to do than it can: what a scheduler costs, whatever its order.

The replays cannot tell: their last run is the longest, most of which the engine works for it alone, and an order that
finishes the others first has it end later. So `benchmarks/vllm_turns.py` runs schedulers in turns in one engine; here
is the sidecar's end of their channels.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from justitia_benchmarks.engine.overhead import PACKAGES, ROOT
from justitia_benchmarks.engine.workload import NAMESPACE, WEIGHTS
from justitia_channel.messages import Admitted, Arrived, Closed, Configure, RunEnded, Ticket
from justitia_cli.runtime import EngineRuntime
from justitia_sidecar.engine.channel import EngineChannel, listen
from justitia_vocabulary.units import ApplicationId, RunId, TenantId

SCRIPT = ROOT / "benchmarks" / "vllm_turns.py"
Round = Mapping[str, Mapping[str, float]]
"""By scheduler (`stock`, and our policies): tokensPerSecond, and seconds of a step in the `model` and `outside`."""
POLICIES = ("fcfs", "tiered-justitia")
AHEAD = 256
"""Tickets that are sent before the first request comes."""
SATURATED_BLOCKS = (46, 400)
"""KV blocks: with few of them requests are preempted, with many a seat is all that they lack."""


async def measure_saturated(runtime: EngineRuntime, model: Path, blocks: int, rounds: int) -> Sequence[Round]:
    """With so many KV blocks. Raises RuntimeError with what the script said."""
    with tempfile.TemporaryDirectory() as folder:
        async with asyncio.TaskGroup() as group:
            telling = [group.create_task(_tell(policy, Path(folder))) for policy in POLICIES]
            process = await asyncio.create_subprocess_exec(
                *map(str, (runtime.python, SCRIPT, model, blocks, rounds, folder)),
                env=os.environ | dict(runtime.environment) | PACKAGES,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await process.communicate()
            for each in telling:
                each.cancel()
    if process.returncode:
        raise RuntimeError(f"{SCRIPT.name} ended with {process.returncode}: {err.decode()[-2000:]}")
    return [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]


async def _tell(policy: str, folder: Path) -> None:
    """Be the sidecar of each engine that connects: a ticket for each request, in time."""
    channel = EngineChannel()
    channel.configure(Configure(1, policy, "engine-time", WEIGHTS))

    def send(number: int) -> None:
        tenant = TenantId(list(WEIGHTS)[number % len(WEIGHTS)])
        run = RunId(f"r{number}")
        channel.send(Ticket(f"{number:032x}", tenant, ApplicationId(f"{NAMESPACE}/alike"), run, run_cost=5e3))

    def hear(message: Arrived | Admitted | Closed) -> None:
        number = int(message.key, 16)
        if isinstance(message, Admitted):
            send(number + AHEAD)
        elif isinstance(message, Closed):
            channel.send(RunEnded(RunId(f"r{number}")))

    channel.hear = hear
    serving = asyncio.create_task(channel.serve(listen(folder / f"{policy}.sock")))
    greeted = ""
    try:
        while True:  # the channel has no events of its own
            if channel.connected and channel.peer != greeted:
                greeted = channel.peer
                for number in range(AHEAD):
                    send(number)
            await asyncio.sleep(0.01)
    finally:
        serving.cancel()
