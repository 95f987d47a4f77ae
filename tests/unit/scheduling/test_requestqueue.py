"""The queue of waiting requests against a sorted list."""

import random

from justitia_scheduling.core.model import Request, Run
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.requestqueue import RequestQueue
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

RUN = OpenRun(Run(RunId("r"), TenantId("t"), ApplicationId("a")), 0, 0.0)


def request(number: int) -> OpenRequest:
    return OpenRequest(Request(RequestId(f"q{number}"), RUN.id, 1), RUN, number, 0.0)


def test_it_answers_as_a_sorted_list_does_whatever_came_and_left() -> None:
    source = random.Random(1)
    queue, waiting = RequestQueue(), dict[RequestId, tuple[float, int]]()
    known = [request(i) for i in range(300)]
    for _ in range(5000):
        one = source.choice(known)
        if one.id in waiting:
            queue.remove(one)
            del waiting[one.id]
        else:
            key = float(source.randrange(20))
            queue.push(one, key)
            waiting[one.id] = (key, one.sequence)
        expected = sorted(waiting, key=lambda r: waiting[r])
        assert queue.head() == (expected[0] if expected else None)
        assert queue.first() == ((waiting[expected[0]][0], expected[0]) if expected else None)
    assert list(queue.in_order()) == expected


def test_entries_that_are_out_of_date_do_not_pile_up() -> None:
    queue, one = RequestQueue(), request(1)
    queue.push(request(2), 0.0)
    for i in range(10_000):
        queue.push(one, float(i))
        queue.remove(one)
    assert len(queue._heap) < 100
