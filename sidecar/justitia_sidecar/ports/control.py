"""The port for the operator: takes documents, and answers what is in effect. TLS, and a token in each request.

Certificate, key and token are files that change while the pod runs. New connections use the new ones.
"""

import hmac
import ssl
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, ValidationError

from justitia_api.config import KeyTable
from justitia_api.status import PoolStatus
from justitia_api.wire import CERTIFICATE_FILE, DOCUMENTS_PATH, PRIVATE_KEY_FILE, STATUS_PATH, TOKEN_FILE
from justitia_sidecar.current import Current
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.reload import problem_of
from justitia_sidecar.report.status import SidecarReport

LONGEST_DOCUMENTS = 4 * 2**20
"""The most bytes of both documents. A ConfigMap and a Secret hold one MiB each."""
_SCHEME = "bearer "


class _Given(BaseModel):
    """Both documents as they were sent."""

    configuration: Any
    keys: Any


class ControlCredentials:
    """The credentials in a folder. Raises OSError if a file is missing, ssl.SSLError if one is damaged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._token = b""
        self._certificate = b""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.refresh()

    def refresh(self) -> None:
        """Read the files again."""
        self._token = (self._folder / TOKEN_FILE).read_bytes().strip()
        certificate = (self._folder / CERTIFICATE_FILE).read_bytes()
        if certificate != self._certificate:
            self.context.load_cert_chain(self._folder / CERTIFICATE_FILE, self._folder / PRIVATE_KEY_FILE)
            self._certificate = certificate

    def allow(self, authorization: str) -> bool:
        given = authorization[len(_SCHEME) :].encode() if authorization.lower().startswith(_SCHEME) else b""
        return bool(self._token) and hmac.compare_digest(given, self._token)


def build_control(current: Current, report: SidecarReport, credentials: ControlCredentials) -> FastAPI:
    control = FastAPI(title="Justitia sidecar, control", docs_url=None, redoc_url=None, openapi_url=None)

    @control.middleware("http")
    async def authenticate(request: Request, call_next):  # type: ignore[no-untyped-def]
        if not credentials.allow(request.headers.get("authorization", "")):
            return Response(status_code=401)
        return await call_next(request)

    @control.exception_handler(RefusalError)
    async def refuse(request: Request, refusal: RefusalError) -> Response:
        return Response(refusal.body, refusal.refusal.status)

    @control.put(DOCUMENTS_PATH)
    async def put(request: Request) -> PoolStatus:
        """Put documents into effect, unless newer ones are, and answer what is in effect. If `If-Match` names the
        documents in effect, they are replaced even if they are newer. A request that comes late names other documents.
        """
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LONGEST_DOCUMENTS:
            raise HTTPException(413, f"documents must have a content-length of at most {LONGEST_DOCUMENTS} bytes")
        try:
            given = _Given.model_validate_json(await request.body(), extra="ignore")
            keys = KeyTable.model_validate(given.keys, extra="ignore")
        except ValidationError as error:
            raise HTTPException(422, f"keys: {problem_of(error)}; nothing was taken") from None
        anyway = request.headers.get("if-match") == f'"{current.documents}"'
        # The keys come first, even if the configuration is refused: a revoked key must not be served any longer.
        current.put_keys(keys, given.keys, anyway=anyway)
        try:
            current.take_config(given.configuration, anyway=anyway)
        except ValidationError as error:
            message = f"configuration: {problem_of(error)}; the keys are in effect, the configuration stays as it was"
            raise HTTPException(422, message) from None
        return report.status()

    @control.get(STATUS_PATH)
    async def status() -> PoolStatus:
        return report.status()

    return control
