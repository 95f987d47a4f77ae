"""Talks to the control port of pods: sends documents, and asks which are in effect.

It uses TLS and trusts only the pool's certificate. It presents the token that goes with it, of the current period or
the previous one.
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
from justitia_api.status import ObjectiveCounts, PoolStatus
from justitia_api.wire import CONTROL_PORT, DOCUMENTS_PATH, STATUS_PATH, authority
from justitia_operator.build.credentials import Credentials, make_credentials, period_at, server_name
from justitia_operator.world.objects import Push
from justitia_operator.world.reports import Report

ANSWER_SECONDS = 5.0
LONGEST_ANSWER = 16 * 2**20
"""Bytes. A longer answer is cut, and then not understood. The status of a thousand tenants takes less than one MiB."""
MOST_AT_ONCE = 32
MOST_KEPT = 100
"""Connections that stay open between two rounds of questions. One takes a quarter of a MiB; a new one takes 3 ms of
processor time.
"""


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes | None = None
    keep: bool = False


class Control:
    """A client of control ports. `root` is the installation's, `clock` the time of day."""

    def __init__(
        self, session: aiohttp.ClientSession, root: str, clock: Callable[[], datetime], port: int = CONTROL_PORT
    ) -> None:
        self._session = session
        self._root = root
        self._clock = clock
        self._port = port
        self._seats = asyncio.Semaphore(MOST_AT_ONCE)

    async def tell(self, push: Push) -> Report:
        """Sends the documents, for the pod to put in effect."""
        return await self._ask(push, _Request("PUT", DOCUMENTS_PATH, push.documents))

    async def ask(self, push: Push, *, keep: bool) -> Report:
        """Asks which documents are in effect. A pod that runs others is due to be sent its own again. `keep` leaves the
        connection open for the next time.
        """
        report = await self._ask(push, _Request("GET", STATUS_PATH, keep=keep))
        return replace(report, due=report.generation is not None and not report.in_effect)

    async def _ask(self, push: Push, request: _Request) -> Report:
        """Asks once more if there was no answer: a pod that is busy for a moment is not unreachable."""
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
                    problem = "its certificate is not that of the pool"
                    continue
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    problem = str(error) or type(error).__name__
                    break
                if status == 200:
                    return read_report(push, text)
                problem = f"it answered {status}"
                if status != 401:
                    break
        return Report(push.instance, push.generation, None, problem)

    async def _exchange(self, push: Push, credentials: Credentials, request: _Request) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {credentials.token}", "Content-Type": "application/json"}
        if push.replaces is not None and request.body is not None:
            headers["If-Match"] = f'"{push.replaces}"'
        if not request.keep:
            headers["Connection"] = "close"
        async with self._session.request(
            request.method,
            f"https://{authority(push.address, self._port)}{request.path}",
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
    """Parses the answer of a pod, which may be anything."""
    try:
        status = PoolStatus.model_validate_json(text, extra="ignore")
    except ValidationError:
        return Report(
            push.instance, push.generation, None, "its answer is not understood: check the version of its sidecar"
        )
    learning = {(each.namespace, each.name): each for each in status.learning}
    policy = next((c for c in status.conditions if c.type == ConditionType.POLICY_IN_EFFECT), None)
    objectives: dict[tuple[str, str], tuple[ObjectiveCounts, ...]] = {}
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
        unit=status.cost_unit,
        applications={(each.namespace, each.name): each for each in status.applications},
        learning=learning,
        objectives=objectives,
        boost=status.boost,
        sharing=status.sharing,
    )


@lru_cache(maxsize=1024)
def _trusting(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=certificate)
    return context
