"""What the reference says of documents is what the code has: rules, columns, statuses, priorities, limits, keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import penstock.pipelines.documents as pipeline
from penstock.pipelines.documents import rules
from penstock.pipelines.documents.fields import FIELD_RULES
from penstock.pipelines.documents.files import schema
from penstock.pipelines.documents.model import ExtractionResult, InvoiceData
from penstock.pipelines.documents.reading import DocumentStatus

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference/documents.md").read_text()


def section(title: str) -> str:
    return REFERENCE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> list[str]:
    """The names in the first column of the tables."""
    cells = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_rules_of_the_fields() -> None:
    told = re.findall(r"^\| `(\w+)` \| (yes)? ?\| ([\d.]+) \|$", section("Field rules"), re.MULTILINE)
    assert told == [(rule.name, "yes" if rule.required else "", f"{rule.threshold:.2f}") for rule in FIELD_RULES]


def test_the_columns_and_their_types() -> None:
    told: list[tuple[str, str]] = []
    for names, kind in re.findall(r"^\| (`[^|]*`) \| ([^|]+) \|$", section("Outputs"), re.MULTILINE):
        if not names.startswith("`data/"):
            told += [(name, kind.partition(":")[0].strip()) for name in re.findall(r"`(\w+)`", names)]
    arrow = {"date32[day]": "date32", "timestamp[us, tz=UTC]": "timestamp(µs, UTC)"}
    columns = [(field.name, arrow.get(str(field.type), str(field.type))) for field in schema()]
    assert told == [(name, kind.replace("decimal128", "decimal")) for name, kind in columns]


def test_the_fields_of_both_shapes() -> None:
    assert set(first_cells(section("`InvoiceData`"))) == set(InvoiceData.model_fields)
    assert set(first_cells(section("`ExtractionResult`"))) == set(ExtractionResult.model_fields)


def test_the_statuses() -> None:
    assert set(first_cells(section("Statuses"))) == {*get_args(DocumentStatus), *rules.STATUSES}


def test_the_examples_of_priorities() -> None:
    rows = re.findall(r"^\| ([\d.]+) \| (\d+) \| (\d+) \| ([\d,]+) \| ([\d.]+) \|$", section("Priority"), re.MULTILINE)
    assert len(rows) == 3
    for confidence, hours, lines, total, told in rows:
        weight = rules.weight(float(confidence), int(lines), float(total.replace(",", "")))
        assert round(rules.priority(weight, deadline=3600.0 * int(hours), now=0.0), 2) == float(told)


def test_the_keys_of_the_review_page() -> None:
    template = Path(pipeline.__file__).parent / "dashboard/templates/review.html"
    keys = re.findall(r'\(((?:"[^"]{1,6}",? ?)+)\), "[A-Z]', template.read_text())
    shown = {key for group in keys for key in re.findall(r'"([^"]+)"', group)}
    page = (DOCS / "how-to/documents-review.md").read_text().partition("| key |")[2].partition("\n\n")[0]
    assert len(shown) > 10
    assert set(first_cells(page)) == shown
