"""What every remote must get right, as a suite that runs against any of them: refusals, lost replies, searches, ends.

An adapter's author writes a `RemoteHarness` (requests of three kinds, and how to make the other side misbehave) and
runs every function of `checks_for(remote.guarantee)` with a fresh one:

    @pytest.mark.parametrize("check", checks_for("findable"), ids=lambda check: check.__name__)
    def test_gemini(check, tmp_path):
        asyncio.run(check(GeminiHarness(tmp_path)))
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import secrets
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, get_args
from urllib.parse import urlsplit

from penstock.engine.errors import Ambiguous, InvalidRequest, PenstockError, Permanent, Transient
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Polled, Remote, ResultGone

PATIENCE = 30.0
"""Seconds a check waits before it says that something never happened; a harness' other side is local and quick."""

SMALL = 64 * 1024
"""Bytes of JSON that `prepared` may have: it is kept in the call's row."""

ENDED = ("succeeded", "failed", "expired", "cancelled", "gone")


class RemoteHarness(Protocol):
    """One adapter under test, with an other side of its own. What is said to be for `findable` or `callee_dedup` is not
    asked of a `repeatable` remote, except `refuse_next` if its author runs that check.

    A harness may have one method more, `async def refuse_collect(self) -> None`: the next `collect` is refused once,
    as by a key that was changed, though the result is there. Without it that check is left out. For findable."""

    remote: Remote
    folder: Path

    def good_request(self) -> Any:
        """A request that succeeds within a moment, without `finish`."""
        ...

    def slow_request(self) -> Any:
        """A request whose work goes on until it is cancelled or, where the other side keeps it, until `finish`."""
        ...

    def bad_request(self) -> Any:
        """A request that can never work, which `prepare` or `submit` can tell."""
        ...

    async def live(self, label: str) -> int:
        """How much work the other side has under this label that has not ended."""
        ...

    async def refuse_next(self) -> None:
        """The next `submit` is turned down, surely: rate limited, or refused before anything was taken."""
        ...

    async def lose_reply(self) -> None:
        """The next `submit` is taken, but the reply is lost. For findable, callee_dedup."""
        ...

    async def finish(self, provider_id: str) -> None:
        """Let slow work come to its good end. For findable, callee_dedup."""
        ...

    async def runs(self, label: str) -> int:
        """How often the work under this label was begun, whatever became of it. For callee_dedup."""
        ...

    def unknown_id(self) -> str:
        """An id as the other side forms them, but of nothing there is. For findable, callee_dedup."""
        ...


Check = Callable[[RemoteHarness], Coroutine[Any, Any, None]]


async def it_says_what_it_is(harness: RemoteHarness) -> None:
    """A name, which of that name it is, a guarantee, and times that can be waited for."""
    remote = harness.remote
    assert remote.name, "a remote needs a name"
    identity = remote.identity
    assert isinstance(remote.keeps_files, bool), f"keeps_files is {remote.keeps_files!r}"
    assert isinstance(identity, str), f"the identity is {identity!r}"
    assert identity.strip() or remote.keeps_files, "nothing says which of that name it is: no identity, and no files"
    assert "@" not in urlsplit(identity).netloc, "the identity holds a name or a password, and is shown"
    assert remote.guarantee in get_args(Guarantee), f"{remote.guarantee!r} is no guarantee"
    for attribute in ("submit_timeout", "listing_margin", "poll_every", "poll_at_most", "overdue_after"):
        seconds = getattr(remote, attribute)
        assert 0 < seconds < math.inf, f"{attribute} is {seconds}"
    assert remote.poll_every <= remote.poll_at_most, "the waits between polls cannot grow to less than the first"


async def preparing_is_free_and_can_be_repeated(harness: RemoteHarness) -> None:
    """Twice the same plan, small enough to be kept, and nothing was begun."""
    order = _order(harness, harness.good_request())
    with _told():
        first = await harness.remote.prepare(order)
        second = await harness.remote.prepare(order)
    for attribute in ("model", "estimate", "usage", "holds"):
        one, other = getattr(first, attribute), getattr(second, attribute)
        assert one == other, f"prepared twice, {attribute} is {one!r}, then {other!r}"
    assert first.estimate >= 0, f"the estimate is {first.estimate}"
    kept = json.dumps(dict(first.prepared))
    assert len(kept) <= SMALL, f"what was prepared is {len(kept)} bytes of JSON"
    assert await harness.live(order.label) == 0, "preparing began the work"


async def bad_requests_are_refused(harness: RemoteHarness) -> None:
    """As `Permanent` or `InvalidRequest`, by `prepare` or at the latest by `submit`."""
    order = _order(harness, harness.bad_request())
    try:
        with _told():
            await harness.remote.submit(await _prepared(harness, order))
    except (Permanent, InvalidRequest) as refused:
        assert str(refused), "the refusal says nothing"
    except PenstockError as error:
        raise AssertionError(f"a bad request was answered by {error!r}: it would be tried again") from error
    else:
        raise AssertionError("a bad request was accepted")
    assert await harness.live(order.label) == 0, "a refused request left work behind"


async def work_comes_home(harness: RemoteHarness) -> None:
    """Submit, poll, collect; and collecting again gives the same."""
    await _comes_home(harness)


async def tidying_is_safe(harness: RemoteHarness) -> None:
    """Before anything was sent, twice, and after the end; what is home stays home."""
    unsent = _order(harness, harness.good_request())
    with _told():
        await harness.remote.tidy(unsent, None)
        unsent = await _prepared(harness, unsent)
        await harness.remote.tidy(unsent, None)
        await harness.remote.tidy(unsent, None)
    order, provider_id, _ = await _comes_home(harness)
    before = _files(order)
    with _told():
        await harness.remote.tidy(order, provider_id)
        await harness.remote.tidy(order, provider_id)
    assert _files(order) == before, "tidying took what was brought home"


async def a_cancelled_submit_leaves_it_usable(harness: RemoteHarness) -> None:
    """A worker that is asked to end cancels in the middle of anything."""
    order = await _prepared(harness, _order(harness, harness.slow_request()))
    for pause in (0.0, 0.01, 0.2):
        sending = asyncio.ensure_future(harness.remote.submit(replace(order, label=f"{order.label}-{pause}")))
        await asyncio.sleep(pause)
        sending.cancel()
        try:
            with _told():
                await sending
        except (asyncio.CancelledError, PenstockError):
            continue
    await _comes_home(harness)


async def closing_is_safe(harness: RemoteHarness) -> None:
    """Unused, and twice."""
    with _told():
        await harness.remote.close()
        await harness.remote.close()


async def a_repeated_call_gives_its_result_again(harness: RemoteHarness) -> None:
    """After a crash the same order comes once more."""
    _, _, first = await _comes_home(harness, label="penstock-again")
    _, _, second = await _comes_home(harness, label="penstock-again")
    assert type(first.result) is type(second.result), f"{first.result!r}, and again {second.result!r}"


async def refused_work_leaves_nothing(harness: RemoteHarness) -> None:
    """A refusal says that the work was not taken, and it was not."""
    order = await _prepared(harness, _order(harness, harness.good_request()))
    await harness.refuse_next()
    try:
        with _told():
            await harness.remote.submit(order)
    except Ambiguous as error:
        raise AssertionError(f"a plain refusal was told as {error!r}: a person would have to decide") from error
    except (Transient, Permanent):
        pass
    else:
        raise AssertionError("a refused submit was told as accepted")
    assert await harness.live(order.label) == 0, "refused work is there"
    await _comes_home(harness)


async def slow_work_runs_until_it_ends(harness: RemoteHarness) -> None:
    """It is polled as running, then as succeeded; then there is a result."""
    order, provider_id = await _begun(harness)
    polled = await _poll(harness, order, provider_id)
    assert polled.state in ("running", "unknown"), f"work that goes on is polled as {polled.state}"
    assert await harness.live(order.label) == 1, "accepted work is not there"
    await harness.finish(provider_id)
    ended = await _ended(harness, order, provider_id)
    assert ended.state == "succeeded", f"work that came to a good end is {ended.state}: {ended.error}"
    await _collected_twice(harness, order, provider_id)
    assert await harness.live(order.label) == 0, "ended work still counts as live"


async def unknown_ids_are_gone(harness: RemoteHarness) -> None:
    """Never failed or running: that would be said of work there is. Cancelling them is no error. Collecting them is,
    but not for good: only the work's own end says that there never will be a result."""
    order = _order(harness, harness.good_request())
    polled = await _poll(harness, order, harness.unknown_id())
    assert polled.state == "gone", f"an unknown id is polled as {polled.state}"
    with _told():
        await harness.remote.cancel(order, harness.unknown_id())
    try:
        with _told():
            await harness.remote.collect(order, harness.unknown_id())
    except ResultGone as error:
        raise AssertionError(f"an unknown id was told as {error!r}: a mistake would end the call") from error
    except PenstockError:
        return
    raise AssertionError("a result came home from an unknown id")


async def a_refused_question_while_collecting_is_no_end(harness: RemoteHarness) -> None:
    """It was paid: a key that is wrong for a while must not cost the result."""
    refuse: Callable[[], Coroutine[Any, Any, None]] | None = getattr(harness, "refuse_collect", None)
    if refuse is None:
        return
    order, provider_id = await _begun(harness)
    await harness.finish(provider_id)
    await _ended(harness, order, provider_id)
    await refuse()
    try:
        with _told():
            await harness.remote.collect(order, provider_id)
    except ResultGone as error:
        raise AssertionError(f"a refused question was told as {error!r}: what was paid is given up") from error
    except PenstockError as error:
        assert str(error), "the error says nothing"
    await _collected_twice(harness, order, provider_id)


async def cancelling_stops(harness: RemoteHarness) -> None:
    """Asked twice; the work ends, and does not count as succeeded."""
    order, provider_id = await _begun(harness)
    with _told():
        await harness.remote.cancel(order, provider_id)
        await harness.remote.cancel(order, provider_id)
    ended = await _ended(harness, order, provider_id)
    assert ended.state in ("cancelled", "gone"), f"cancelled work is polled as {ended.state}"
    assert await harness.live(order.label) == 0, "cancelled work goes on"
    with _told():
        await harness.remote.cancel(order, provider_id)


async def cancelling_what_has_ended_changes_nothing(harness: RemoteHarness) -> None:
    """It is no error, and the result is still to be had."""
    order, provider_id = await _begun(harness)
    await harness.finish(provider_id)
    await _ended(harness, order, provider_id)
    with _told():
        await harness.remote.cancel(order, provider_id)
    polled = await _poll(harness, order, provider_id)
    assert polled.state == "succeeded", f"ended work is {polled.state} after a cancel"
    await _collected_twice(harness, order, provider_id)


async def an_unknown_label_is_found_nowhere(harness: RemoteHarness) -> None:
    """And the search has seen everything: only so is absence proved."""
    await _begun(harness)
    with _told():
        found = await harness.remote.find(await _prepared(harness, _order(harness, harness.good_request())))
    assert found == Found((), complete=True), f"a label that was never sent gave {found}"


async def accepted_work_is_found(harness: RemoteHarness) -> None:
    """By its label, running or ended, under the id it was accepted with."""
    order, provider_id = await _begun(harness)
    assert await _found(harness, order, 1) == (provider_id,), "running work was found under another id"
    await harness.finish(provider_id)
    await _ended(harness, order, provider_id)
    assert await _found(harness, order, 1) == (provider_id,), "ended work was found under another id"


async def a_lost_reply_is_found(harness: RemoteHarness) -> None:
    """Nobody knows whether it was taken: that is said. Then the search finds it once, and it comes home."""
    order = await _prepared(harness, _order(harness, harness.slow_request()))
    await _reply_lost(harness, order)
    (provider_id,) = await _found(harness, order, 1)
    assert await harness.live(order.label) == 1, "one submit made more than one"
    await harness.finish(provider_id)
    ended = await _ended(harness, order, provider_id)
    assert ended.state == "succeeded", f"what was found is {ended.state}: {ended.error}"
    await _collected_twice(harness, order, provider_id)


async def labels_are_not_mixed_up(harness: RemoteHarness) -> None:
    """A label that begins, ends or is spelled in other case like another is another."""
    label = _label()
    labels = (label, f"{label}#2", f"{label}#20", f"x{label}", label.upper())
    for order, provider_id in [await _begun(harness, label=each) for each in labels]:
        found = await _found(harness, order, 1)
        assert found == (provider_id,), f"the search for {order.label!r} gave {found} instead of {provider_id!r}"


async def duplicates_are_all_found(harness: RemoteHarness) -> None:
    """Oldest first, so that everybody who searches keeps the same one."""
    order, first = await _begun(harness)
    _, second = await _begun(harness, label=order.label)
    assert first != second, "two submits were given the same id"
    found = await _found(harness, order, 2)
    assert found == (first, second), f"the search gave {found}; sent were {first!r}, then {second!r}"


async def a_label_runs_once(harness: RemoteHarness) -> None:
    """However often it is sent."""
    order, first = await _begun(harness)
    _, second = await _begun(harness, label=order.label)
    assert await harness.live(order.label) == 1, f"one label runs {await harness.live(order.label)} times at once"
    await harness.finish(first)
    for provider_id in dict.fromkeys((first, second)):
        ended = await _ended(harness, order, provider_id)
        assert ended.state == "succeeded", f"a label sent twice is {ended.state}: {ended.error}"
        await _collected_twice(harness, order, provider_id)
    assert await harness.runs(order.label) == 1, f"one label was run {await harness.runs(order.label)} times"


async def a_lost_reply_can_be_sent_again(harness: RemoteHarness) -> None:
    """The other side knows the label, and goes on with what it has."""
    order = await _prepared(harness, _order(harness, harness.slow_request()))
    await _reply_lost(harness, order)
    _, provider_id = await _begun(harness, label=order.label)
    await harness.finish(provider_id)
    ended = await _ended(harness, order, provider_id)
    assert ended.state == "succeeded", f"what was sent again is {ended.state}: {ended.error}"
    assert await harness.runs(order.label) == 1, f"one label was run {await harness.runs(order.label)} times"


ALWAYS: tuple[Check, ...] = (
    it_says_what_it_is,
    preparing_is_free_and_can_be_repeated,
    bad_requests_are_refused,
    work_comes_home,
    tidying_is_safe,
    a_cancelled_submit_leaves_it_usable,
    closing_is_safe,
)
REPEATABLE: tuple[Check, ...] = (a_repeated_call_gives_its_result_again,)
KEPT: tuple[Check, ...] = (
    refused_work_leaves_nothing,
    slow_work_runs_until_it_ends,
    unknown_ids_are_gone,
    cancelling_stops,
    cancelling_what_has_ended_changes_nothing,
)
"""For remotes whose other side keeps the work: findable, callee_dedup."""
FINDABLE: tuple[Check, ...] = (
    an_unknown_label_is_found_nowhere,
    accepted_work_is_found,
    a_lost_reply_is_found,
    labels_are_not_mixed_up,
    duplicates_are_all_found,
    a_refused_question_while_collecting_is_no_end,
)
CALLEE_DEDUP: tuple[Check, ...] = (a_label_runs_once, a_lost_reply_can_be_sent_again)

CHECKS: tuple[Check, ...] = (*ALWAYS, *REPEATABLE, *KEPT, *FINDABLE, *CALLEE_DEDUP)


def checks_for(guarantee: Guarantee) -> tuple[Check, ...]:
    """What a remote with this guarantee must pass."""
    match guarantee:
        case "repeatable":
            return (*ALWAYS, *REPEATABLE)
        case "findable":
            return (*ALWAYS, *KEPT, *FINDABLE)
        case "callee_dedup":
            return (*ALWAYS, *KEPT, *CALLEE_DEDUP)


def _label() -> str:
    return f"penstock-{secrets.token_hex(8)}"


def _order(harness: RemoteHarness, request: Any, *, label: str | None = None) -> Order:
    label = label or _label()
    folder = harness.folder / secrets.token_hex(8)
    return Order(label=label, tenant="contract", job="job-1", key="call", attempt=1, request=request, folder=folder)


async def _prepared(harness: RemoteHarness, order: Order) -> Order:
    """As the engine does it: what was prepared is kept as JSON and comes back with every question."""
    with _told():
        plan = await harness.remote.prepare(order)
    await asyncio.to_thread(order.folder.mkdir, parents=True, exist_ok=True)
    return replace(order, prepared=json.loads(json.dumps(dict(plan.prepared))))


async def _begun(harness: RemoteHarness, *, label: str | None = None) -> tuple[Order, str]:
    order = await _prepared(harness, _order(harness, harness.slow_request(), label=label))
    with _told():
        sent = await harness.remote.submit(order)
    assert isinstance(sent, Accepted), f"slow work was answered at once, by {sent!r}"
    return order, sent.provider_id


async def _comes_home(harness: RemoteHarness, *, label: str | None = None) -> tuple[Order, str | None, Collected]:
    order = await _prepared(harness, _order(harness, harness.good_request(), label=label))
    with _told():
        async with asyncio.timeout(harness.remote.submit_timeout):
            sent = await harness.remote.submit(order)
    if isinstance(sent, Collected):
        _checked(order, sent)
        return order, None, sent
    ended = await _ended(harness, order, sent.provider_id)
    assert ended.state == "succeeded", f"good work is {ended.state}: {ended.error}"
    return order, sent.provider_id, await _collected_twice(harness, order, sent.provider_id)


async def _collected_twice(harness: RemoteHarness, order: Order, provider_id: str) -> Collected:
    with _told():
        first = await harness.remote.collect(order, provider_id)
        files = _files(order)
        second = await harness.remote.collect(order, provider_id)
    _checked(order, first)
    assert first == second, f"collected twice: {first!r}, then {second!r}"
    assert files == _files(order), "collecting again changed the files that were brought home"
    return first


def _checked(order: Order, collected: Collected) -> None:
    assert json.loads(json.dumps(collected.result)) == collected.result, f"{collected.result!r} is no JSON"
    assert collected.cost >= 0, f"a cost of {collected.cost}"
    left = [name for name in _files(order) if Path(name).name.endswith(".tmp")]
    assert not left, f"half-written files were left: {left}"


async def _reply_lost(harness: RemoteHarness, order: Order) -> None:
    await harness.lose_reply()
    try:
        with _told():
            sent = await harness.remote.submit(order)
    except Ambiguous:
        return
    except PenstockError as error:
        raise AssertionError(f"a lost reply was told as {error!r}: the work would be sent, and paid, again") from error
    raise AssertionError(f"a lost reply was told as {sent!r}")


async def _found(harness: RemoteHarness, order: Order, wanted: int) -> tuple[str, ...]:
    """The search's answer, once it is complete and shows as many, or has had the time that the remote allows itself."""
    loop = asyncio.get_running_loop()
    until = loop.time() + min(harness.remote.listing_margin, PATIENCE)
    while True:
        with _told():
            found = await harness.remote.find(order)
        if found.complete and len(found.provider_ids) >= wanted:
            break
        assert loop.time() < until, f"{order.label!r} was sent {wanted} times; the search gives {found}"
        await asyncio.sleep(0.02)
    assert len(found.provider_ids) == wanted, f"{order.label!r} was sent {wanted} times; the search gives {found}"
    return found.provider_ids


async def _poll(harness: RemoteHarness, order: Order, provider_id: str) -> Polled:
    with _told():
        return await harness.remote.poll(order, provider_id)


async def _ended(harness: RemoteHarness, order: Order, provider_id: str) -> Polled:
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while (polled := await _poll(harness, order, provider_id)).state not in ENDED:
        assert loop.time() < until, f"{provider_id!r} is still {polled.state} after {PATIENCE:g} s"
        await asyncio.sleep(0.02)
    return polled


def _files(order: Order) -> dict[str, bytes]:
    """What was brought home."""
    return {
        str(path.relative_to(order.folder)): path.read_bytes() for path in order.folder.rglob("*") if path.is_file()
    }


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """A remote raises only what the engine can judge."""
    try:
        yield
    except (PenstockError, AssertionError):
        raise
    except Exception as error:
        raise AssertionError(f"the remote let {error!r} out; only Penstock's own errors say what to do") from error
