"""Which of a tenant's first requests goes first, where the prefix cache has more of one's prompt than of another's.

What the cache has need not be read again, if it is served before it is evicted. So among the first `CANDIDATES` of a
tenant's requests in order, the one with the smallest

    K - GAIN * rho * cached

goes first: K its run's tag by its tenant's clock, rho the cost of reading a token (`CostModel.prompt_work`), cached the
tokens of its prompt that the cache has. With the stretch for GAIN the tag falls by what reading them again would add to
it; more, because what is read in their place evicts others' in turn. GAIN and CANDIDATES by measurement:
docs/design/turns.md.

Boosted requests are left where they are. The tenant is chosen before, so shares do not depend on it. A run is passed
only by runs of its tenant whose tag is less than `GAIN * rho * cached` behind its own, and a decision asks the cache
`CANDIDATES` times at most.
"""

import math
from collections.abc import Callable, Iterable
from itertools import islice

from justitia_scheduling.core.gps import TICKS
from justitia_scheduling.core.runqueue import RunKey
from justitia_vocabulary.units import RequestId, Tokens

CANDIDATES = 8
GAIN = 50.0


def first_by_cache(
    in_order: Iterable[tuple[RunKey, RequestId]],
    in_cache: Callable[[RequestId], Tokens],
    most: Callable[[RequestId], Tokens],
    worth: float,
) -> RequestId:
    """The request to serve; `worth` is rho. Equals: in order. Only those are asked for that `most`, the most that the
    cache can have of one, would bring to the front.
    """
    candidates = list(islice(in_order, CANDIDATES))
    key, first = candidates[0]
    if not key[0]:
        return first
    each, best = GAIN * worth * TICKS, math.inf
    for (_, tag, *_), request in candidates:
        if tag - each * most(request) < best and (place := tag - round(each * in_cache(request))) < best:
            best, first = place, request
    return first
