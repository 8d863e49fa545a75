"""Documents as people see them: a list, and one of them with its fields, how sure each is, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.documents_states import plain_error
from penstock.cli.fitting import cut, fitted, needed, shortened, widths_of
from penstock.cli.output import STATUS_STYLES, Output, counted, harmless, plain_table
from penstock.cli.sheets import show_sheet
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.documents.answers import field_lines
from penstock.pipelines.documents.model import InvoiceData
from penstock.pipelines.documents.reading import DocumentDetail, DocumentView
from penstock.pipelines.documents.values import money_text
from penstock.times import ago, local_and_ago

if TYPE_CHECKING:
    from rich.text import Text

LONGEST_NAME = 40
SHORTEST = {"VENDOR": 12, "FILE": 14, "NUMBER": 10}
"""Characters that are left of what is cut."""
BAR = 10
STYLES = {**STATUS_STYLES, "processing": STATUS_STYLES["running"]}
FIELDS = ("FIELD", "VALUE", "CONFIDENCE", "PAGE", "CHECKS")
LINES = ("ITEM", "QUANTITY", "UNIT PRICE", "TOTAL")


def amount_text(data: InvoiceData | None) -> str:
    if data is None or data.total is None:
        return ""
    return " ".join(filter(None, (money_text(data.total), data.currency)))


def show_documents(out: Output, found: Sequence[DocumentView], now: float, *, ages: bool = True) -> None:
    columns: dict[str, list[str]] = {
        "ID": [each.id for each in found],
        "TENANT": [each.tenant for each in found],
        "STATUS": [each.status for each in found],
        "REVIEW": [(each.review_status or "").replace("_", " ") for each in found],
        "FILE": [each.filename for each in found],
        "VENDOR": [(each.data and each.data.vendor) or "" for each in found],
        "NUMBER": [(each.data and each.data.invoice_number) or "" for each in found],
        "DATE": ["" if each.data is None or each.data.date is None else f"{each.data.date}" for each in found],
        "TOTAL": [amount_text(each.data) for each in found],
        "SURE": ["" if each.confidence is None else f"{each.confidence:.2f}" for each in found],
        "AGE": [ago(each.created, now) for each in found],
        "WHY": [" ".join(plain_error(each.error).split()) if each.status != "completed" else "" for each in found],
    }
    if all(each.tenant == DEFAULT_TENANT for each in found):
        del columns["TENANT"]
    if not ages:
        del columns["AGE"]
    if not out.fancy:
        if not any(columns["WHY"]):
            del columns["WHY"]
        out.result(plain_table(list(columns), list(zip(*columns.values(), strict=True))))
        return
    from penstock.cli.row_table import RowTable

    why = columns.pop("WHY")
    console = out.console()
    shown = in_room(columns, console.width, unless_needed=("DATE", "AGE", "NUMBER", "VENDOR"))
    styles = [STYLES[each.status] for each in found]
    console.print(RowTable(shown, why, styled="STATUS", styles=styles))


def in_room(columns: Mapping[str, list[str]], room: int, *, unless_needed: Sequence[str]) -> dict[str, list[str]]:
    """The columns as a terminal shows them: names give way, then whole columns; an amount is never cut."""
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    for name in ("", *unless_needed):
        shown.pop(name, None)
        widths = fitted(widths_of(shown), room, SHORTEST)
        if needed(widths) <= room:
            break
    for name, shorten in (("FILE", shortened), ("VENDOR", cut), ("NUMBER", shortened)):
        if name in shown:
            shown[name] = [shorten(cell, min(widths[name], LONGEST_NAME)) for cell in shown[name]]
    return shown


def show_document(out: Output, found: DocumentDetail, now: float) -> None:
    document = found.document
    style = STYLES[document.status]
    styles = {"status": style, "error": "red"}
    show_sheet(out, f"{harmless(document.filename)} · {document.id}", _facts(found, now), border=style, styles=styles)
    show_fields(out, found)


def show_fields(out: Output, found: DocumentDetail) -> None:
    """What a reviewer looks at: fields, lines, and what speaks against them."""
    fields = field_lines(found)
    if fields:
        out.result("")
        _show_fields(out, fields)
    if found.document.data is not None and found.document.data.line_items:
        out.result("")
        out.result(plain_table(LINES, _line_cells(found.document.data)))
    notes = _notes(found)
    if notes:
        out.result("")
        for line in notes:
            out.result(harmless(line))


def _facts(found: DocumentDetail, now: float) -> list[tuple[str, str]]:
    document, result = found.document, found.result
    size = f"{document.size / 1e6:.1f} MB" if document.size >= 1e5 else f"{document.size / 1e3:.1f} kB"
    kind = f"{document.kind}, {counted(document.pages or 0, 'page')}, {size}" if document.kind else size
    facts: list[tuple[str, str | None]] = [
        ("document", document.id),
        ("file", document.filename),
        ("tenant", None if document.tenant == DEFAULT_TENANT else document.tenant),
        ("status", document.status),
        ("error", plain_error(document.error) if document.status != "completed" else None),
        ("content", kind),
        ("read by", None if result is None else "its own e-invoice" if result.source == "e-invoice" else result.model),
        ("confidence", None if document.confidence is None else f"{document.confidence:.2f}"),
        ("review", document.review_item and f"{document.review_status or ''} ({document.review_item})"),
        ("added", local_and_ago(document.created, now)),
        ("extracted", None if document.finished is None else local_and_ago(document.finished, now)),
        ("batch", document.batch),
        ("job", document.job),
    ]
    return [(name, value) for name, value in facts if value]


def value_text(field: str, value: Any) -> str:
    if value is None or value == []:
        return "-"
    if field == "line_items":
        return counted(len(value), "line")
    return f"{value} %" if field == "tax_rate" else str(value)


def bar(confidence: float, width: int = BAR) -> str:
    full = round(confidence * width)
    return "█" * full + "░" * (width - full)


def _show_fields(out: Output, fields: Sequence[dict[str, Any]]) -> None:
    rows = [
        (
            f"{field['field']} (locked)" if field["locked"] else field["field"],
            value_text(field["field"], field["value"]),
            f"{bar(field['confidence'])} {field['confidence']:.2f}" + (" doubtful" if field["doubtful"] else ""),
            str(field["evidence"]["page"]) if field["evidence"] else "",
            _checks_text(field["checks"]),
        )
        for field in fields
    ]
    if not out.fancy:
        out.result(plain_table(FIELDS, rows))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in FIELDS:
        table.add_column(heading.capitalize(), overflow="fold", no_wrap=heading in ("FIELD", "CONFIDENCE"))
    for field, (name, value, _, page, _) in zip(fields, rows, strict=True):
        sure = _sure(field)
        table.add_row(name, Text(harmless(value), style="bold"), sure, page, _checks(field["checks"]))
    out.console().print(table)


def _sure(field: dict[str, Any]) -> Text:
    from rich.text import Text

    style = "cyan" if field["locked"] else "yellow" if field["doubtful"] else "green"
    return Text(f"{bar(field['confidence'])} {field['confidence']:.2f}", style=style)


def _checks(checks: Sequence[dict[str, Any]]) -> Text:
    from rich.text import Text

    text = Text()
    for check in sorted(checks, key=lambda check: bool(check["passed"])):
        text.append("✓ " if check["passed"] else "✗ ", style="green" if check["passed"] else "red")
        text.append(harmless(_check_words(check)) + "  ", style="" if not check["passed"] else "bright_black")
    return text


def _checks_text(checks: Sequence[dict[str, Any]]) -> str:
    """What failed comes first, and says why."""
    ordered = sorted(checks, key=lambda check: bool(check["passed"]))
    return "; ".join(f"{'ok' if check['passed'] else 'NOT'} {_check_words(check)}" for check in ordered)


def _check_words(check: dict[str, Any]) -> str:
    name = str(check["name"]).replace("_", " ")
    return name if check["passed"] or not check["note"] else f"{name}: {check['note']}"


def _line_cells(data: InvoiceData) -> list[list[str]]:
    return [
        [
            cut(line.item or "-", 60),
            *("" if value is None else money_text(value) for value in (line.quantity, line.unit_price, line.total)),
        ]
        for line in data.line_items
    ]


def _notes(found: DocumentDetail) -> list[str]:
    """What speaks against it, and what people decided."""
    findings = () if found.result is None else found.result.findings
    return [
        *(f"finding: {text}" for text in findings),
        *(f"possible duplicate: {twin.filename} (document {twin.id})" for twin in found.duplicates),
        *(
            f"difference: {each.field} is locked as {value_text(each.field, each.locked)}, the newest extraction says "
            f"{value_text(each.field, each.extracted)}"
            for each in found.differences
        ),
        *(f"locked: {lock.field} = {value_text(lock.field, lock.value)}, by {lock.actor}" for lock in found.locks),
    ]
