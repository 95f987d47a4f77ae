"""VTC with length prediction: a request's whole predicted charge is on its tenant's counter from admission on.

Source: VTC, Algorithm 3. While a request is open, it stands in its tenant's counter with

    max(predicted charge, charge so far) / weight

and when it ends, with what it was charged: tokens beyond the prediction raise the counter as they come, an unused
prediction is refunded, at the weight it was entered with. Only the counter is predicted; `service` stays what was
charged. The predicted charge is the cost model's for the prompt and the predicted output.

Predicted output: the mean of the tenant's last five finished outputs, none before its first (then it is plain VTC);
in the oracle variant the true length.

Bounds (requests reserve their whole output at admission, no preemption), while f and g both wait: with L the most that
one request is charged, predicted or true, E the most by which the requests in the engine outgrow their predictions, R
the most by which they fall short of them,

    c_f - c_g <= (L + E) / weight_f + R / (smallest weight)

f is admitted at `c_f <= c_g` and then grows by that request and by E; what waits falls by refunds only. True lengths
leave `L / weight_f`, where plain VTC has U / weight_f: that is what prediction is for. The services in an interval
differ by at most the two one-sided bounds and what stands on the counters in advance, at most U / weight each.
"""

from collections import deque
from dataclasses import dataclass
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.policies.vtc import VTC
from justitia_vocabulary.units import RequestId, Seconds, TenantId, Tokens

RECENT_OUTPUTS = 5


@dataclass(slots=True)
class _Advance:
    """What the counter holds for a request beyond what it was charged, and the weight it was entered with."""

    left: float
    weight: float


class PredictedVTC(VTC):
    """A tenant's counter has the predicted charges of its open requests."""

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._recent: dict[TenantId, deque[Tokens]] = {}
        self._advances: dict[RequestId, _Advance] = {}

    def predicted_output(self, request: OpenRequest) -> Tokens:
        recent = self._recent.get(request.tenant)
        return round(sum(recent) / len(recent)) if recent else 0

    def admitted(self, request_id: RequestId, now: Seconds, cached_tokens: Tokens = 0) -> None:
        super().admitted(request_id, now, cached_tokens)
        request = self.running[request_id]
        if request.preemptions:
            return
        prompt = request.request.prompt_tokens - request.cached
        whole = self.cost_model.whole(prompt, self.predicted_output(request), len(self.running))
        advance = whole - request.charged
        if advance > 0:
            weight = self.weight(request.tenant)
            self._advances[request_id] = _Advance(advance, weight)
            self.counters.charge(request.tenant, advance, weight)

    def on_charged(self, request: OpenRequest, charge: float) -> None:
        advance = self._advances.get(request.id)
        if advance is not None:
            used = min(charge, advance.left)
            advance.left -= used
            charge -= used
        if charge:
            super().on_charged(request, charge)

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        if finished:
            self._recent.setdefault(request.tenant, deque(maxlen=RECENT_OUTPUTS)).append(request.produced)
        self._settle(request)

    def _settle(self, request: OpenRequest) -> None:
        advance = self._advances.pop(request.id, None)
        if advance is not None and advance.left:
            self.counters.charge(request.tenant, -advance.left, advance.weight)


class OracleVTC(PredictedVTC):
    """VTC with length prediction, where every prediction is the true length."""

    oracle: ClassVar[bool] = True

    def predicted_output(self, request: OpenRequest) -> Tokens:
        told = request.request.predicted_output
        return super().predicted_output(request) if told is None else round(told)
