"""An operator's process, and what it has taken so far."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from justitia_benchmarks.operator.population import SYSTEM
from justitia_cli.local.ports import free_ports
from justitia_vocabulary.units import Seconds

STOP_SECONDS = 30


class Operator:
    """Started as in its pod, with its defaults; killed with the context if it still runs."""

    def __init__(self, kubeconfig: Path, session: aiohttp.ClientSession, log: Path) -> None:
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        self._session = session
        settings = {"JUSTITIA_NAMESPACE": SYSTEM, "JUSTITIA_HTTP_PORT": str(port), "KUBECONFIG": str(kubeconfig)}
        with log.open("ab") as output:
            self._process = psutil.Popen(
                [sys.executable, "-m", "justitia_operator"],
                env=os.environ | settings,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """As a rollout does."""
        self._process.terminate()
        self._process.wait(STOP_SECONDS)

    def cpu(self) -> Seconds:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def memory(self) -> int:
        """Bytes that are resident."""
        return int(self._process.memory_info().rss)

    def peak_memory(self) -> int:
        """Bytes that were resident at most."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmHWM:\s*(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    async def metrics(self) -> Mapping[str, float]:
        """Its own, summed over labels; none while it does not answer. Raises RuntimeError when it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError("the operator has ended")
        try:
            async with self._session.get(f"{self._url}/metrics") as answer:
                text = await answer.text()
        except aiohttp.ClientConnectionError:
            return {}
        sums: defaultdict[str, float] = defaultdict(float)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] += sample.value
        return sums
