"""What is told about a call late, twice, or by somebody who knows an earlier state of it."""

from __future__ import annotations

import pytest

from penstock.engine.call import CallRow, Fact, NewCall, intended, learn

NOW = 1_000.0


def call(state: str = "intent", **details: object) -> CallRow:
    row = intended(
        NewCall(remote="batch", key="rows", attempt=1, estimate=50, window=60.0, proof_after=10.0),
        None,
        job="job",
        tenant="default",
        workflow="pages",
        epoch=1,
        now=NOW,
    )
    row.state = state
    for name, value in details.items():
        setattr(row, name, value)
    return row


def tell(row: CallRow, kind: str, **details: object) -> bool:
    return learn(row, Fact(call=row.id, kind=kind, **details), now=NOW + 1, superseded=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["refused", "absent", "lost", "doubted"])
def test_what_is_said_of_an_earlier_intent_does_not_count_for_a_later_one(kind: str) -> None:
    row = call()
    earlier = row.submit_before
    assert tell(row, "refused", intent=earlier)
    again = intended(
        NewCall(remote="batch", key="rows", attempt=1),
        row,
        job="job",
        tenant="default",
        workflow="pages",
        epoch=2,
        now=NOW + 5,
    )

    assert not tell(again, kind, intent=earlier)
    assert again.state == "intent"
    assert tell(again, kind, intent=again.submit_before)


@pytest.mark.parametrize("state", ["intent", "submitted", "running", "overdue", "succeeded"])
def test_a_live_call_is_not_forgotten_by_who_found_nothing(state: str) -> None:
    row = call(state, due=NOW + 30)

    tell(row, "checked")

    assert row.due == NOW + 30


@pytest.mark.parametrize("state", ["collected", "failed", "expired", "cancelled", "lost", "quarantined"])
def test_what_has_ended_is_not_looked_at_again(state: str) -> None:
    row = call(state, due=None, provider_id="p1")

    tell(row, "checked", look_in=0.0)

    assert row.due is None


def test_a_result_comes_home_though_its_call_was_thought_unsent() -> None:
    row = call("unsent")

    assert tell(row, "collected", result="1", cost=7)
    assert (row.state, row.cost) == ("collected", 7)


@pytest.mark.parametrize("state", ["absent", "cancelled", "discarded", "lost", "failed"])
def test_what_a_late_result_cost_is_booked_whatever_became_of_its_call(state: str) -> None:
    row = call(state)

    assert tell(row, "collected", result="1", cost=7)
    assert (row.state, row.cost) == (state, 7)
