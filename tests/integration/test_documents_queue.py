"""The review queue on both databases: its order at any moment, who may do what, and what two people at once do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.errors import Conflict, InvalidRequest, NotFound
from penstock.pipelines.documents import asking, ledger, queue, reading, rules, sharing, standing
from penstock.pipelines.documents.model import InvoiceData
from tests.support.documents import GOOD, Office, office

HOUR = 3600.0
Opened = Callable[[], "asynccontextmanager[Office]"]


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AsyncIterator[Office]]:
    store = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return lambda: office(tmp_path, store)  # type: ignore[return-value]


def run(opened: Callable[[], object], test: Callable[[Office], Awaitable[None]]) -> None:
    async def main() -> None:
        async with opened() as there:  # type: ignore[attr-defined]
            await test(there)

    asyncio.run(main())


def invoice(**changes: object) -> InvoiceData:
    return InvoiceData.model_validate({**GOOD.model_dump(), **changes})


def test_the_queue_is_sorted_by_what_priorities_are_at_this_moment(opened: Callable[[], object]) -> None:
    """Deadlines of hours and of days, and the clock moved over every turning point: each time the order and the
    numbers are those of the formula."""

    async def test(there: Office) -> None:
        chance = random.Random(5)
        expected: dict[str, tuple[float, float]] = {}
        for number in range(40):
            sure, total, hours = chance.random(), chance.choice((0, 800, 20_000)), chance.choice((1, 12, 24, 30, 72))
            data = invoice(total=total, line_items=[{"item": "x"}] * chance.choice((0, 3, 150)))
            _, item = await there.plant(data=data, confidence=sure, content=str(number), hours=hours)
            weight = rules.weight(sure, len(data.line_items), total)
            expected[item] = (weight, there.clock.now() + hours * HOUR)
            there.clock.at += chance.random() * 600
        for moved in (0, 1800, 6 * HOUR, 7 * HOUR, 24 * HOUR, 25 * HOUR, 100 * HOUR):
            there.clock.at += moved
            now = there.clock.now()
            truth = {
                item: rules.priority(weight, deadline=deadline, now=now)
                for item, (weight, deadline) in expected.items()
            }
            found = await reading.queue(there.engine, limit=40)
            assert [round(each.priority, 6) for each in found] == [
                round(value, 6) for value in sorted(truth.values(), reverse=True)
            ]
            assert all(each.priority == pytest.approx(truth[each.id]) for each in found)
            second = await reading.queue(there.engine, limit=7, offset=5)
            assert [each.id for each in second] == [each.id for each in found[5:12]]
            urgent = await reading.queue(there.engine, priority_min=40, limit=40)
            assert [each.id for each in urgent] == [each.id for each in found if each.priority >= 40]

    run(opened, test)


def test_of_two_who_claim_one_has_it(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        _, item = await there.plant()
        told = await asyncio.gather(
            *(queue.claim(there.engine, item, actor=name) for name in ("ann", "bob", "cy")), return_exceptions=True
        )
        won = [each for each in told if isinstance(each, queue.Item)]
        assert len(won) == 1
        assert all(isinstance(each, Conflict) for each in told if each not in won)
        lines = await reading.audit(there.engine, item=item)
        assert [line.action for line in lines] == ["claimed"]
        # Whoever has it keeps it for longer by claiming it again, without another line.
        there.clock.at += 20 * 60
        renewed = await queue.claim(there.engine, item, actor=won[0].assigned_to or "")
        assert renewed.claim_until == there.clock.now() + queue.CLAIM
        assert len(await reading.audit(there.engine, item=item)) == 1

    run(opened, test)


def test_a_claim_lapses_and_that_is_written_down(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        _, item = await there.plant()
        await queue.claim(there.engine, item, actor="ann")
        there.clock.at += queue.CLAIM + 1
        with pytest.raises(Conflict, match="has lapsed"):
            await queue.submit(there.engine, item, "approve", actor="ann")
        claimed = await queue.claim(there.engine, item, actor="bob")
        assert claimed.assigned_to == "bob"
        lines = await reading.audit(there.engine, item=item)
        assert [(line.action, line.reason) for line in lines] == [
            ("claimed", None), ("claim lapsed", "ann"), ("claimed", None),
        ]  # fmt: skip
        with pytest.raises(Conflict, match="in review by bob"):
            await queue.submit(there.engine, item, "approve", actor="ann")

    run(opened, test)


def test_only_the_owner_of_a_claim_decides_and_only_once(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        _, item = await there.plant()
        with pytest.raises(Conflict, match="claim it first"):
            await queue.submit(there.engine, item, "approve", actor="ann")
        await queue.claim(there.engine, item, actor="ann")
        told = await asyncio.gather(
            queue.submit(there.engine, item, "approve", actor="ann"),
            queue.submit(there.engine, item, "reject", actor="ann", reason="twice"),
            return_exceptions=True,
        )
        assert sum(isinstance(each, queue.Item) for each in told) == 1
        assert sum(isinstance(each, Conflict) for each in told) == 1
        with pytest.raises(Conflict, match="already"):
            await queue.claim(there.engine, item, actor="ann")
        with pytest.raises(NotFound):
            await queue.claim(there.engine, item, actor="eve", tenant="another")

    run(opened, test)


def test_a_correction_is_locked_audited_and_follows_the_content(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        first, item = await there.plant()
        twin, _ = await there.plant()
        await queue.claim(there.engine, item, actor="ann")
        await queue.submit(
            there.engine, item, "correct", actor="ann", corrections={"total": "1.234,56", "vendor": "Larkspur Paper"}
        )
        for document in (first, twin):
            seen = await reading.document(there.engine, document)
            assert seen.document.data is not None and str(seen.document.data.total) == "1234.56"
            assert {lock.field: lock.actor for lock in seen.locks} == {"total": "ann", "vendor": "ann"}
            assert {(each.field, each.locked, each.extracted) for each in seen.differences} == {
                ("total", "1234.56", "120.00"), ("vendor", "Larkspur Paper", "Larkspur Paper Ltd"),
            }  # fmt: skip
        assert (await reading.document(there.engine, first)).document.review_status == "corrected"
        assert (await reading.document(there.engine, twin)).document.review_status == "pending"
        lines = [line for line in await reading.audit(there.engine, item=item) if line.field]
        assert {(line.field, line.before, line.after) for line in lines} == {
            ("total", "120.00", "1234.56"), ("vendor", "Larkspur Paper Ltd", "Larkspur Paper"),
        }  # fmt: skip
        # A person may think better of it, and may leave it to the machine again.
        await queue.claim(there.engine, item, actor="bob", reopen=True)
        await queue.submit(there.engine, item, "correct", actor="bob", corrections={"total": "99"})
        assert str((await reading.document(there.engine, twin)).document.data.total) == "99"  # type: ignore[union-attr]
        await queue.unlock(there.engine, first, "total", actor="bob")
        seen = await reading.document(there.engine, twin)
        assert str(seen.document.data.total) == "120.00"  # type: ignore[union-attr]
        assert [lock.field for lock in seen.locks] == ["vendor"]
        with pytest.raises(Conflict, match="not locked"):
            await queue.unlock(there.engine, first, "total", actor="bob")
        unlocked = [line for line in await reading.audit(there.engine, document=first) if line.action == "unlocked"]
        assert [(line.actor, line.field) for line in unlocked] == [("bob", "total")]

    run(opened, test)


def test_two_who_correct_the_same_content_at_once_lose_nothing(opened: Callable[[], object]) -> None:
    """One of them may be told to look again; what both were told is stored is stored."""

    async def test(there: Office) -> None:
        first, one = await there.plant()
        _, other = await there.plant()
        await queue.claim(there.engine, one, actor="ann")
        await queue.claim(there.engine, other, actor="bob")
        told = await asyncio.gather(
            queue.submit(there.engine, one, "correct", actor="ann", corrections={"total": "1"}),
            queue.submit(there.engine, other, "correct", actor="bob", corrections={"vendor": "B"}),
            return_exceptions=True,
        )
        for each, action in zip(told, ({"total": "1"}, {"vendor": "B"}), strict=True):
            if isinstance(each, Conflict):
                who, item = ("ann", one) if "total" in action else ("bob", other)
                await queue.submit(there.engine, item, "correct", actor=who, corrections=action)
        data = (await reading.document(there.engine, first)).document.data
        assert data is not None and (str(data.total), data.vendor) == ("1", "B")

    run(opened, test)


@pytest.mark.parametrize(
    ("action", "told", "complaint"),
    [
        ("reject", {}, "needs a reason"),
        ("correct", {}, "needs a change"),
        ("correct", {"corrections": {"total": "120.00"}}, "needs a change"),
        ("correct", {"corrections": {"colour": "red"}}, "there is no field 'colour'"),
        ("correct", {"corrections": {"total": "a lot"}}, "total: "),
        ("correct", {"corrections": {"vendor": ""}}, "vendor: required"),
        ("approve", {"corrections": {"total": "1"}}, "go with the action 'correct'"),
        ("burn", {}, "unknown action"),
    ],
)
def test_what_is_wrong_with_a_decision_is_said_and_nothing_is_changed(
    tmp_path: Path, action: str, told: dict[str, object], complaint: str
) -> None:
    async def test(there: Office) -> None:
        document, item = await there.plant()
        await queue.claim(there.engine, item, actor="ann")
        with pytest.raises(InvalidRequest, match=complaint):
            await queue.submit(there.engine, item, action, actor="ann", **told)  # type: ignore[arg-type]
        assert (await queue.item(there.engine, item)).status == "in_review"
        assert (await reading.document(there.engine, document)).locks == ()

    run(lambda: office(tmp_path), test)


def test_a_document_without_what_is_required_cannot_be_approved(tmp_path: Path) -> None:
    async def test(there: Office) -> None:
        _, item = await there.plant(data=invoice(invoice_number=None))
        await queue.claim(there.engine, item, actor="ann")
        with pytest.raises(InvalidRequest, match="invoice_number: required"):
            await queue.submit(there.engine, item, "approve", actor="ann")
        await queue.submit(there.engine, item, "reject", actor="ann", reason="no number")
        assert (await queue.item(there.engine, item)).status == "rejected"

    run(lambda: office(tmp_path), test)


def test_many_are_approved_at_once_but_not_those_with_a_doubt(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        async def planted(name: str, confidence: float = 0.97, findings: tuple[str, ...] = (), **told: object) -> str:
            data = invoice(invoice_number=name, **told)
            return (await there.plant(confidence=confidence, content=name, data=data, findings=findings))[1]

        good = [await planted(str(number)) for number in range(3)]
        doubtful = await planted("a", findings=("the page contradicts its e-invoice",))
        incomplete = await planted("b", total=None)
        unsure = await planted("c", confidence=0.5)
        taken = await planted("d", confidence=0.99)
        # The same invoice in other bytes: somebody should look which of them counts.
        twins = [(await there.plant(confidence=0.99, content=name))[1] for name in ("scan", "pdf")]
        await queue.claim(there.engine, taken, actor="bob")
        approved = await sharing.batch_approve(there.engine, actor="ann", min_confidence=0.95)
        assert set(approved) == set(good)
        for item in (doubtful, incomplete, unsure, *twins):
            assert (await queue.item(there.engine, item)).status == "pending"
        assert (await queue.item(there.engine, taken)).status == "in_review"
        assert await sharing.batch_approve(there.engine, actor="ann", min_confidence=0.95) == []
        assert (await reading.depths(there.engine))["approved"] == 3

    run(opened, test)


def test_work_goes_to_whoever_has_least_of_it_in_turn(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        items = [(await there.plant(content=str(number), confidence=number / 10))[1] for number in range(6)]
        await queue.claim(there.engine, items[5], actor="ann")
        given = await sharing.auto_assign(there.engine, ["ann", "bob"], actor="chief")
        # The most urgent first; bob, who has nothing, gets the first, and from then on they take turns.
        assert [given[item] for item in items[:5]] == ["bob", "ann", "bob", "ann", "bob"]
        assert await sharing.auto_assign(there.engine, ["ann", "bob"], actor="chief") == {}
        with pytest.raises(Conflict, match="assigned to bob"):
            await queue.claim(there.engine, items[0], actor="ann")
        await queue.release(there.engine, items[0], actor="chief")
        assert (await queue.claim(there.engine, items[0], actor="ann")).assigned_to == "ann"
        with pytest.raises(InvalidRequest, match="nobody to assign to"):
            await sharing.auto_assign(there.engine, ["", " "], actor="chief")

    run(opened, test)


def test_the_same_invoice_in_other_bytes_is_shown_at_both(tmp_path: Path) -> None:
    async def test(there: Office) -> None:
        first, _ = await there.plant(content="scan")
        second, _ = await there.plant(content="pdf", data=invoice(vendor="LARKSPUR PAPER LTD.", invoice_number="inv 7"))
        other, _ = await there.plant(content="other", data=invoice(invoice_number="INV-8"))
        foreign, _ = await there.plant(content="theirs", tenant="globex")
        assert [each.id for each in (await reading.document(there.engine, first)).duplicates] == [second]
        assert [each.id for each in (await reading.document(there.engine, second)).duplicates] == [first]
        for document in (other, foreign):
            assert (await reading.document(there.engine, document)).duplicates == ()

    run(lambda: office(tmp_path), test)


async def standings(there: Office) -> dict[str, tuple[object, ...]]:
    """Item → what the queue knows of it; documents and items say the same."""
    rows = await there.engine.read(
        (
            "SELECT i.id, i.confidence, i.weight, i.rank + CAST(:gained AS DOUBLE PRECISION) * i.rising, i.total,"
            " i.approvable, d.confidence FROM review_items i JOIN documents d ON d.review_item = i.id",
            {"gained": rules.SLOPE * there.clock.now()},
        )
    )
    assert all(row[1] == row[6] for row in rows), "documents and their items differ"
    return {row[0]: row[1:6] for row in rows}


def test_the_queue_follows_what_is_locked_and_unlocked(opened: Callable[[], object]) -> None:
    """Of all open reviews of the content: how sure, how urgent, and whether many may be approved with it."""

    async def test(there: Office) -> None:
        first, item = await there.plant(data=invoice(total=None), confidence=0.9)
        _, twin = await there.plant(data=invoice(total=None), confidence=0.9)
        _, other = await there.plant(data=invoice(total=None, invoice_number="x"), confidence=0.9, content="other")
        before = await standings(there)
        assert {stands[4] for stands in before.values()} == {0}
        await queue.claim(there.engine, item, actor="ann")
        await queue.submit(there.engine, item, "correct", actor="ann", corrections={"total": "5000"})
        after = await standings(there)
        sure, weight, urgency, total, approvable = after[twin]
        assert (total, approvable) == (5000.0, 1) and sure > 0.9  # type: ignore[operator]
        assert weight == pytest.approx(rules.weight(sure, 0, 5000.0))  # type: ignore[arg-type]
        assert urgency == pytest.approx(
            rules.priority(weight, deadline=there.clock.now() + 24 * HOUR, now=there.clock.now()),  # type: ignore[arg-type]
            abs=1e-5,
        )
        assert after[other] == before[other]
        await queue.unlock(there.engine, first, "total", actor="ann")
        again = await standings(there)
        # Both are open again, as uncertain as certified results are without it, and lack what is required.
        for each in (item, twin):
            assert (await queue.item(there.engine, each)).status == "pending"
            assert again[each][3:] == (0.0, 0) and again[each][0] == pytest.approx(0.9)
        assert await sharing.batch_approve(there.engine, actor="ann", min_confidence=0.0) == []

    run(opened, test)


def test_what_lost_a_required_field_is_not_approved_with_many(opened: Callable[[], object]) -> None:
    """Also where it was approved while a lock gave it one, and came back to the queue."""

    async def test(there: Office) -> None:
        first, one = await there.plant(data=invoice(total=None))
        second, two = await there.plant(data=invoice(total=None))
        await queue.claim(there.engine, one, actor="ann")
        await queue.submit(there.engine, one, "correct", actor="ann", corrections={"total": "5000"})
        assert await sharing.batch_approve(there.engine, actor="ann", min_confidence=0.9) == [two]
        await queue.unlock(there.engine, second, "total", actor="bob")
        # The other one is opened anew by hand, and given back.
        await queue.claim(there.engine, one, actor="bob", reopen=True)
        await queue.release(there.engine, one, actor="bob")
        for document, item in ((first, one), (second, two)):
            assert (await reading.document(there.engine, document)).document.review_status == "pending"
            assert (await queue.item(there.engine, item)).status == "pending"
        assert await sharing.batch_approve(there.engine, actor="ann", min_confidence=0.0) == []
        assert {stands[4] for stands in (await standings(there)).values()} == {0}

    run(opened, test)


def test_a_field_in_doubt_keeps_a_document_from_approval_with_many(tmp_path: Path) -> None:
    """Until a person has set it, for every document of its content."""

    async def test(there: Office) -> None:
        # 0.82 is too little for a number and a total, and enough for all else.
        _, item = await there.plant(confidence=0.82, data=invoice(total=None))
        _, twin = await there.plant(confidence=0.82, data=invoice(total=None))
        await queue.claim(there.engine, item, actor="ann")
        await queue.submit(there.engine, item, "correct", actor="ann", corrections={"total": "120.00"})
        assert await sharing.batch_approve(there.engine, actor="ann", min_confidence=0.0) == []
        await queue.claim(there.engine, item, actor="ann", reopen=True)
        await queue.submit(there.engine, item, "correct", actor="ann", corrections={"invoice_number": "INV-8"})
        assert await sharing.batch_approve(there.engine, actor="ann", min_confidence=0.0) == [twin]

    run(lambda: office(tmp_path), test)


class Meanwhile:
    """The engine, for somebody who is slow: when the answer to the first question comes, something has happened since.
    (What `standing.turn` asks does not count.)"""

    def __init__(self, engine: object, happens: Callable[[], Awaitable[object]]) -> None:
        self._engine, self._happens = engine, happens

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    async def read(self, statement: object) -> object:
        rows = await self._engine.read(statement)  # type: ignore[attr-defined]
        if "SELECT MIN(" not in str(statement):
            happens, self._happens = self._happens, _nothing
            await happens()
        return rows


async def _nothing() -> None: ...


def test_who_releases_by_what_they_saw_takes_nobody_elses_claim(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        _, item = await there.plant()
        await queue.claim(there.engine, item, actor="ann")

        async def changes_hands() -> None:
            await queue.release(there.engine, item, actor="ann")
            await queue.claim(there.engine, item, actor="bob")

        with pytest.raises(Conflict, match="not ann's any more"):
            await queue.release(Meanwhile(there.engine, changes_hands), item, actor="chief")  # type: ignore[arg-type]
        found = await queue.item(there.engine, item)
        assert (found.status, found.assigned_to) == ("in_review", "bob")
        actions = [line.action for line in await reading.audit(there.engine, item=item)]
        assert actions == ["claimed", "released", "claimed"]
        await queue.release(there.engine, item, actor="chief")
        with pytest.raises(Conflict, match="nothing to release"):
            await queue.release(there.engine, item, actor="chief")

    run(opened, test)


@pytest.mark.parametrize("what", ["claimed", "doubted", "unsure"])
def test_many_are_approved_by_what_they_are_at_that_moment(tmp_path: Path, what: str) -> None:
    async def test(there: Office) -> None:
        _, item = await there.plant(confidence=0.97)
        _, other = await there.plant(confidence=0.97, content="b", data=invoice(invoice_number="INV-8"))

        async def happens() -> None:
            if what == "claimed":
                await queue.claim(there.engine, item, actor="bob")
            else:
                change = "approvable = 0" if what == "doubted" else "confidence = 0.5"
                await there.engine.write((f"UPDATE review_items SET {change} WHERE id = :id", {"id": item}))

        slow: Any = Meanwhile(there.engine, happens)
        assert await sharing.batch_approve(slow, actor="ann", min_confidence=0.95) == [other]
        found = await queue.item(there.engine, item)
        assert found.status == ("in_review" if what == "claimed" else "pending")
        assert "approved" not in [line.action for line in await reading.audit(there.engine, item=item)]
        jobs = await there.app.jobs(workflow="documents.export")
        assert len(jobs) == 1, "nobody writes files of what was not approved"

    run(lambda: office(tmp_path), test)


def test_of_two_who_have_it_read_again_one_does(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        document, _ = await there.plant()

        async def happens() -> None:
            await asking.extract_again(there.app, there.settings, document, actor="bob")

        slow: Any = SimpleNamespace(engine=Meanwhile(there.engine, happens))
        with pytest.raises(Conflict, match="worked on already"):
            await asking.extract_again(slow, there.settings, document, actor="ann")
        (job,) = await there.app.jobs(workflow="documents")
        assert await there.engine.read("SELECT job FROM documents") == [(job.id,)]
        assert len(await there.app.audit(action="document.re-extract")) == 1

    run(opened, test)


def test_files_that_show_a_newer_revision_are_not_taken_for_older_ones(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        document, _ = await there.plant()
        await there.engine.write("UPDATE documents SET revision = 5, exported = 3")

        async def shown(revision: int, *, behind: bool = False) -> list[tuple[object, ...]]:
            with suppress(Conflict):
                await there.engine.write(ledger.exported(document, GOOD, revision=revision, behind=behind))
            return await there.engine.read("SELECT revision, exported FROM documents")

        assert await shown(2) == [(5, 3)]
        assert await shown(4, behind=True) == [(5, 3)]
        assert await shown(4) == [(5, 4)]
        assert await shown(5, behind=True) == [(6, 6)]
        with pytest.raises(Conflict, match="deleted"):
            await there.engine.write(ledger.exported("gone", GOOD, revision=9, behind=False))

    run(opened, test)


def test_priorities_turn_some_at_a_time_and_come_to_an_end(opened: Callable[[], object]) -> None:
    async def test(there: Office) -> None:
        _, item = await there.plant(hours=48)
        most = standing.MOST_TURNING
        columns = "tenant, document, content_hash, status, rising, rank, turns, weight, deadline, confidence"
        columns += ", line_count, total, approvable, created"
        await there.engine.write(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {2 * most}) INSERT INTO"
            f" review_items (id, {columns}) SELECT 'n' || i, {columns} FROM n, review_items WHERE id = '{item}'"
        )
        there.clock.at += 30 * HOUR
        left = []
        while await standing.turn(there.engine):
            ((count,),) = await there.engine.read("SELECT COUNT(*) FROM review_items WHERE rising = 0")
            left.append(count)
            assert len(left) < 5
        assert left == [most + 1, 1, 0]
        # And once more when their deadline has passed.
        there.clock.at += 30 * HOUR
        assert [await standing.turn(there.engine) for _ in range(4)] == [True, True, True, False]

    run(opened, test)
