"""The censored mean."""

from justitia_scheduling.estimate import FIRST_ESTIMATE, FIRST_OUTPUT, CensoredMean, OutputMean
from justitia_scheduling.model import ApplicationId, Run, RunId, TenantId
from justitia_scheduling.policy import OpenRun

A, B = ApplicationId("a"), ApplicationId("b")


def run(name: str, application: ApplicationId = A) -> OpenRun:
    return OpenRun(Run(RunId(name), TenantId("t"), application), 0, 0.0)


def attain(estimates: CensoredMean, of: OpenRun, cost: float) -> None:
    of.attained += cost
    estimates.attained(of, cost)


def test_before_anything_has_finished_every_application_starts_at_the_first_estimate() -> None:
    assert CensoredMean().estimate(A) == FIRST_ESTIMATE


def test_open_runs_count_with_what_they_have_attained() -> None:
    estimates, done, long = CensoredMean(), run("done"), run("long")
    attain(estimates, done, 100)
    attain(estimates, long, 900)
    estimates.ended(done)
    assert estimates.estimate(A) == 1000
    estimates.ended(long)
    assert estimates.estimate(A) == 500


def test_a_young_application_takes_the_larger_of_the_pools_mean_and_its_own_revised_estimate() -> None:
    estimates, other, own = CensoredMean(), run("other", B), run("own")
    attain(estimates, other, 100)
    estimates.ended(other)
    assert estimates.estimate(A) == 100
    estimates.revised(own, 700)
    assert estimates.estimate(A) == 700


def test_an_aborted_run_leaves_no_trace() -> None:
    estimates, done, gone = CensoredMean(), run("done"), run("gone")
    attain(estimates, done, 100)
    attain(estimates, gone, 5000)
    gone.aborted = True
    estimates.ended(done)
    estimates.ended(gone)
    assert estimates.estimate(A) == 100


def test_the_mean_output_is_the_applications_own_else_the_pools_else_the_first() -> None:
    outputs = OutputMean()
    assert outputs.estimate(A) == FIRST_OUTPUT
    outputs.finished(A, 10)
    outputs.finished(A, 20)
    assert outputs.estimate(A) == outputs.estimate(B) == 15
    outputs.finished(B, 3)
    assert (outputs.estimate(A), outputs.estimate(B)) == (15, 3)
