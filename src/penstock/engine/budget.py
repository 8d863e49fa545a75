"""What may be spent, and whether a call still fits: pure functions over what is held and spent now."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penstock.engine.call import Hold, NewCall
from penstock.engine.errors import Blocked, InvalidRequest, OverBudget, Permanent
from penstock.engine.identity import storable

_SCOPE = re.compile(r"(tenant|job|batch):.{1,500}\Z", re.DOTALL)


def checked_scope(scope: str) -> str:
    """`tenant:NAME`, `job:ID` or `batch:ID`, or `InvalidRequest`."""
    if not _SCOPE.match(scope) or not storable(scope):
        raise InvalidRequest(f"a budget belongs to tenant:NAME, job:ID or batch:ID, not {scope!r}")
    return scope


def scopes_of(tenant: str, job: str, batch: str | None) -> list[str]:
    """Whose budgets a job's calls draw on."""
    return [f"tenant:{tenant}", f"job:{job}", *([f"batch:{batch}"] if batch is not None else [])]


def hold_name(scope: str) -> str:
    return f"budget:{scope}"


def scope_of(hold: str) -> str | None:
    """The budget a hold reserves from, if it is one."""
    return hold.removeprefix("budget:") if hold.startswith("budget:") else None


def admit(
    call: NewCall,
    budgets: Sequence[tuple[str, int, int]],
    held: Mapping[str, int],
    limits: Mapping[str, int],
) -> tuple[Hold, ...]:
    """Everything the call will hold; or why it must not be made now. `budgets` is (scope, most, spent), `held` what
    unfinished calls hold of each name."""
    holds = _by_name(call.holds)
    for hold in holds:
        most = limits.get(hold.name) if hold.most is None else hold.most
        if most is None:
            continue
        used = held.get(hold.name, 0)
        if hold.amount > most:
            raise Permanent(f"this call needs {hold.amount:,} of {hold.name}, and there is only {most:,}: split it")
        if used + hold.amount > most:
            raise Blocked(f"{hold.name}: {used:,} of {most:,} in use, this call needs {hold.amount:,}")
    reserved = []
    if budgets and not call.priced:
        raise OverBudget(
            f"budget {budgets[0][0]}: nobody knows what {call.model or call.remote} costs, so the call cannot be held"
            " against it; add its price to the file that gemini.prices names, then resume the job"
        )
    for scope, most, spent in budgets:
        open_holds = held.get(hold_name(scope), 0)
        if spent + open_holds + call.estimate > most:
            told = (
                f"budget {scope}: {dollars(spent)} of {dollars(most)} spent, {dollars(open_holds)} reserved,"
                f" this call may cost {dollars(call.estimate)}"
            )
            if open_holds:
                raise Blocked(told)
            needed = dollars(spent + call.estimate)
            raise OverBudget(f"{told}; raise it to at least {needed} ('penstock costs budget set {scope} DOLLARS')")
        reserved.append(Hold(hold_name(scope), call.estimate))
    return (*holds, *reserved)


def _by_name(holds: Sequence[Hold]) -> list[Hold]:
    """What is asked for twice is needed twice, and kept as one."""
    summed: dict[str, Hold] = {}
    for hold in holds:
        known = summed.get(hold.name, Hold(hold.name, 0))
        mosts = [most for most in (known.most, hold.most) if most is not None]
        summed[hold.name] = Hold(hold.name, known.amount + hold.amount, min(mosts, default=None))
    return list(summed.values())


def dollars(millionths: int) -> str:
    """For people: two digits, or as many as a small amount needs."""
    amount = millionths / 1_000_000
    return f"${amount:,.2f}" if millionths % 10_000 == 0 or amount >= 1 else f"${amount:,.6f}".rstrip("0")
