"""From observation to writes: it keeps the cache, decides by the pure reconcile, and carries plans out.

A failure for one resource stays with it, also if it is a bug of ours: it is counted, logged, shown in the resource's
condition Reconciled, and retried with growing delays, while all others go on.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

import structlog
from structlog.contextvars import bound_contextvars

from justitia_api.conditions import Reason
from justitia_operator.build.shared_valkey import pool_users
from justitia_operator.decide.adoption import Adoption, adoption_of, foreign_message
from justitia_operator.decide.affected import affected
from justitia_operator.decide.compare import differs, needs_apply
from justitia_operator.decide.contests import Contests
from justitia_operator.decide.engines import starting
from justitia_operator.decide.ownership import Addition, additions, contested_message, disowned, removed_message
from justitia_operator.decide.programming import concerned_by_figures, pods_behind
from justitia_operator.decide.rechecks import Rechecks
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.decide.status import plan_failure
from justitia_operator.runtime.cache import ObjectCache, version_of
from justitia_operator.runtime.control import MOST_KEPT, Control
from justitia_operator.runtime.kube import Fenced, Kube, Outdated, Rejected, Unavailable
from justitia_operator.runtime.metrics import Fault, Metrics
from justitia_operator.runtime.queue import KeyedQueue
from justitia_operator.world.catalog import refers_to
from justitia_operator.world.names import children_name
from justitia_operator.world.objects import (
    APPLIED_HASH_ANNOTATION,
    OPTIONAL_KINDS,
    OWN_KINDS,
    SEEN_KINDS,
    EventType,
    Json,
    Kind,
    Note,
    Plan,
    Push,
    Ref,
    ref_of,
    selector_for,
)
from justitia_operator.world.reports import Report
from justitia_operator.world.sidecars import present_reports
from justitia_operator.world.snapshot import Rejection
from justitia_valkey.users import PoolUser

log = structlog.get_logger()


class Controller:
    """Reconciles resources. Secrets are read in `key_namespace` only; everything else in `namespaces`, or everywhere if
    None.
    """

    def __init__(
        self,
        kube: Kube,
        control: Control,
        cache: ObjectCache,
        queue: KeyedQueue[Ref],
        *,
        clock: Callable[[], datetime],
        key_namespace: str,
        metrics: Metrics,
        namespaces: Sequence[str] | None = None,
    ) -> None:
        self._kube = kube
        self._control = control
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._key_namespace = key_namespace
        self._namespaces = namespaces
        self._metrics = metrics
        self._rechecks = Rechecks()
        self._contests = Contests()
        metrics.queued.set_function(lambda: len(queue))
        metrics.pods_behind.set_function(lambda: pods_behind(cache.snapshot()))

    def seen(self, obj: Json) -> None:
        """Takes an object that exists. If that fails, the cache keeps what it knew."""
        ref = ref_of(obj)
        with self._failure_is_its_own(ref):
            if self._cache.knows(obj):
                return
            concerned = affected(self._cache.snapshot(), ref)
            if self._cache.put(obj):
                self._enqueue(concerned | affected(self._cache.snapshot(), ref))

    def gone(self, obj: Json) -> None:
        """Takes a deletion."""
        ref = ref_of(obj)
        with self._failure_is_its_own(ref):
            concerned = affected(self._cache.snapshot(), ref)
            if self._cache.remove(obj):
                self._enqueue(concerned)

    async def relist(self) -> None:
        """Lists everything that is watched, and takes what is new or gone. Raises Unavailable, Rejected."""
        for kind in SEEN_KINDS:
            await self._list_everywhere(kind)
        await self._list(Kind.SECRET, self._key_namespace)

    async def begin(self) -> None:
        """Lists what is not watched, and queues every resource. Raises Unavailable, Rejected."""
        await self._list_installed()
        self._enqueue_all()
        log.info("begun")

    async def resync(self) -> None:
        """Lists everything again, to repair missed events, and drift in what is not watched. Raises Unavailable,
        Rejected.
        """
        await self.relist()
        await self._list_installed()
        self._cache.doubt(lambda ref: ref.kind is Kind.SECRET and ref.namespace != self._key_namespace)
        self._cache.retry_rejections()
        self._enqueue_all()
        log.info("resynchronised")

    async def work(self) -> None:
        """Reconciles one resource after the other, for ever. A failed one comes again, with growing delays."""
        while True:
            ref = await self._queue.get()
            world = self._cache.snapshot()
            generation = (world.get(ref) or {}).get("metadata", {}).get("generation")
            with bound_contextvars(reconciled=str(ref), generation=generation):
                try:
                    with self._metrics.reconcile_seconds.labels(ref.kind).time():
                        await self._carry_out(reconcile(world, ref, self._clock()), ref)
                except Unavailable as error:
                    outdated = isinstance(error, (Outdated, Fenced))
                    self._fault(ref, Fault.OUTDATED if outdated else Fault.UNAVAILABLE)
                    log.warning("not reconciled", object=str(ref), error=str(error))
                    self._queue.failed(ref)
                except Exception as error:
                    # A bug, or an input that nobody expected: all other resources go on.
                    self._fault(ref, Fault.REJECTED if isinstance(error, Rejected) else Fault.FAILED)
                    log.exception("failed", object=str(ref))
                    await self._report_failure(ref, error)
                    self._queue.failed(ref)
                else:
                    self._queue.succeeded(ref)

    async def _report_failure(self, ref: Ref, error: Exception) -> None:
        """Writes the failure to the resource's status, if possible. An error of ours may quote a Secret, so only its
        type is shown.
        """
        obj = self._cache.snapshot().get(ref)
        if obj is None:
            return
        why = f"the API server refused a write: {error}"
        if not isinstance(error, Rejected):
            why = f"the operator failed ({type(error).__name__}): look for {ref} in its log, and report it as a bug"
        try:
            await self._tell(plan_failure(obj, why, self._clock()))
        except Exception:
            log.exception("condition not written", object=str(ref))

    @contextmanager
    def _failure_is_its_own(self, ref: Ref) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._fault(ref, Fault.FAILED)
            log.exception("failed", object=str(ref))

    def valkey_users(self) -> list[PoolUser]:
        """The users that the installation's Valkey has to have."""
        world = self._cache.snapshot()
        return pool_users(world.of(Kind.SERVING_POOL), world.installation.root)

    async def ask_pods(self) -> None:
        """Asks every pod what is in effect there. This repairs what they did not take, and shows what happens to their
        policies. Pools whose engines start are reconciled again: only time shows their progress.
        """
        world = self._cache.snapshot()
        asked: list[Push] = []
        for obj in world.of(Kind.SERVING_POOL):
            ref = ref_of(obj)
            with self._failure_is_its_own(ref):
                if starting(world, ref):
                    self._queue.add(ref)
                for pod, report in present_reports(world, ref):
                    if report is not None:
                        uid = obj["metadata"]["uid"]
                        asked.append(Push(pod.ref, pod.instance, pod.address, uid, report.told, b"", report.wanted))
        keep = len(asked) <= MOST_KEPT
        await asyncio.gather(*(self._ask(push, keep) for push in asked))

    async def ask_again(self) -> None:
        """Asks pods again whose engines were about to take a configuration."""
        await asyncio.gather(*(self._ask(push, keep=False) for push in self._rechecks.due(self._clock())))

    async def _ask(self, push: Push, keep: bool) -> None:
        with self._failure_is_its_own(push.pod):
            report = await self._control.ask(push, keep=keep)
            self._rechecks.asked(push, report, self._clock())
            before = self._cache.snapshot().reports.get(push.pod)
            if before is None or before.told != push.generation:
                return  # It was sent newer documents meanwhile.
            self._heard(push.pod, report)
            if report.foreign:
                self._fault(push.pod, Fault.POD_OVERRIDDEN)
                log.warning(
                    "pod runs documents that the operator did not write",
                    object=str(push.pod),
                    generation=report.generation,
                )
                if before.in_effect:
                    await self._record_overriding(push.pod, report)

    async def _record_overriding(self, pod: Ref, report: Report) -> None:
        """Records an Event about the pod's pool. The documents may come from the pool's Secret, which is not watched:
        it is applied, and so checked, again.
        """
        message = (
            f"{pod.name} ran documents that the operator did not write, as configuration {report.generation}, "
            "and is sent the right ones: find out who reads the pool's Secret"
        )
        world = self._cache.snapshot()
        for pool in refers_to(world.objects[pod]) if pod in world.objects else ():
            if (about := world.get(pool)) is not None:
                keys = Ref(Kind.SECRET, pool.namespace, children_name(pool.name, Kind.SECRET))
                self._cache.doubt({keys}.__contains__)
                with suppress(Unavailable):
                    await self._record(Note(about, EventType.WARNING, Reason.OVERRIDDEN, message))

    async def _program(self, push: Push) -> None:
        if self._kube.seconds_left() <= 0:
            raise Fenced(f"configuration not sent to {push.pod}: another operator may lead")
        report = await self._control.tell(push)
        self._rechecks.told(push, report, self._clock())
        self._heard(push.pod, report)
        if report.generation is None:
            self._fault(push.pod, Fault.POD_NOT_REACHED)
            log.warning(
                "configuration not sent", object=str(push.pod), generation=push.generation, problem=report.problem
            )
        else:
            log.info("configuration sent", object=str(push.pod), generation=report.generation)

    def _heard(self, pod: Ref, report: Report) -> None:
        world = self._cache.snapshot()
        before = world.reports.get(pod)
        if self._cache.report(pod, report):
            measured = None if before is None else concerned_by_figures(world.objects[pod], before, report)
            self._enqueue(affected(world, pod) if measured is None else measured)

    async def _carry_out(self, plan: Plan, ref: Ref) -> None:
        """Carries a plan out. If it sends documents to pods, the status follows with the next reconcile, which knows
        their answers.
        """
        for obj in plan.applies:
            await self._apply(obj, ref)
        for child in plan.deletes:
            if (before := await self._present(child)) is not None:
                await self._kube.delete(before)
                self._wrote("delete", child)
                log.info("deleted", object=str(child))
        if plan.pushes:
            await asyncio.gather(*(self._program(push) for push in plan.pushes))
            self._enqueue(frozenset({ref}))
            return
        await self._tell(plan)

    async def _tell(self, plan: Plan) -> None:
        """Writes statuses and Events."""
        for patch in plan.statuses:
            before = self._cache.snapshot().get(patch.ref)
            answer = None if before is None else await self._kube.apply_status(patch, before)
            if answer is not None:
                self._wrote("status", patch.ref)
                self.seen(answer)
        for note in plan.events:
            await self._record(note)

    async def _record(self, note: Note) -> None:
        self._metrics.events.labels(ref_of(note.about).kind, note.reason).inc()
        try:
            await self._kube.record(note, self._clock())
        except Rejected as error:
            log.warning("event not recorded", object=str(ref_of(note.about)), error=str(error))

    async def _apply(self, obj: Json, asking: Ref) -> None:
        """Applies an object for the resource that is reconciled, whose condition shows a refusal."""
        ref, hash_ = ref_of(obj), obj["metadata"]["annotations"][APPLIED_HASH_ANNOTATION]
        try:
            before = await self._present(ref)
            adoption = Adoption.OURS if before is None else adoption_of(before, obj)
            if adoption is Adoption.GOING:
                raise Unavailable(f"{ref} is being deleted")
            if adoption is Adoption.FOREIGN:
                self._refused(ref, Rejection(hash_, foreign_message(obj), reason=Reason.OBJECT_NOT_OURS), asking)
                return
            added = () if before is None else additions(obj, before)
            contested = bool(added) and not self._contests.may_remove(ref, self._clock())
            if added and not contested:
                added = self._contests.removing(ref, added, self._clock())
            owned = before
            if before is not None and not contested and (owners := disowned(obj, before)) is not None:
                owned = await self._kube.set_owners(before, owners)
            due = differs(obj, before) if contested else needs_apply(obj, before)
            answer = await self._kube.apply(obj, owned) if due else before
        except Rejected as error:
            self._refused(ref, Rejection(hash_, str(error)), asking)
            return
        assert answer is not None
        self._cache.accept(ref)
        self.seen(answer)
        if before is None or version_of(answer) != version_of(before):
            self._wrote("apply", ref)
            log.info("applied", object=str(ref), version=version_of(answer))
        if contested:
            self._refused(ref, Rejection(hash_, contested_message(obj, added), reason=Reason.FIELDS_ADDED), asking)
        elif added:
            self._contests.removed(ref, self._clock())
            await self._record_removal(obj, added, asking)

    async def _record_removal(self, obj: Json, found: tuple[Addition, ...], asking: Ref) -> None:
        message = removed_message(obj, found)
        self._fault(ref_of(obj), Fault.OBJECT_OVERRIDDEN)
        log.warning("fields removed", object=str(ref_of(obj)), fields=[each.path for each in found])
        if (about := self._cache.snapshot().get(asking)) is not None:
            with suppress(Unavailable):
                await self._record(Note(about, EventType.WARNING, Reason.FIELDS_REMOVED, message))

    def _refused(self, ref: Ref, rejection: Rejection, asking: Ref) -> None:
        self._cache.reject(ref, rejection)
        self._enqueue(affected(self._cache.snapshot(), ref) | {asking})
        self._fault(ref, Fault.REJECTED)
        log.warning("refused", object=str(ref), error=rejection.message)

    async def _present(self, ref: Ref) -> Json | None:
        """Returns the object: from the cache if it is watched, otherwise from the API server. None if it does not
        exist.
        """
        known = self._cache.snapshot().get(ref)
        if ref.kind is Kind.SECRET and ref.namespace != self._key_namespace:
            return await self._kube.look(ref)
        if known is None or ref.kind in OPTIONAL_KINDS:
            return await self._kube.get(ref)
        return known

    async def _list_everywhere(self, kind: Kind) -> None:
        namespaces = self._namespaces if kind.namespaced else None
        for namespace in ("",) if namespaces is None else namespaces:
            await self._list(kind, namespace)

    async def _list(self, kind: Kind, namespace: str) -> None:
        listed, version = await self._kube.list(kind, namespace, selector_for(kind))
        for obj in listed:
            self.seen(obj)
        gone = self._cache.missing(
            listed, version, lambda ref: ref.kind is kind and (not namespace or ref.namespace == namespace)
        )
        for obj in gone:
            self.gone(obj)

    async def _list_installed(self) -> None:
        """Lists objects of the optional kinds. A kind that is being added or removed may not answer: it stays as it was
        until the next time.
        """
        before = self._cache.snapshot().installed
        installed: set[Kind] = set()
        for kind in await self._kube.installed(OPTIONAL_KINDS):
            try:
                await self._list_everywhere(kind)
            except Unavailable:
                installed |= before & {kind}
            except Rejected as error:
                log.warning("not listed", kind=kind, error=str(error))
                installed |= before & {kind}
            else:
                installed.add(kind)
        self._cache.set_installed(frozenset(installed))

    def _wrote(self, verb: str, ref: Ref) -> None:
        self._metrics.writes.labels(verb, ref.kind).inc()

    def _fault(self, ref: Ref, fault: Fault) -> None:
        self._metrics.faults.labels(ref.kind, fault).inc()

    def _enqueue_all(self) -> None:
        for kind in OWN_KINDS:
            self._enqueue(frozenset(self._cache.snapshot().objects.of(kind)))

    def _enqueue(self, refs: frozenset[Ref]) -> None:
        for ref in refs:
            self._queue.add(ref)
