"""What the operator takes of a pod's answer."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from justitia_api.wire import CERTIFICATE_FILE, PRIVATE_KEY_FILE, TOKEN_FILE
from justitia_operator.build.credentials import make_credentials, period_at
from justitia_operator.runtime.control import Control
from justitia_operator.world.objects import Kind, Push, Ref
from support.objectives import COMPLETION, FIRST_TOKEN, boosted, some, told
from support.resources import ROOT
from support.telling_pod import TellingPod, reporting_pod

UID = "0b5e7a9c-0000-4000-8000-000000000001"
NOW = datetime.now(UTC)
"""Credentials of this day: TLS reads the machine's clock."""


async def test_objectives_are_taken_by_application_and_gamma_as_it_is(tmp_path: Path) -> None:
    made = make_credentials(ROOT, UID, period_at(UID, NOW))
    for name, text in (
        (CERTIFICATE_FILE, made.certificate),
        (PRIVATE_KEY_FILE, made.private_key),
        (TOKEN_FILE, made.token),
    ):
        (tmp_path / name).write_text(text)
    first, last = told(FIRST_TOKEN, some(90, 10)), told(COMPLETION, some(90, 0))
    other = first.model_copy(update={"name": "agent"})
    pod = TellingPod(objectives=(first, other, last), boost=boosted(0.3))
    with reporting_pod(tmp_path, pod):
        async with aiohttp.ClientSession() as session:
            control = Control(session, ROOT, lambda: NOW, pod.port)
            push = Push(Ref(Kind.POD, "apps", "pod"), "containerd://one", "127.0.0.1", UID, 3, b"")
            report = await control.ask(push, keep=False)
            pod.objectives, pod.boost = (), None
            nothing = await control.ask(push, keep=False)
    assert report.objectives == {("apps", "chat"): (first, last), ("apps", "agent"): (other,)}
    assert report.boost == boosted(0.3)
    assert nothing == replace(report, objectives={}, boost=None)
