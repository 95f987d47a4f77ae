"""Talks to the control port of pods: the documents that are to be in force, and what is.

TLS to the one certificate that is the pool's, and the token that goes with it, of the current period or the one before.
"""

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

import aiohttp
from pydantic import ValidationError

from justitia_api.conditions import ConditionType
from justitia_api.status import PoolStatus
from justitia_api.wire import CONTROL_PORT, DOCUMENTS_PATH, STATUS_PATH
from justitia_operator.credentials import Credentials, make_credentials, period_at, server_name
from justitia_operator.objects import Push
from justitia_operator.snapshot import Report

ANSWER_SECONDS = 5.0
MOST_AT_ONCE = 32


class Control:
    """`pepper` is the installation's, `clock` the time of day."""

    def __init__(
        self, session: aiohttp.ClientSession, pepper: str, clock: Callable[[], datetime], port: int = CONTROL_PORT
    ) -> None:
        self._session = session
        self._pepper = pepper
        self._clock = clock
        self._port = port
        self._seats = asyncio.Semaphore(MOST_AT_ONCE)

    async def tell(self, push: Push) -> Report:
        """Have the documents put in force."""
        return await self._ask("PUT", DOCUMENTS_PATH, push, push.documents)

    async def ask(self, push: Push) -> Report:
        """What is in force. The documents stay here."""
        return await self._ask("GET", STATUS_PATH, push, None)

    async def _ask(self, method: str, path: str, push: Push, body: bytes | None) -> Report:
        period = period_at(push.server_uid, self._clock())
        problem = ""
        async with self._seats:
            for each in (period, period - 1):
                credentials = make_credentials(self._pepper, push.server_uid, each)
                try:
                    status, text = await self._exchange(method, path, push, credentials, body)
                except aiohttp.ClientConnectorCertificateError:
                    problem = "its certificate is not the pool's"
                    continue
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    problem = str(error) or type(error).__name__
                    break
                if status == 200:
                    return _report(push, text)
                problem = f"it answers {status}"
                if status != 401:
                    break
        return Report(push.instance, push.generation, None, problem)

    async def _exchange(
        self, method: str, path: str, push: Push, credentials: Credentials, body: bytes | None
    ) -> tuple[int, bytes]:
        host = f"[{push.address}]" if ":" in push.address else push.address
        async with self._session.request(
            method,
            f"https://{host}:{self._port}{path}",
            data=body,
            headers={"Authorization": f"Bearer {credentials.token}", "Content-Type": "application/json"},
            ssl=_trusting(credentials.certificate),
            server_hostname=server_name(push.server_uid),
            timeout=aiohttp.ClientTimeout(ANSWER_SECONDS),
        ) as answer:
            return answer.status, await answer.read()


def _report(push: Push, text: bytes) -> Report:
    try:
        status = PoolStatus.model_validate_json(text)
    except ValidationError:
        return Report(push.instance, push.generation, None, "its answer is not understood: is it of this version?")
    policy = next((c for c in status.conditions if c.type == ConditionType.POLICY_IN_FORCE), None)
    return Report(push.instance, push.generation, status.generation, policy=policy)


@lru_cache(maxsize=1024)
def _trusting(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=certificate)
    return context
