"""A pool, and a namespace with all that is in it, are deleted while they are used."""

import time
from pathlib import Path

import openai
import pytest
import yaml

from justitia_e2e.example import (
    APPLICATION,
    CHANGE_SECONDS,
    ENGINE_SECONDS,
    NAMESPACE,
    POOL,
    User,
    complete,
    pods,
    serves,
    streams,
)
from support.kubectl import eventually

LEAVE_SECONDS = 10.0
"""The time for which a deleted pod waits before it drains, so that no new request is on its way."""
STREAMS = 8
"""Enough streams that they take longer than that."""
GONE_SECONDS = 180.0
DRAIN_SECONDS = 10
"""The shortest time that a pool may set. Kubernetes looks at a deleted namespace again when half of the time that its
pods may take to end is over.
"""


def test_a_pool_that_is_deleted_while_it_serves_finishes_what_it_has_begun(user: User, client: openai.OpenAI) -> None:
    with streams(client, STREAMS) as begun:
        user("-n", NAMESPACE, "delete", "servingpool", POOL, "--wait=false")
        deleted = time.monotonic()
        assert [stream.result() for stream in begun] == ["length"] * STREAMS
    assert time.monotonic() - deleted > LEAVE_SECONDS, "it was over before the engine was asked to go"
    # Where the Service is reached through a pod, that one says that it goes.
    with pytest.raises((openai.APIConnectionError, openai.InternalServerError)):
        complete(client.with_options(timeout=5))
    eventually(lambda: not pods(user), CHANGE_SECONDS)
    assert user.condition("llmapplication", APPLICATION, NAMESPACE, "Ready")[0] == "False"


def test_a_namespace_is_deleted_with_a_pool_that_serves(user: User, manifest: Path) -> None:
    documents = list(yaml.safe_load_all(manifest.read_text()))
    for document in documents:
        if document["kind"] == "ServingPool":
            document["spec"]["engine"]["drainSeconds"] = DRAIN_SECONDS
    user("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    eventually(lambda: serves(user), ENGINE_SECONDS)
    user("delete", "namespace", NAMESPACE, "--wait=false")
    eventually(lambda: not user.exists("namespace", NAMESPACE), GONE_SECONDS)
