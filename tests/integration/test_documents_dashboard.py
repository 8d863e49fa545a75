"""What the pages of documents and reviews work out: what needs a person, how the queue stands, what a form changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.documents import queue, reading, sharing
from penstock.pipelines.documents.dashboard.deciding import changes, wrong_with
from penstock.pipelines.documents.dashboard.figures import LEAST, figures
from penstock.pipelines.documents.dashboard.needs import link_of, needs
from penstock.pipelines.documents.dashboard.same import same_content
from penstock.pipelines.documents.dashboard.showing import blamed, box_of, grouped, lines_of
from penstock.pipelines.documents.model import Evidence, InvoiceData, LineItem
from penstock.pipelines.documents.workflow import documents
from tests.support.documents import GOOD, Office, office

HOUR = 3600.0


@pytest.fixture(params=["sqlite", "postgresql"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[Office], Awaitable[None]]], None]:
    store = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")

    def run(test: Callable[[Office], Awaitable[None]]) -> None:
        async def main() -> None:
            async with office(tmp_path, store) as opened:
                await test(opened)

        asyncio.run(main())

    return run


def test_what_needs_a_person_is_said(there: Callable[[Callable[[Office], Awaitable[None]]], None]) -> None:
    async def test(at: Office) -> None:
        assert await needs(at.engine, None) == []
        await at.plant(hours=1, content="late")
        await at.plant(hours=100, content="not late")
        at.clock.at += 2 * HOUR
        (told,) = await needs(at.engine, "default")
        assert told.title == "1 review overdue" and told.path == "/ui/review?sort=deadline" and told.grave
        assert told.words.startswith("2 reviews open")
        assert await needs(at.engine, "another") == []
        (submitted,) = [await at.app.submit(documents, _upload("gone"), key="k")]
        await at.engine.write(
            ("UPDATE jobs SET status = 'failed' WHERE id = :id", {"id": submitted.job_id}),
            ("UPDATE documents SET job = 'k' WHERE filename = 'late.pdf'", {}),
        )
        late, failed = await needs(at.engine, None)
        assert (late.title, failed.title, failed.dead_letters) == ("1 review overdue", "1 document failed", 1)
        await at.engine.write(
            (
                "INSERT INTO document_breaches (id, rule, severity, bound, value, worst, began)"
                " VALUES ('e', 'error_rate', 'critical', 0.05, 0.5, 0.5, :now)",
                {"now": at.clock.at},
            )
        )
        _, once = await needs(at.engine, None)
        assert once.title == "Too many documents fail" and once.words.startswith("1 document failed.") and once.grave
        assert (once.path, once.dead_letters) == ("/ui/documents?status=failed", 1)
        assert link_of(await at.app.job(submitted.job_id)) == "/ui/documents/gone"

    there(test)


def test_open_reviews_are_said_and_are_not_grave(
    there: Callable[[Callable[[Office], Awaitable[None]]], None],
) -> None:
    async def test(at: Office) -> None:
        await at.plant(content="one")
        await at.plant(content="two")
        (told,) = await needs(at.engine, "default")
        assert (told.title, told.path, told.grave) == ("2 reviews open", "/ui/review", False)

    there(test)


def test_a_file_that_was_uploaded_again_is_known(
    there: Callable[[Callable[[Office], Awaitable[None]]], None],
) -> None:
    async def test(at: Office) -> None:
        (first, item), (second, _) = await at.plant(content="one"), await at.plant(content="one")
        await at.plant(content="two")
        await at.plant(content="one", tenant="another")
        found = (await reading.document(at.engine, second)).document
        told = await same_content(at.engine, found)
        assert told.times == 2
        assert [(one.id, one.review_item, one.review_status) for one in told.others] == [(first, item, "pending")]

    there(test)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("date", "1.5.2024", ""),
        ("date", "the first of May", "date"),
        ("total", "12,50", ""),
        ("total", "dozens", "dozens"),
        ("total", " ", "required"),
        ("due_date", "", ""),
        ("line_items", [], ""),
        ("line_items", [{"item": "Paper", "total": "much"}], "much"),
    ],
)
def test_what_is_wrong_with_a_value_is_said(field: str, value: Any, words: str) -> None:
    told = wrong_with(field, value)
    assert words in told and bool(told) == bool(words)


def test_a_refusal_names_its_fields() -> None:
    assert blamed("vendor, total: required: really") == (["vendor", "total"], "required: really")
    assert blamed("there is no field: none") == blamed("vendor") == blamed("") == ([], "")


def _numbered(number: str) -> InvoiceData:
    return InvoiceData.model_validate({**GOOD.model_dump(), "invoice_number": number})


def _upload(name: str) -> Any:
    return {
        "document_id": name, "filename": "a.pdf", "content_hash": "0", "size": 1, "place": "own", "model": "m",
    }  # fmt: skip


def test_the_figures_of_the_queue_are_those_of_its_items(
    there: Callable[[Callable[[Office], Awaitable[None]]], None],
) -> None:
    async def test(at: Office) -> None:
        items = [
            (await at.plant(confidence=sure, content=str(sure), hours=hours, data=_numbered(str(sure))))[1]
            for sure, hours in ((0.5, 1), (0.9, 3), (0.95, 30), (0.99, 30))
        ]
        for content in ("twin", "its twin"):
            await at.plant(confidence=0.99, content=content, data=_numbered("twice"))
        await at.plant(confidence=0.99, content="odd", findings=["it contradicts itself"])
        lacking = InvoiceData.model_validate({**GOOD.model_dump(), "total": None})
        await at.plant(confidence=0.99, content="lacking", data=lacking)
        await sharing.auto_assign(at.engine, ["anna", "ben"], actor="lead", limit=2)
        await queue.claim(at.engine, items[3], actor="clara")
        at.clock.at += 120
        await queue.submit(at.engine, items[3], "approve", actor="clara")
        at.clock.at += 1.5 * HOUR
        told = await figures(at.engine, tenant=None, reviewers=("dora",))
        assert (told.overdue, told.soon, told.decided, told.mean) == (1, 1, 1, 120.0)
        loads = {load.name: (load.open, load.claimed, load.decided, load.mean) for load in told.loads}
        idle, loaded = (0, 0, 0, None), (1, 0, 0, None)
        assert loads == {"anna": loaded, "ben": loaded, "clara": (0, 0, 1, 120.0), "dora": idle}
        for percent in (50, 51, 90, 95, 100):
            least = percent / 100
            sure = [one for one in (0.5, 0.9, 0.95) if one >= least]
            assert told.approvable[percent - LEAST] == len(sure), percent
        said = await sharing.batch_approve(at.engine, actor="lead", min_confidence=0.9)
        assert len(said) == told.approvable[90 - LEAST] == 2

    there(test)


def test_what_a_form_changes_is_what_differs() -> None:
    values = {"vendor": "Acme", "total": "12.50", "line_items": ""}
    lines = (("Paper", "2", "6.25", "12.50"),)
    same = {"field.vendor": " Acme ", "field.total": "12.50", "lines": "1"}
    cells = dict(zip((f"line.0.{name}" for name in ("item", "quantity", "unit_price", "total")), lines[0], strict=True))
    assert changes({**same, **cells}, values, lines) == {}
    assert changes({**same, **cells, "field.total": ""}, values, lines) == {"total": ""}
    told = changes({**same, **cells, "line.0.total": "13", "lines": "3"}, values, lines)
    assert told == {"line_items": [{"item": "Paper", "quantity": "2", "unit_price": "6.25", "total": "13"}]}
    assert changes({**same, "lines": "0"}, values, lines) == {"line_items": []}
    assert changes({"lines": "nonsense", **cells}, values, ()) == {}
    assert changes({"field.nonesuch": "x"}, values, lines) == {}


@pytest.mark.parametrize(
    ("text", "shown"),
    [("35213.77", "35,213.77"), ("-1234", "\N{MINUS SIGN}1,234"), ("0.5", "0.5"), ("", ""), (None, ""), ("1E5", "1E5")],
)
def test_amounts_are_grouped(text: str | None, shown: str) -> None:
    assert grouped(text) == shown


def test_a_quantity_is_written_without_zeros_and_read_back() -> None:
    lines = (LineItem.model_validate({"quantity": 1.5}), LineItem.model_validate({"quantity": "2.0000"}))
    thousandths = LineItem.model_validate({"quantity": 1.125})
    shown = [cells[1] for cells in lines_of((*lines, thousandths))]
    assert shown[:2] == ["1.5", "2"]
    assert LineItem.model_validate({"quantity": shown[2]}) == thousandths


def test_a_box_stays_on_the_page() -> None:
    def box(*parts: float) -> Any:
        return box_of(Evidence(page=1, text="x", box=parts))  # type: ignore[arg-type]

    assert box(0.1, 0.2, 0.4, 0.25) is not None and box(0.1, 0.2, 0.4, 0.25).width == "30.00%"
    assert box(-1, -1, 2, 2).width == "100.00%"
    assert box(0.5, 0.5, 0.5, 0.6) is None and box(0.5, 0.6, 0.7, 0.5) is None
    assert box_of(None) is None and box_of(Evidence(page=1, text="x")) is None
