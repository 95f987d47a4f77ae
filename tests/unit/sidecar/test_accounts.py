"""Accounts of what the engine does for requests are kept until it has said all, and no longer."""

import pytest

from justitia_api.config import ApplicationConfig
from justitia_channel.messages import Closed
from justitia_sidecar.admission.accounts import EngineAccount, EngineAccounts
from justitia_sidecar.admission.runs import RunTable
from justitia_vocabulary.units import RequestId, TenantId
from support.tracked import tracked_request

A = RequestId("a")


def opened(accounts: EngineAccounts, name: str = A, *, instance: str = "one", sequences: int = 1) -> EngineAccount:
    runs = RunTable(lambda run, now: None, lambda run, now: None)
    application = ApplicationConfig(namespace="ns", name="chat", tenant="gold")
    run = runs.enter(TenantId("gold"), application, None, 0.0)
    account = EngineAccount(tracked_request(name, run, sequences=sequences), instance, gaps=0)
    accounts.opened(account)
    return account


def closes(sequence: int = 0) -> Closed:
    return Closed(A, sequence, True, 50, 0, 10, 0, 1.0)


@pytest.mark.parametrize("first", ["the request", "its sequences"])
def test_an_account_is_gone_when_the_request_and_all_its_sequences_are_over(first: str) -> None:
    accounts = EngineAccounts()
    account = opened(accounts, sequences=2)
    if first == "the request":
        accounts.left(A)
    for sequence in (0, 1):
        assert len(accounts) == 1
        assert accounts.heard(closes(sequence)) is account
    if first == "its sequences":
        assert len(accounts) == 1
        accounts.left(A)
    assert (len(accounts), accounts.get(A)) == (0, None)
    assert accounts.heard(closes()) is None


def test_a_sequence_is_counted_once() -> None:
    accounts = EngineAccounts()
    account = opened(accounts, sequences=2)
    assert accounts.heard(closes()) is account
    assert accounts.heard(closes()) is None
    assert (account.produced, account.complete) == (10, False)


def test_what_another_engine_had_is_not_waited_for() -> None:
    accounts = EngineAccounts()
    gone = opened(accounts, "a", instance="one")
    for name, instance in (("b", "two"), ("c", "")):
        opened(accounts, name, instance=instance)
    for name in "abc":
        accounts.left(RequestId(name))
    assert accounts.forget_all_but("two") == [gone]
    assert [account.request.id for account in accounts.over] == ["b", "c"]
