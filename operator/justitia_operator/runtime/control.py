"""Talks to the control port of pods: the documents that are to be in force, and what is.

TLS to the one certificate that is the pool's, and the token that goes with it, of the current period or the one before.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

import aiohttp
from pydantic import ValidationError

from justitia_api.conditions import ConditionType
from justitia_api.status import ObjectiveStatus, PoolStatus
from justitia_api.wire import CONTROL_PORT, DOCUMENTS_PATH, STATUS_PATH
from justitia_operator.build.credentials import Credentials, make_credentials, period_at, server_name
from justitia_operator.world.objects import Push
from justitia_operator.world.reports import Report

ANSWER_SECONDS = 5.0
LONGEST_ANSWER = 16 * 2**20
"""Bytes. What is longer is cut, and so not understood. A thousand tenants' status takes less than one MiB."""
MOST_AT_ONCE = 32
MOST_KEPT = 100
"""Connections between two times that pods are asked. One takes a quarter of a MiB, a new one 3 ms of processor time."""


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes | None = None
    keep: bool = False


class Control:
    """`root` is the installation's, `clock` the time of day."""

    def __init__(
        self, session: aiohttp.ClientSession, root: str, clock: Callable[[], datetime], port: int = CONTROL_PORT
    ) -> None:
        self._session = session
        self._root = root
        self._clock = clock
        self._port = port
        self._seats = asyncio.Semaphore(MOST_AT_ONCE)

    async def tell(self, push: Push) -> Report:
        """Have the documents put in force."""
        return await self._ask(push, _Request("PUT", DOCUMENTS_PATH, push.documents))

    async def ask(self, push: Push, *, keep: bool) -> Report:
        """What is in force. The documents stay here; a pod that does not run them is due to be told again. `keep`: the
        connection, for the next time.
        """
        report = await self._ask(push, _Request("GET", STATUS_PATH, keep=keep))
        return replace(report, due=report.generation is not None and not report.in_force)

    async def _ask(self, push: Push, request: _Request) -> Report:
        """Once more where it is not told what is in force: who is busy for a moment is not out of reach."""
        report = await self._ask_once(push, request)
        return report if report.generation is not None else await self._ask_once(push, request)

    async def _ask_once(self, push: Push, request: _Request) -> Report:
        period = period_at(push.server_uid, self._clock())
        problem = ""
        async with self._seats:
            for each in (period, period - 1):
                credentials = make_credentials(self._root, push.server_uid, each)
                try:
                    status, text = await self._exchange(push, credentials, request)
                except aiohttp.ClientConnectorCertificateError:
                    problem = "its certificate is not the pool's"
                    continue
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    problem = str(error) or type(error).__name__
                    break
                if status == 200:
                    return read_report(push, text)
                problem = f"it answers {status}"
                if status != 401:
                    break
        return Report(push.instance, push.generation, None, problem)

    async def _exchange(self, push: Push, credentials: Credentials, request: _Request) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {credentials.token}", "Content-Type": "application/json"}
        if push.replaces is not None and request.body is not None:
            headers["If-Match"] = f'"{push.replaces}"'
        if not request.keep:
            headers["Connection"] = "close"
        host = f"[{push.address}]" if ":" in push.address else push.address
        async with self._session.request(
            request.method,
            f"https://{host}:{self._port}{request.path}",
            data=request.body,
            headers=headers,
            ssl=_trusting(credentials.certificate),
            server_hostname=server_name(push.server_uid),
            timeout=aiohttp.ClientTimeout(ANSWER_SECONDS),
        ) as answer:
            try:
                return answer.status, await answer.content.readexactly(LONGEST_ANSWER + 1)
            except asyncio.IncompleteReadError as whole:
                return answer.status, whole.partial


def read_report(push: Push, text: bytes) -> Report:
    """What a pod answered, which may be anything."""
    try:
        status = PoolStatus.model_validate_json(text, extra="ignore")
    except ValidationError:
        return Report(push.instance, push.generation, None, "its answer is not understood: is it of this version?")
    learning = {(each.namespace, each.name): each for each in status.learning}
    policy = next((c for c in status.conditions if c.type == ConditionType.POLICY_IN_FORCE), None)
    objectives: dict[tuple[str, str], tuple[ObjectiveStatus, ...]] = {}
    for told in status.objectives:
        here = (told.namespace, told.name)
        objectives[here] = (*objectives.get(here, ()), told)
    return Report(
        push.instance,
        push.generation,
        status.generation,
        wanted=push.digest,
        documents=status.documents,
        not_understood=status.not_understood,
        policy=policy,
        learning=learning,
        objectives=objectives,
        boost=status.boost,
    )


@lru_cache(maxsize=1024)
def _trusting(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=certificate)
    return context
