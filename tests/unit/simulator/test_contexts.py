"""Which texts a run's prompts consist of."""

from justitia_simulator.contexts import Contexts, Origin, TextName
from justitia_simulator.workload import WorkloadRequest
from justitia_vocabulary.units import RunId

SYSTEM: TextName = ("", "system")
MAIN: TextName = ("r", "main")


def ask(
    prompt: int, output: int = 5, prefix: str | None = None, known: int = 0, context: str | None = None
) -> WorkloadRequest:
    return WorkloadRequest(prompt, output, prefix, known, {}, context)


def origins(*stages: list[WorkloadRequest]) -> list[Origin]:
    contexts = Contexts(RunId("r"))
    return [origin for stage in stages for origin in contexts.follow(stage)]


def test_a_request_that_names_nothing_has_a_text_of_its_own() -> None:
    assert origins([ask(10), ask(10)], [ask(10)]) == [Origin((), ("r", n)) for n in range(3)]


def test_a_conversation_stays_one_text_after_its_system_prompt() -> None:
    first, second = origins([ask(100, 5, "system", 80, "main")], [ask(120, 5, "main", 105, "main")])
    assert first == second == Origin(((SYSTEM, 80),), MAIN)


def test_a_branch_takes_from_every_text_before_it_what_it_has_of_it() -> None:
    stages = [ask(100, 5, "system", 80, "main")], [ask(130, 5, "main", 90), ask(70, 5, "main", 60, "short")]
    _, long, short = origins(*stages)
    assert long == Origin(((SYSTEM, 80), (MAIN, 90)), ("r", 1))
    assert short == Origin(((SYSTEM, 60),), ("r", "short"))


def test_the_last_token_of_a_prompt_is_never_shared() -> None:
    assert origins([ask(80, 5, "system", 80)]) == [Origin(((SYSTEM, 79),), ("r", 0))]


def test_requests_of_one_stage_do_not_see_each_others_output() -> None:
    stages = [ask(10, 5, context="main")], [ask(20, 5, "main", 15, "main"), ask(16, 5, "main", 15)]
    _, going_on, beside = origins(*stages)
    assert going_on == Origin((), MAIN)
    assert beside == Origin(((MAIN, 15),), ("r", 2))


def test_texts_of_two_runs_are_never_the_same_unless_both_name_a_shared_one() -> None:
    [mine] = Contexts(RunId("a")).follow([WorkloadRequest(10, 5, None, 0, {}, "main")])
    [theirs] = Contexts(RunId("b")).follow([WorkloadRequest(10, 5, None, 0, {}, "main")])
    assert mine != theirs
