"""The client of the API server, for all requests but watches.

Writes are server-side applies of whole objects under one field manager. Errors are told apart by what to do about them:
:class:`Unavailable` passes, and is retried; :class:`Rejected` does not pass until somebody changes something.

A change or deletion names the version of the object that the decision was based on. So a late write of an operator that
no longer leads undoes nothing. A fenced client (:meth:`Kube.fenced`) sends nothing, and stops waiting for what it sent,
once another operator may lead.
"""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Any

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException

from justitia_api.wire import authority
from justitia_operator.world.objects import MANAGER, Json, Kind, Note, Ref, StatusPatch, ref_of

REQUEST_SECONDS = 30.0
APPLY = "application/apply-patch+yaml"
PAGE = 500


class Unavailable(Exception):
    """The API server did not answer, or something temporary prevents the request."""


class Fenced(Unavailable):
    """Nothing was sent: another operator may lead."""


class Outdated(Unavailable):
    """The object has another version than the one that the decision was based on."""


class Rejected(Exception):
    """The API server refused the request."""


class Kube:
    """A client with typed kinds and JSON objects. `seconds_left` says for how long it may write."""

    def __init__(self, api: client.ApiClient, seconds_left: Callable[[], float] = lambda: REQUEST_SECONDS) -> None:
        self._api = api
        self.seconds_left = seconds_left

    def fenced(self, seconds_left: Callable[[], float]) -> "Kube":
        """Returns a client that shares the connections, and writes only as long as it may."""
        return Kube(self._api, seconds_left)

    async def installed(self, kinds: Iterable[Kind]) -> frozenset[Kind]:
        """Which of these kinds the cluster accepts objects of. It accepts none of a kind that is being removed."""
        taken: set[tuple[str, str]] = set()
        for version in {kind.api_version for kind in kinds}:
            status, body = await self._exchange("GET", _root(version))
            resources = () if status == HTTPStatus.NOT_FOUND else _checked(status, body)["resources"]
            taken.update((version, resource["name"]) for resource in resources if "create" in resource["verbs"])
        return frozenset(kind for kind in kinds if (kind.api_version, kind.plural) in taken)

    async def list(self, kind: Kind, namespace: str = "", labels: str = "") -> tuple[list[Json], int]:
        """Lists all objects of a kind, and returns the resource version of the list. An empty namespace means all."""
        items: list[Json] = []
        query = {"limit": str(PAGE)} | ({"labelSelector": labels} if labels else {})
        while True:
            status, page = await self._exchange("GET", _path(kind, namespace), query)
            if status == HTTPStatus.NOT_FOUND:
                raise Unavailable(f"the cluster has no {kind} ({kind.api_version})")
            _checked(status, page)
            items += ({"apiVersion": kind.api_version, "kind": str(kind)} | item for item in page["items"])
            if not page["metadata"].get("continue"):
                return items, int(page["metadata"]["resourceVersion"])
            query["continue"] = page["metadata"]["continue"]

    async def may_list(self, kind: Kind, namespace: str) -> bool:
        """Whether we have the right to list the kind. It includes a namespace that does not exist, and is empty."""
        status, body = await self._exchange("GET", _path(kind, namespace), {"limit": "1"})
        if status == HTTPStatus.FORBIDDEN:
            return False
        _checked(status, body)
        return True

    async def get(self, ref: Ref) -> Json | None:
        """Gets the object. None if it does not exist."""
        status, body = await self._exchange("GET", _path(ref.kind, ref.namespace, ref.name))
        return None if status == HTTPStatus.NOT_FOUND else _checked(status, body)

    async def look(self, ref: Ref) -> Json | None:
        """Gets the object without a right to get it: a patch that changes nothing returns it. None if there is none."""
        path, query = _path(ref.kind, ref.namespace, ref.name), {"fieldManager": MANAGER, "dryRun": "All"}
        status, body = await self._exchange("PATCH", path, query, {}, "application/merge-patch+json")
        return None if status == HTTPStatus.NOT_FOUND else _checked(status, body)

    async def create(self, obj: Json) -> Json | None:
        """Creates the object. None if one of its name exists."""
        ref = ref_of(obj)
        query = {"fieldManager": MANAGER}
        status, body = await self._exchange("POST", _path(ref.kind, ref.namespace), query, obj)
        return None if status == HTTPStatus.CONFLICT else _checked(status, body)

    async def replace(self, obj: Json) -> Json | None:
        """Replaces the object. None if it has changed since it was read, or is gone."""
        ref = ref_of(obj)
        path = _path(ref.kind, ref.namespace, ref.name)
        status, body = await self._exchange("PUT", path, {"fieldManager": MANAGER}, obj)
        return None if status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND} else _checked(status, body)

    async def apply(self, obj: Json, before: Json | None) -> Json:
        """Applies the object: its fields become ours, and fields that were ours and are not given any more are removed.
        `before` is the object as it was seen, None if it did not exist. Raises Outdated if it has changed since.
        """
        ref = ref_of(obj)
        path = _path(ref.kind, ref.namespace, ref.name)
        changed = obj | {"metadata": obj["metadata"] | _identity(before)}
        return await self._request("PATCH", path, {"fieldManager": MANAGER, "force": "true"}, changed, APPLY)

    async def set_owners(self, before: Json, managed_fields: Sequence[Json]) -> Json:
        """Changes who owns which fields of the object, and nothing else. Raises Outdated."""
        ref = ref_of(before)
        changes = {"managedFields": managed_fields, "resourceVersion": before["metadata"]["resourceVersion"]}
        body = [{"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in changes.items()]
        path = _path(ref.kind, ref.namespace, ref.name)
        return await self._request("PATCH", path, {"fieldManager": MANAGER}, body, "application/json-patch+json")

    async def apply_status(self, patch: StatusPatch, before: Json) -> Json | None:
        """Applies the whole status of the object, which was seen as `before`. None if the object is gone. Raises
        Outdated.
        """
        ref = patch.ref
        where = {"namespace": ref.namespace} if ref.namespace else {}
        body = {
            "apiVersion": ref.kind.api_version,
            "kind": str(ref.kind),
            "metadata": {"name": ref.name, **where, **_identity(before)},
            "status": patch.status,
        }
        path = _path(ref.kind, ref.namespace, ref.name) + "/status"
        query = {"fieldManager": f"{MANAGER}-status", "force": "true"}
        status, answer = await self._exchange("PATCH", path, query, body, APPLY)
        return None if status == HTTPStatus.NOT_FOUND else _checked(status, answer)

    async def delete(self, before: Json) -> None:
        """Deletes the object that was seen, and then what it owns. It is no error if the object is gone. Raises
        Outdated.
        """
        ref = ref_of(before)
        # Jobs, unlike other kinds, keep their pods by default.
        options = {"propagationPolicy": "Background", "preconditions": _identity(before)}
        status, body = await self._exchange("DELETE", _path(ref.kind, ref.namespace, ref.name), body=options)
        if status != HTTPStatus.NOT_FOUND:
            _checked(status, body)

    async def record(self, note: Note, now: datetime) -> None:
        """Creates an Event about an object."""
        about = note.about["metadata"]
        regarding = {"apiVersion": note.about["apiVersion"], "kind": note.about["kind"], "name": about["name"]}
        regarding |= {key: about[key] for key in ("namespace", "uid", "resourceVersion") if key in about}
        namespace = about.get("namespace", "default")
        event = {
            "apiVersion": Kind.EVENT.api_version,
            "kind": str(Kind.EVENT),
            "metadata": {"generateName": f"{about['name']}-", "namespace": namespace},
            "regarding": regarding,
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "justitia.dev/operator",
            "reportingInstance": os.uname().nodename[:128],
            "action": "Reconcile",
            "type": str(note.type),
            "reason": note.reason,
            "note": note.message[:1024],
        }
        await self._request("POST", _path(Kind.EVENT, namespace), {"fieldManager": MANAGER}, event)

    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Json | Sequence[Json] | None = None,
        content: str = "application/json",
    ) -> Json:
        return _checked(*await self._exchange(method, path, query, body, content))

    async def _exchange(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Json | Sequence[Json] | None = None,
        content: str = "application/json",
    ) -> tuple[int, Json]:
        headers = {"Accept": "application/json", "Content-Type": content}
        try:
            request = await self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            seconds = REQUEST_SECONDS if method == "GET" else min(REQUEST_SECONDS, self.seconds_left())
            if seconds <= 0:
                raise Fenced(f"{method} {path}: not sent, another operator may lead")
            response = await self._api.call_api(*request, _request_timeout=seconds)
            text: bytes = await response.response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, ApiException) as error:
            raise Unavailable(f"{method} {path}: {error!r}") from error
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, {"message": text[:200].decode(errors="replace")}


def _identity(before: Json | None) -> dict[str, str]:
    """What must not have changed for a write to be accepted."""
    return {} if before is None else {key: before["metadata"][key] for key in ("uid", "resourceVersion")}


def _root(api_version: str) -> str:
    return f"/{'apis' if '/' in api_version else 'api'}/{api_version}"


def _path(kind: Kind, namespace: str = "", name: str = "") -> str:
    inside = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    return f"{_root(kind.api_version)}{inside}/{kind.plural}" + (f"/{name}" if name else "")


_PASSING = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.GONE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.REQUEST_TIMEOUT,
}


def _checked(status: int, body: Json) -> Json:
    if status < HTTPStatus.BAD_REQUEST:
        return body
    message = f"{status}: {body.get('message', 'no message')}"
    if status == HTTPStatus.CONFLICT:
        raise Outdated(message)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING:
        raise Unavailable(message)
    raise Rejected(message)


def uses_service_account() -> bool:
    """Whether to connect as the pod's service account. A KUBECONFIG takes precedence."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ


def service_address() -> str:
    """The address of the API server that every pod gets in its environment."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    return f"https://{authority(host, port)}"


@asynccontextmanager
async def connect() -> AsyncIterator[Kube]:
    """Connects as KUBECONFIG says, or as a pod's service account. Raises Unavailable if there is neither."""
    configuration: Any = client.Configuration()
    try:
        if uses_service_account():
            load_config: Any = config.load_incluster_config
            load_config(client_configuration=configuration)
        else:
            load_config = config.load_kube_config
            # The library reads the variable only once, when it is imported.
            await load_config(config_file=os.environ.get("KUBECONFIG"), client_configuration=configuration)
    except config.ConfigException as error:
        raise Unavailable(f"no cluster to connect to: set KUBECONFIG, or run in a pod ({error})") from error
    async with client.ApiClient(configuration) as api:
        yield Kube(api)
