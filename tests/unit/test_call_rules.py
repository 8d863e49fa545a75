"""The pure rules of remote calls and budgets: the state machine, what a call holds, and whether it may be made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from penstock.engine import budget
from penstock.engine.call import (
    DECISIONS,
    ENDED,
    LIVE,
    MOVES,
    REPEATED,
    RESTING,
    STATES,
    CallRow,
    Fact,
    Hold,
    NewCall,
    Usage,
    call_id,
    decided_before,
    held_also,
    held_by,
    intended,
    learn,
    may_send,
    may_turn_up,
    view,
)
from penstock.engine.errors import Blocked, Conflict, InvalidRequest, OverBudget, Permanent
from penstock.engine.identity import storable
from penstock.remote.desk import next_attempt

NOW = 1_000.0
QUIET = ("missed", "unwanted", "checked")
PAIRS = [(state, kind) for state in STATES for kind in MOVES]


def call(state: str, **options: Any) -> CallRow:
    row = CallRow("c", "acme", "j", "draw", "batch", "k", options.pop("attempt", 1), 1.0, state)
    return replace(row, **{"provider_id": "p", **options})


def new(attempt: int = 1, **options: Any) -> NewCall:
    return NewCall(remote="batch", key="k", attempt=attempt, **options)


def told(row: CallRow, kind: str, *, superseded: bool = False, **options: Any) -> bool:
    return learn(row, Fact(call=row.id, kind=kind, **options), now=NOW, superseded=superseded)


def test_every_state_is_live_ended_or_unsent() -> None:
    assert LIVE | ENDED | {"unsent"} == set(STATES) and not LIVE & ENDED
    assert REPEATED < ENDED and {"quarantined"} == RESTING & LIVE
    for moves in MOVES.values():
        assert moves.keys() | set(moves.values()) <= set(STATES)


@pytest.mark.parametrize(("state", "kind"), PAIRS)
def test_a_fact_moves_a_call_as_the_table_says_and_else_not_at_all(state: str, kind: str) -> None:
    row = call(state)
    if kind in DECISIONS and state != "quarantined":
        with pytest.raises(Conflict, match="only a quarantined call"):
            told(row, kind)
        assert row == call(state)
        return
    after = MOVES[kind].get(state)
    changed = told(row, kind, cost=5)
    assert row.state == (after or state)
    if kind == "collected" and after is None and state in ENDED - {"collected"}:
        assert changed and replace(row, cost=0) == call(state), "what it cost lands, whatever it was taken for"
    elif after is None and kind not in QUIET:
        assert not changed and row == call(state), "what does not fit changes nothing"


def test_nothing_leaves_the_live_states_without_being_told() -> None:
    """Rule 4: a look that told nothing, a wish or a doubt frees no work."""
    for kind in (*QUIET, "doubted", "running", "late", "succeeded", "sent", "found"):
        for state in sorted(LIVE):
            row = call(state)
            told(row, kind)
            assert row.state in LIVE, (state, kind)


def test_what_nobody_heard_of_ends_only_by_proof() -> None:
    ends = {kind for kind, moves in MOVES.items() if moves.get("intent") in ENDED}
    assert ends == {"absent", "lost", "collected"}


def test_only_a_person_or_the_other_side_ends_a_quarantine() -> None:
    ends = {kind for kind, moves in MOVES.items() if "quarantined" in moves}
    assert ends == {*DECISIONS, "sent", "found", "succeeded", "collected", "failed", "expired", "cancelled"}


def test_an_unknown_fact_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="guessed"):
        told(call("running"), "guessed")


def test_a_call_is_adopted_only_with_the_id_it_has_there() -> None:
    with pytest.raises(InvalidRequest, match="say the id"):
        told(call("quarantined", provider_id=None), "adopt")
    row = call("quarantined", provider_id=None)
    assert told(row, "adopt", provider_id="p9", actor="me")
    assert (row.state, row.provider_id, row.decided_by) == ("submitted", "p9", "me")
    assert decided_before(row, Fact(call="c", kind="adopt", actor="me"))
    assert not decided_before(row, Fact(call="c", kind="adopt", actor="you"))
    assert not decided_before(call("quarantined", decided_by="me"), Fact(call="c", kind="adopt", actor="me"))


@pytest.mark.parametrize("ended", sorted(ENDED))
def test_what_has_ended_is_looked_at_no_more_unless_it_may_turn_up(ended: str) -> None:
    for kind, moves in MOVES.items():
        for state in (state for state, after in moves.items() if after == ended):
            row = call(state, due=5.0)
            told(row, kind, look_in=60.0)
            assert row.finished == NOW
            assert row.due == (NOW + 60 if ended in ("absent", "discarded") else None), (state, kind)


def test_what_turns_up_and_is_discarded_again_is_looked_for_no_more() -> None:
    row = call("quarantined")
    told(row, "discard", look_in=60.0, actor="me")
    assert (row.state, row.due) == ("discarded", NOW + 60)
    told(row, "found", provider_id="p1", look_in=0.0)
    told(row, "succeeded")
    told(row, "doubted")
    told(row, "discard", look_in=60.0, actor="me")
    assert (row.state, row.due) == ("discarded", None)


def test_a_call_that_was_not_wanted_and_never_arrived_is_cancelled_not_repeated() -> None:
    row = call("intent", unwanted=1)
    told(row, "absent")
    assert row.state == "cancelled"


@pytest.mark.parametrize("kind", ["sent", "found"])
def test_a_call_that_turns_out_to_be_alive_is_wanted_only_if_nothing_replaced_it(kind: str) -> None:
    for state, superseded, unwanted in (("absent", False, 0), ("absent", True, 1), ("cancelled", False, 1)):
        row = call(state, finished=5.0)
        told(row, kind, superseded=superseded)
        assert (row.state, row.unwanted, row.finished, row.due) == ("submitted", unwanted, None, NOW)


def test_amounts_are_settled_when_a_call_ends_and_corrected_when_more_is_known() -> None:
    usage = Usage(10, 5, 2, 1)
    row = call("running", estimate=900)
    told(row, "succeeded", usage=usage, cost=50)
    assert (row.cost, row.input) == (0, 0), "not yet home"
    told(row, "collected", usage=usage, cost=50, result='"x"')
    assert (row.cost, row.input, row.output, row.cached, row.thinking, row.result) == (50, 10, 5, 2, 1, '"x"')
    lost = call("intent", estimate=900)
    told(lost, "lost")
    assert lost.cost == 900, "counted as paid"
    told(lost, "collected", usage=usage, cost=50)
    assert (lost.state, lost.cost, lost.input) == ("lost", 50, 10)
    failed = call("running", estimate=900)
    told(failed, "failed", cost=7)
    assert failed.cost == 7


def test_what_was_seen_of_another_sending_tells_nothing_of_this_one() -> None:
    row = call("intent", submit_before=60.0)
    assert not told(row, "absent", intent=50.0) and row.state == "intent"
    assert told(row, "absent", intent=60.0) and row.state == "absent"


def test_looks_that_tell_nothing_are_counted_until_one_tells_something() -> None:
    row = call("running")
    told(row, "missed")
    told(row, "missed", error="E")
    assert (row.strikes, row.looks, row.error) == (2, 2, "E")
    told(row, "running", done=3, total=9)
    assert (row.strikes, row.error, row.done, row.total) == (0, None, 3, 9)


@given(st.text(max_size=3000))
def test_whatever_the_other_side_says_can_be_stored(said: str) -> None:
    row = call("running")
    told(row, "failed", error=f"\x00\udcff{said}", provider_id=f"\x00{said}")
    assert row.error is not None and storable(row.error) and len(row.error) <= 2000
    assert row.provider_id is not None and storable(row.provider_id)


facts = st.builds(
    Fact,
    call=st.just("c"),
    kind=st.sampled_from(list(MOVES)),
    provider_id=st.sampled_from([None, "p"]),
    error=st.sampled_from([None, "E"]),
    result=st.just("1"),
    usage=st.sampled_from([None, Usage(1, 2, 1, 1)]),
    cost=st.sampled_from([None, 0, 40]),
    look_in=st.sampled_from([None, 0.0, 9.0]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(facts, st.booleans()), max_size=25))
def test_whatever_is_told_in_whatever_order_a_call_stays_whole(story: list[tuple[Fact, bool]]) -> None:
    row = intended(new(estimate=30), None, job="j", tenant="t", workflow="w", epoch=1, now=0.0)
    for step, (fact, superseded) in enumerate(story):
        before = replace(row)
        try:
            changed = learn(row, fact, now=float(step), superseded=superseded)
        except InvalidRequest:
            changed = False
        assert changed or row == before
        assert row.state in STATES and (row.finished is not None) == (row.state in ENDED)
        assert row.due is None or row.state in LIVE or may_turn_up(row)
        assert row.state != "collected" or row.result == "1"
        if row.state != before.state:
            assert MOVES[fact.kind][before.state] == row.state or row.state == "cancelled"
            assert (before.state, before.result) != ("collected", "1"), "what is home stays home"
        view(row)


lasts = st.none() | st.builds(call, st.sampled_from(STATES), attempt=st.integers(1, 12))


@given(lasts, st.integers(1, 4), st.booleans())
def test_the_attempt_that_the_desk_asks_for_is_one_that_may_be_sent(
    last: CallRow | None, attempts: int, resend: bool
) -> None:
    attempt = next_attempt(last, attempts=attempts, resend=resend)
    if attempt is not None:
        assert may_send(last, new(attempt, resend=resend))
        others = (attempt - 1, attempt + 1)
        assert not any(may_send(last, new(other, resend=resend)) for other in others)
    elif last is not None and last.attempt < attempts:
        tries = [new(n, resend=resend) for n in range(1, 20)]
        assert not any(may_send(last, one) for one in tries), "not before its tries are used up"


def test_nothing_is_sent_again_that_is_out_there_or_home_or_given_up() -> None:
    for state in (*LIVE, "collected", "discarded"):
        assert not any(may_send(call(state, attempt=3), new(n)) for n in range(1, 6)), state


def test_a_call_that_was_refused_is_sent_again_under_its_own_name() -> None:
    first = intended(new(), None, job="j", tenant="t", workflow="w", epoch=1, now=0.0)
    told(first, "refused", error="E")
    again = intended(
        new(estimate=5, holds=(Hold("gpu"),), window=10.0, proof_after=7.0),
        replace(first), job="j", tenant="t", workflow="w", epoch=2, now=100.0,
    )  # fmt: skip
    assert again.id == first.id == call_id("j", "k", 1)
    assert (again.state, again.epoch, again.error, again.estimate) == ("intent", 2, None, 5)
    assert (again.submit_before, again.due, held_by(again)) == (110.0, 117.0, [("gpu", 1)])


def test_a_retried_job_holds_its_budget_under_its_new_name() -> None:
    row = call("running", holds='[["budget:job:j",5],["budget:tenant:t",5]]')
    row.job = "j2"
    assert held_by(row) == [("budget:job:j2", 5), ("budget:tenant:t", 5)]
    assert held_also("j2", row.holds, "budget:job:j2", 9) is None
    more = held_also("j2", row.holds, "budget:batch:b", 9)
    assert from_json(more or "") == [["budget:job:j2", 5], ["budget:tenant:t", 5], ["budget:batch:b", 9]]


holdings = st.lists(
    st.builds(
        Hold, st.sampled_from(["a", "b"]), st.integers(1, 20), st.sampled_from([None, 10, 30])
    ),
    max_size=4,
)  # fmt: skip


@given(
    holdings, st.integers(0, 50), st.dictionaries(st.sampled_from(["a", "b", "budget:tenant:t"]), st.integers(0, 30)),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 30)), st.integers(0, 60), st.integers(0, 60),
)  # fmt: skip
def test_what_is_admitted_fits_under_every_limit_and_budget(
    holds: list[Hold], estimate: int, held: dict[str, int], limits: dict[str, int], most: int, spent: int
) -> None:
    asked = new(holds=tuple(holds), estimate=estimate)
    reserved = held.get("budget:tenant:t", 0)
    try:
        admitted = budget.admit(asked, [("tenant:t", most, spent)], held, limits)
    except Permanent:
        assert any(sum(h.amount for h in holds if h.name == name) > 10 for name in ("a", "b")) or limits
    except OverBudget:
        assert reserved == 0 and spent + estimate > most
    except Blocked:
        assert held
    else:
        kept = {hold.name: hold.amount for hold in admitted}
        assert len(kept) == len(admitted), "one for each name"
        assert kept.pop("budget:tenant:t") == estimate and spent + reserved + estimate <= most
        for name, amount in kept.items():
            assert amount == sum(hold.amount for hold in holds if hold.name == name)
            bounds = [hold.most for hold in holds if hold.name == name and hold.most is not None]
            bounds = bounds or ([limits[name]] if name in limits else [])
            assert all(held.get(name, 0) + amount <= bound for bound in bounds)


def test_a_refusal_says_what_is_in_the_way_and_what_to_do() -> None:
    asked = new(holds=(Hold("tokens", 60, 100),), estimate=2_000_000)
    with pytest.raises(Blocked, match="tokens: 50 of 100 in use, this call needs 60"):
        budget.admit(asked, [], {"tokens": 50}, {})
    with pytest.raises(Permanent, match="split it"):
        budget.admit(new(holds=(Hold("tokens", 60, 100), Hold("tokens", 60, 100))), [], {}, {})
    with pytest.raises(Blocked, match=r"budget tenant:t: \$1.00 of \$3.50 spent, \$1.00 reserved"):
        budget.admit(asked, [("tenant:t", 3_500_000, 1_000_000)], {"budget:tenant:t": 1_000_000, "tokens": 40}, {})
    with pytest.raises(OverBudget, match=r"raise it to at least \$3.00"):
        budget.admit(asked, [("tenant:t", 2_500_000, 1_000_000)], {}, {})


def test_a_budget_belongs_to_a_tenant_a_job_or_a_batch() -> None:
    assert budget.scopes_of("t", "j", None) == ["tenant:t", "job:j"]
    assert budget.scopes_of("t", "j", "b") == ["tenant:t", "job:j", "batch:b"]
    for scope in budget.scopes_of("t", "j", "b"):
        assert budget.scope_of(budget.hold_name(budget.checked_scope(scope))) == scope
    assert budget.scope_of("resource:gpu") is None
    for wrong in ("", "tenant:", "workflow:w", "t", "job:a\x00b"):
        with pytest.raises(InvalidRequest):
            budget.checked_scope(wrong)
