"""Reads of an API server over one connection: kubectl takes a process for each, and waiting is made of reads."""

import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import yaml

Json = dict[str, Any]

MOST_TRIES = 10
"""While the server asks to come later, as it does where a definition has just been made."""
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True)
class Place:
    """Where the objects of a kind are: below `root`, and inside namespaces or not."""

    root: str
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        inside = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{self.root}{inside}/{self.plural}{f'/{name}' if name else ''}"


class ApiReader:
    """Kinds go by the names that kubectl takes. Raises LookupError for what is not there, OSError where the server does
    not answer.
    """

    def __init__(self, kubeconfig: Path) -> None:
        """Read the kubeconfig. Its user must have a certificate."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        trusted = ssl.create_default_context(cafile=cluster["certificate-authority"])
        trusted.load_cert_chain(user["client-certificate"], user["client-key"])
        self._client = httpx.Client(base_url=cluster["server"], verify=trusted, trust_env=False, timeout=60)
        self._places: dict[str, Place] = {}

    def get(self, what: str, name: str, namespace: str) -> Json:
        """With who owns which field."""
        return self._ask(self._place(what).path(namespace, name))

    def items(self, what: str, namespace: str = "", selector: str = "") -> list[Json]:
        """Those of some kinds, separated by commas; without a namespace, those in all."""
        found: list[Json] = []
        for one in what.split(","):
            answer = self._ask(self._place(one).path(namespace), labelSelector=selector)
            # The items of a list do not say what they are.
            kind = {"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List")}
            found += [kind | item for item in answer["items"]]
        return found

    def close(self) -> None:
        self._client.close()

    def _ask(self, path: str, **parameters: str) -> Json:
        return self._get(path, {"Accept": "application/json"}, parameters)

    def _get(self, path: str, headers: dict[str, str], parameters: dict[str, str]) -> Json:
        for _ in range(MOST_TRIES):
            try:
                answer = self._client.get(path, headers=headers, params=parameters)
            except httpx.TransportError as error:
                raise ConnectionError(f"{path}: {error}") from error
            if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                break
            time.sleep(float(answer.headers.get("retry-after", 1)))  # as kubectl does
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise LookupError(f"{path} is not there")
        if not answer.is_success:
            raise ConnectionError(f"{path}: {answer.status_code} {answer.text}")
        found: Json = answer.json()
        return found

    def _place(self, what: str) -> Place:
        name = what.lower()
        if name not in self._places:
            self._places = self._discovered()
        return self._places[name]

    def _discovered(self) -> dict[str, Place]:
        places: dict[str, Place] = {}
        for base in ("/api", "/apis"):
            for group in self._get(base, {"Accept": DISCOVERY}, {})["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    root = "/".join(part for part in (base, name, version["version"]) if part)
                    for resource in version["resources"]:
                        place = Place(root, resource["resource"], resource["scope"] == "Namespaced")
                        names = [resource["resource"], resource["singularResource"], *resource.get("shortNames", ())]
                        for called in (each for each in names if each):
                            places.setdefault(called, place)
                            places.setdefault(f"{called}.{name}", place)
        return places
