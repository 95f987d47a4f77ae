"""One engine: its queue (a :class:`Line` with its policy), its batch, its steps and its own clock.

At a look at the queue the policy's head is admitted while there is a seat and it fits by the profile's rule of
admission; the head that does not fit blocks, unless the policy names a running request that gives way. Then a step:

- *whole prompts* (no token budget): those just admitted are prefilled in a step of their own, which yields each one's
  first token; else all running requests decode one token. The queue is looked at when nothing runs, and from
  `decode_steps_per_admission` decode steps after the last admission on before every step, until something is admitted.
- *mixed* (token budget): one token for each decoding request, then prompts in order of admission, in chunks, then new
  requests while budget remains; the queue is looked at before every step, unless a request had just to be preempted
  for lack of KV. A prompt's last chunk yields its first token. KV of paused runs makes way for both (`KeptContexts`).
- *mixed behind a front*: the policy's order is kept in front, which hands requests over at any moment. To the policy a
  request is admitted then, and it hears of no preemption. The engine takes what has reached it by priority number, and
  preempts by it.

Before a step each of its requests takes the blocks for what it will hold after it, the token it yields included (vLLM
writes that one's KV a step later). If there are not enough, the policy's victim is preempted until it fits. Preempted
requests wait again and keep what they have produced. A request leaves, with its KV, at the end of its last step.

Decode steps of an unchanged batch are served as one jump, with the exact sum of their durations: up to the first
finish, or lack of blocks, or the next sample; a new request ends it with the step under way, so that the policy hears
of it then. While requests wait that the last look did not admit, only the policy's order, the batch's peak or what is
kept could change: such a jump ends after `LONGEST_JUMP_WHILE_WAITING` steps. If nobody has looked since something
changed, it ends at the next look. A front may look at any moment, so behind one there are no jumps.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial

from justitia_scheduling.core.kept import KeptContexts
from justitia_scheduling.core.model import Progress, Step
from justitia_scheduling.core.policy import Policy
from justitia_simulator.blocks import BlockPool
from justitia_simulator.contexts import TextName
from justitia_simulator.front import EngineFront
from justitia_simulator.inference import Inference, Plan, StepUnderWay
from justitia_simulator.line import Line
from justitia_simulator.occupancy import AdmissionRule, peak_tokens, reserved_tokens
from justitia_simulator.profiles import EngineProfile, Preemption
from justitia_vocabulary.units import RequestId, RunId, Seconds, Tokens

LONGEST_JUMP = 10_000
LONGEST_JUMP_WHILE_WAITING = 20


class Replica:
    """An engine that is told its requests and asked for `end`, the moment of its next decision.

    `queued` counts what is `waiting` in its line, by tenant; `began` are those whose first token came with the last
    step. Those `given` to the engine by its `front`, and not in the batch, neither wait nor run.
    """

    def __init__(self, line: Line, profile: EngineProfile, kv_tokens: Tokens) -> None:
        self.line = line
        policy = line.policy
        self.profile = profile
        self.pool = BlockPool(kv_tokens, profile.block_size, keep=profile.prefix_cache)
        policy.in_cache = self._in_cache if profile.prefix_cache and profile.front is None else None
        self._kept: KeptContexts[TextName] = KeptContexts(policy)
        self.running: dict[RequestId, Inference] = {}
        self.waiting, self.queued = line.waiting, line.queued
        self.given: dict[RequestId, Inference] = {}
        self.front = None if profile.front is None else EngineFront(line, profile.front.latency)
        self.hand_over: Callable[[Seconds], None] = self._hand_over
        self.began: list[Inference] = []
        self.end: Seconds | None = None
        self._step: StepUnderWay | None = None
        self._delay: Seconds = 0.0
        self._to_look = 0
        self._looked = False

    # What the front tells.

    def submit(self, request: Inference, moment: Seconds) -> None:
        """A request is ready. The policy hears of it at the next decision, behind a front at once."""
        if self.front is None or self._step is None:
            self.line.submit(request)
            self.interrupt(moment)
        else:
            self.line.take_in(request, moment)
            self.policy.time_passed(moment)
            self.hand_over(moment)

    def give(self, name: RequestId, now: Seconds) -> None:
        """The front hands a request that waits over to this engine."""
        assert self.front is not None
        self.front.hand_over(name, now)
        request = self.given[name] = self.line.dequeue(name)
        request.admitted = now
        self.policy.admitted(name, now)
        if self._step is None:
            self.end = self.front.next_comes(now) or now

    def run_ended(self, run: RunId, moment: Seconds) -> None:
        """The run is over. Between steps the policy hears of it at once, else at the next decision."""
        self._kept.run_ended(run, moment)
        self.line.run_ended(run, moment if self._step is None else None)

    def interrupt(self, moment: Seconds) -> None:
        """Decide at `moment`, if idle. A jump ends with the first of its steps that ends then or later."""
        step = self._step
        if step is None or step.steps == 1:
            self.end = moment if step is None else self.end
            return
        shorter = range(1, step.steps)
        found = bisect_left(shorter, moment, key=lambda steps: step.start + self._duration(step, steps))
        if found < len(shorter):
            self._jump_to(step, shorter[found])

    # Its decisions.

    def decide(self, now: Seconds, until: Seconds) -> None:
        """Between steps: hear what came, look at the queue if it is time, and begin the next step.

        A jump ends before `until` if it can.
        """
        self.line.hear(now)
        self.policy.time_passed(now)
        budget = self.profile.token_budget
        plan = self._plan_whole(now) if budget is None else self._plan_mixed(now, budget)
        self.end = None
        if plan.decoding or plan.prefill:
            self._begin(plan, now, until)
            held = self.policy.held_until() if self.waiting else None
            if held is not None:
                self.interrupt(held)
        else:
            held = self.policy.held_until() if self.waiting else None
            comes = None if self.front is None else self.front.next_comes(now)
            self.end = min((m for m in (held, comes) if m is not None and m > now), default=None)

    def complete(self) -> list[Inference]:
        """The step under way has ended: tell the policy. Returns the requests that it finished."""
        step, now = self._step, self.end
        assert step is not None
        assert now is not None
        self._step = None
        steps = step.steps
        self._kept.iterations += steps
        progress = []
        for request in step.decoding:
            request.produced += steps
            request.computed += steps
            self.pool.grow(request.holding, request.computed)
            progress.append(Progress(request.id, produced=steps))
        for request, tokens in step.prefill.items():
            progress.append(self._prefilled(request, tokens, now))
        self.began = [r for r in step.prefill if r.first_token == now]
        if self.front is not None:
            for request in self.began:
                self.front.begun(request.id, now, step.duration)
        if step.decoding:
            self._to_look = max(self._to_look - steps, 0)
        self.policy.stepped(Step(progress, step.duration), now)
        done = [r for r in self.running.values() if r.produced == r.work.output_tokens]
        for request in done:
            let_go = partial(self.pool.release, request.holding, request.written)
            if self.profile.keep_paused and request.work.context is not None:
                worth = self.profile.rereading(request.written, self.pool.total * self.pool.block_size)
                context, run = request.origin.own, request.run.id
                self._kept.keep(context, run, request.written, worth=worth, let_go=let_go, now=now)
            else:
                let_go()
            del self.running[request.id]
            if self.front is not None:
                self.front.over(request.id)
        return done

    @staticmethod
    def _prefilled(request: Inference, tokens: Tokens, now: Seconds) -> Progress:
        before = request.computed
        request.computed += tokens
        fresh = max(0, request.computed - max(before, request.processed))
        if request.computed < request.target:
            return Progress(request.id, prefilled=fresh, recomputed=tokens - fresh)
        if request.first_token < 0:
            request.first_token = now
        request.computed += 1
        request.produced += 1
        return Progress(request.id, prefilled=fresh, recomputed=tokens - fresh, produced=1)

    # Steps.

    def _plan_whole(self, now: Seconds) -> Plan:
        plan = Plan(sys.maxsize)
        self._looked = not self._to_look or not self.running
        if self._looked:
            self._admit(plan, now)
            if plan.decoding or plan.prefill:
                self._to_look = self.profile.decode_steps_per_admission
            plan.decoding.clear()
            if plan.prefill:
                return plan
        if self._plan_running(plan, now):
            self._looked = False
        return plan

    def _plan_mixed(self, now: Seconds, budget: Tokens) -> Plan:
        plan = Plan(budget)
        if self.front is not None:
            self.hand_over(now)
        self._looked = not self._plan_running(plan, now)
        if self._looked and self.front is not None:
            self._take(self.front, plan, now)
        elif self._looked:
            self._admit(plan, now)
        return plan

    def _plan_running(self, plan: Plan, now: Seconds) -> bool:
        """Give running requests their tokens. True if one was preempted for it."""
        preempted = False
        batch = list(self.running.values())
        for request in [r for r in batch if r.computed > r.target] + [r for r in batch if r.computed <= r.target]:
            while plan.left and request.id in self.running and not self._allot(plan, request):
                if self._kept.make_room(None, now):
                    continue
                preempted = True
                victim = self.line.victim(self.running) if self.front is None else self.front.victim(self.running)
                if victim is None or len(self.running) < 2:
                    raise RuntimeError(f"request {request.id!r} does not fit though it runs alone")
                self._preempt(plan, victim, now)
        return preempted

    def _allot(self, plan: Plan, request: Inference) -> bool:
        """Take blocks for the request's part of the step. False if there are not enough."""
        missing = request.target - request.computed
        if missing < 0:
            if not self.pool.grow(request.holding, request.computed + 1):
                return False
            plan.decoding.append(request)
            plan.left -= 1
            return True
        tokens = min(missing, plan.left)
        if not self.pool.grow(request.holding, request.computed + tokens + (tokens == missing)):
            return False
        plan.prefill[request] = tokens
        plan.left -= tokens
        return True

    def _hand_over(self, now: Seconds) -> None:
        """Give the engine what the front lets it have at that moment."""
        front = self.front
        while front is not None and (head := self.policy.head()) is not None and front.lets(head):
            self.give(head, now)

    def _take(self, front: EngineFront, plan: Plan, now: Seconds) -> None:
        """Admit what has been handed over."""
        seats = self.profile.max_requests or sys.maxsize
        while plan.left and len(self.running) < seats and (name := front.next(now)) is not None:
            request = self.given[name]
            if not self._fits(request):
                break
            front.taken(name)
            del self.given[name]
            self._join(request, now)
            self._allot_admitted(plan, request)

    def _admit(self, plan: Plan, now: Seconds) -> None:
        seats = self.profile.max_requests
        optimistic = self.profile.admission is AdmissionRule.OPTIMISTIC
        gave_way: set[RequestId] = set()
        while plan.left and (head := self.policy.head()) is not None:
            request = self.waiting[head]
            if (seats is None or len(self.running) < seats) and self._room_for(request, now):
                self._start(request, now)
                self._allot_admitted(plan, request)
            elif optimistic and (loser := self.policy.gives_way()) in self.running and loser not in gave_way:
                assert loser is not None
                gave_way.add(loser)
                self._preempt(plan, loser, now)
            else:
                break

    def _in_cache(self, name: RequestId) -> Tokens:
        request = self.waiting.get(name)
        return self.pool.cached(request.origin, request.to_read) if request else 0

    def _room_for(self, request: Inference, now: Seconds) -> bool:
        """Whether the request fits, if need be in place of KV that is kept for paused runs."""
        while not (fits := self._fits(request)):
            if not self._kept.make_room(request.run.id if self.running else None, now):
                break
        return fits

    def _fits(self, request: Inference) -> bool:
        if self.profile.admission is AdmissionRule.OPTIMISTIC:
            return self.pool.fits(request.origin, request.to_read, request.to_read + 1)
        size = self.pool.block_size
        shared: dict[TextName, int] = {}
        demands = []
        batch = [*self.running.values(), request]
        for r in batch:
            begins = 0
            for name, tokens in r.origin.ancestors:
                shared[name] = max(shared.get(name, 0), tokens // size - begins)
                begins = tokens // size
            produced = max(r.produced, 1)
            own = r.work.prompt_tokens + produced - begins * size
            remaining = r.work.output_tokens - produced
            demands.append((own, remaining + -(own + remaining) % size))
        for r in batch:
            shared.pop(r.origin.own, None)
        need = peak_tokens if self.profile.admission is AdmissionRule.PEAK else reserved_tokens
        return need(demands) + sum(shared.values()) * size <= self.pool.total * size

    def _allot_admitted(self, plan: Plan, request: Inference) -> None:
        if not self._allot(plan, request):
            raise RuntimeError(f"request {request.id!r} was admitted and does not fit")

    def _start(self, request: Inference, now: Seconds) -> None:
        """Admit the request."""
        self.line.dequeue(request.id)
        if request.admitted < 0:
            request.admitted = now
        self.policy.admitted(request.id, now, min(self._join(request, now), request.work.prompt_tokens))

    def _join(self, request: Inference, now: Seconds) -> Tokens:
        """Put the request into the batch: it holds what the cache has of it, whose tokens are returned, and what was
        swapped out comes back.
        """
        self.running[request.id] = request
        self._kept.give_up(request.origin.own, now)
        request.holding = self.pool.hold(request.origin, request.to_read)
        cached = request.holding.cached
        if not request.preemptions:
            request.cached = cached
            self._delay += self.profile.per_request
        if request.computed > cached:
            self._delay += self.profile.swap_per_token * (request.computed - cached)
            self.pool.grow(request.holding, request.computed)
        else:
            request.computed = cached
            request.target = request.to_read
        request.processed = max(request.processed, cached)
        return cached

    def _preempt(self, plan: Plan, name: RequestId, now: Seconds) -> None:
        request = self.running.pop(name)
        self.pool.release(request.holding, request.written)
        plan.drop(request)
        request.preemptions += 1
        request.processed = max(request.processed, request.computed)
        match self.profile.preemption:
            case Preemption.RECOMPUTE:
                request.computed = 0
            case Preemption.SWAP:
                self._delay += self.profile.swap_per_token * request.computed
        if self.front is None:
            self.line.queue(request)
            self.policy.preempted(name, now)
        else:
            self.given[name] = request
            self.front.preempted(name, now)

    def _begin(self, plan: Plan, now: Seconds, until: Seconds) -> None:
        prefilled = sum(plan.prefill.values())
        kv_read = sum([r.computed for r in plan.decoding]) + sum([r.computed for r in plan.prefill])
        attended = sum([tokens * (r.computed + tokens / 2) for r, tokens in plan.prefill.items()])
        delay = self._delay + self.profile.per_attended * attended
        step = self._step = StepUnderWay(now, plan.decoding, plan.prefill, prefilled, kv_read, delay)
        self._delay = 0.0
        steps = 1
        if not plan.prefill and len(plan.decoding) == len(self.running) and self.front is None:
            steps = self._jump(step, until)
        self._jump_to(step, steps)

    def _jump(self, step: StepUnderWay, until: Seconds) -> int:
        """How many decode steps this batch can make before the next decision."""
        limit = LONGEST_JUMP
        if self.waiting:
            limit = LONGEST_JUMP_WHILE_WAITING if self._looked else max(self._to_look, 1)
            limit = min(limit, self._kept.next_change() or limit)
        limit = min(limit, *[r.work.output_tokens - r.produced for r in step.decoding])
        if step.start + self._duration(step, limit) > until:
            inside = range(2, limit + 1)
            limit = 1 + bisect_right(inside, until, key=lambda steps: step.start + self._duration(step, steps))
        if limit > 1:
            limit = 1 + self.pool.further_steps([r.computed + 1 for r in step.decoding], limit - 1)
        return limit

    def _duration(self, step: StepUnderWay, steps: int) -> Seconds:
        grown = len(step.decoding) * steps * (steps - 1) // 2
        timing = self.profile.timing
        return step.delay + timing.step(step.prefilled, len(step.decoding), step.kv_read * steps + grown, steps)

    def _jump_to(self, step: StepUnderWay, steps: int) -> None:
        step.steps, step.duration = steps, self._duration(step, steps)
        self.end = step.start + step.duration

    @property
    def policy(self) -> Policy:
        return self.line.policy

    @property
    def busy(self) -> bool:
        return self._step is not None

    def room_for(self, key: tuple[float, ...]) -> Tokens:
        """KV tokens that are free when those given to the engine that go before this place have joined its batch."""
        before = [request.to_read for name, request in self.given.items() if self.line.key(name) < key]
        return self.pool.free * self.pool.block_size - sum(before)
