"""From something seen to something written: keeps the store, decides by the pure reconcile, carries the plan out."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog
from structlog.contextvars import bound_contextvars

from justitia_operator.control import MOST_KEPT, Control
from justitia_operator.engines import starting
from justitia_operator.kube import Kube, Rejected, Unavailable
from justitia_operator.metrics import Fault, Metrics
from justitia_operator.objects import (
    APPLIED_HASH_ANNOTATION,
    MANAGED_BY_LABEL,
    MANAGER,
    OPTIONAL_KINDS,
    OWN_KINDS,
    WATCHED_KINDS,
    Json,
    Kind,
    Plan,
    Push,
    Ref,
    ref_of,
)
from justitia_operator.programming import concerned_by_figures, pods_behind, present_reports
from justitia_operator.queue import KeyedQueue
from justitia_operator.reconcile import affected, reconcile
from justitia_operator.snapshot import Report
from justitia_operator.store import Store, version_of

CHILD_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGER}"

log = structlog.get_logger()


class Controller:
    """One for the process. `key_namespace` is the only one where Secrets are read; all else is read in `namespaces`,
    everywhere without them.
    """

    def __init__(
        self,
        kube: Kube,
        control: Control,
        store: Store,
        queue: KeyedQueue[Ref],
        *,
        clock: Callable[[], datetime],
        key_namespace: str,
        metrics: Metrics,
        namespaces: Sequence[str] | None = None,
    ) -> None:
        self._kube = kube
        self._control = control
        self._store = store
        self._queue = queue
        self._clock = clock
        self._key_namespace = key_namespace
        self._namespaces = namespaces
        self._metrics = metrics
        metrics.queued.set_function(lambda: len(queue))
        metrics.pods_behind.set_function(lambda: pods_behind(store.snapshot()))

    def seen(self, obj: Json) -> None:
        """An object exists as given."""
        concerned = affected(self._store.snapshot(), ref_of(obj))
        if self._store.put(obj):
            self._enqueue(concerned | affected(self._store.snapshot(), ref_of(obj)))

    def gone(self, obj: Json) -> None:
        """An object was deleted."""
        concerned = affected(self._store.snapshot(), ref_of(obj))
        if self._store.remove(obj):
            self._enqueue(concerned)

    async def begin(self) -> None:
        """Decides about all that was seen, and looks for what is not watched. Raises Unavailable."""
        await self._list_installed()
        self._enqueue_all()
        log.info("begun")

    async def resync(self) -> None:
        """Lists everything anew: heals missed events, and drift in what is not watched. Raises Unavailable."""
        for kind in (*OWN_KINDS, Kind.NAMESPACE):
            await self._list_everywhere(kind)
        for kind in WATCHED_KINDS:
            if kind is not Kind.SECRET:
                await self._list_everywhere(kind, CHILD_SELECTOR)
        await self._list_installed()
        await self._list(Kind.SECRET, self._key_namespace)
        self._store.doubt(lambda ref: ref.kind is Kind.SECRET and ref.namespace != self._key_namespace)
        self._store.retry_rejections()
        self._enqueue_all()
        log.info("resynchronised")

    async def work(self) -> None:
        """Reconciles one key after the other, for ever. What fails passingly comes again; a bug ends the process."""
        while True:
            ref = await self._queue.get()
            world = self._store.snapshot()
            generation = (world.get(ref) or {}).get("metadata", {}).get("generation")
            try:
                with (
                    self._metrics.reconcile_seconds.labels(ref.kind).time(),
                    bound_contextvars(reconciled=str(ref), generation=generation),
                ):
                    await self._carry_out(reconcile(world, ref, self._clock()), ref)
            except Unavailable as error:
                delay = self._queue.failed(ref)
                self._fault(ref, Fault.UNAVAILABLE)
                log.warning("not reconciled", object=str(ref), error=str(error), retry_seconds=delay)
            else:
                self._queue.succeeded(ref)

    async def ask_pods(self) -> None:
        """What is in force in the pods: heals what they did not take, and tells what happens to their policies. Pools
        whose engines start are looked at again: only the time tells how far they are.
        """
        world = self._store.snapshot()
        asked: list[Push] = []
        for obj in world.of(Kind.SERVING_POOL):
            if starting(world, ref_of(obj)):
                self._queue.add(ref_of(obj))
            for pod, report in present_reports(world, ref_of(obj)):
                if report is not None:
                    uid = obj["metadata"]["uid"]
                    asked.append(Push(pod.ref, pod.instance, pod.address, uid, report.told, b""))
        keep = len(asked) <= MOST_KEPT
        await asyncio.gather(*(self._ask(push, keep) for push in asked))

    async def _ask(self, push: Push, keep: bool) -> None:
        report = await self._control.ask(push, keep=keep)
        if report.generation is not None and report.generation < push.generation:
            self._store.forget_report(push.pod)
            self._enqueue(affected(self._store.snapshot(), push.pod))
        else:
            self._heard(push.pod, report)

    async def _tell(self, push: Push) -> None:
        report = await self._control.tell(push)
        self._heard(push.pod, report)
        if report.generation is None:
            self._fault(push.pod, Fault.POD_NOT_REACHED)
            log.warning("pod not told", object=str(push.pod), generation=push.generation, problem=report.problem)
        else:
            log.info("pod told", object=str(push.pod), generation=report.generation)

    def _heard(self, pod: Ref, report: Report) -> None:
        world = self._store.snapshot()
        before = world.reports.get(pod)
        if self._store.report(pod, report):
            measured = None if before is None else concerned_by_figures(world.objects[pod], before, report)
            self._enqueue(affected(world, pod) if measured is None else measured)

    async def _carry_out(self, plan: Plan, ref: Ref) -> None:
        """Where pods are told something, the status comes with the next reconcile, which knows what they answered."""
        for obj in plan.applies:
            await self._apply(obj, ref)
        for child in plan.deletes:
            await self._kube.delete(child)
            self._wrote("delete", child)
            log.info("deleted", object=str(child))
        if plan.pushes:
            await asyncio.gather(*(self._tell(push) for push in plan.pushes))
            self._enqueue(frozenset({ref}))
            return
        for patch in plan.statuses:
            answer = await self._kube.apply_status(patch)
            self._wrote("status", patch.ref)
            if answer is not None:
                self.seen(answer)
        for note in plan.events:
            self._metrics.events.labels(ref_of(note.about).kind, note.reason).inc()
            try:
                await self._kube.record(note, self._clock())
            except Rejected as error:
                log.warning("event not recorded", object=str(ref_of(note.about)), error=str(error))

    async def _apply(self, obj: Json, asking: Ref) -> None:
        """On behalf of the resource that is reconciled, whose condition tells of a refusal."""
        ref = ref_of(obj)
        before = self._store.version(ref)
        try:
            answer = await self._kube.apply(obj)
        except Rejected as error:
            self._store.reject(ref, obj["metadata"]["annotations"][APPLIED_HASH_ANNOTATION], str(error))
            self._enqueue(affected(self._store.snapshot(), ref) | {asking})
            self._fault(ref, Fault.REJECTED)
            log.warning("refused by the API server", object=str(ref), error=str(error))
            return
        self._store.accept(ref)
        self.seen(answer)
        if version_of(answer) != before:
            self._wrote("apply", ref)
            log.info("applied", object=str(ref), version=version_of(answer))

    async def _list_everywhere(self, kind: Kind, labels: str = "") -> None:
        namespaces = self._namespaces if kind.namespaced else None
        for namespace in ("",) if namespaces is None else namespaces:
            await self._list(kind, namespace, labels)

    async def _list(self, kind: Kind, namespace: str, labels: str = "") -> None:
        listed, version = await self._kube.list(kind, namespace, labels)
        self._store.replace(
            listed, version, lambda ref: ref.kind is kind and (not namespace or ref.namespace == namespace)
        )

    async def _list_installed(self) -> None:
        """Of the optional kinds. One that just comes or goes may not answer: it stays as it was until the next time."""
        before = self._store.snapshot().installed
        installed: set[Kind] = set()
        for kind in await self._kube.installed(OPTIONAL_KINDS):
            try:
                await self._list_everywhere(kind, CHILD_SELECTOR)
            except Unavailable:
                installed |= before & {kind}
            else:
                installed.add(kind)
        self._store.set_installed(frozenset(installed))

    def _wrote(self, verb: str, ref: Ref) -> None:
        self._metrics.writes.labels(verb, ref.kind).inc()

    def _fault(self, ref: Ref, fault: Fault) -> None:
        self._metrics.faults.labels(ref.kind, fault).inc()

    def _enqueue_all(self) -> None:
        for kind in OWN_KINDS:
            self._enqueue(frozenset(self._store.snapshot().objects.of(kind)))

    def _enqueue(self, refs: frozenset[Ref]) -> None:
        for ref in refs:
            self._queue.add(ref)
