"""`python -m bench.documents_accuracy [mixed] [receipts] [zugferd]`: how much of real invoices the local Gemini reads
right, by field, without a model. The sets are not part of the repository.

A field whose truth is null is not scored. Money and dates must be the same value; of an invoice number, letters and
figures count (a leading # does not); of a vendor's name, letters and figures without the legal form. Currencies are
scored as the set has them, although some of its truths are constants of a template that the page does not show. On
receipts a company counts from 85 % alike on, since the truth itself holds misread letters; how many are alike to the
letter is told beside it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.pages_ocr import plain_tesseract
from bench.table import table
from penstock.paper.page import Page, from_json
from penstock.paper.reading import read_document
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents.prompt import AskedInvoice
from penstock.pipelines.documents.reader import invoice_on
from penstock.pipelines.documents.reader_values import dates
from penstock.pipelines.documents.reader_vendor import LEGAL

DATA = Path(os.environ.get("PENSTOCK_DATA", "../shared/data"))

WANTED = 0.85
"""Of vendor, number, date, total and currency together, on the mixed invoices."""

FIVE = ("vendor", "invoice_number", "date", "total", "currency")

PLAIN_TESSERACT = {"total": 10, "date": 15, "vendor": 19}
"""On how many of the 24 receipts the text of plain Tesseract 5.3 holds the truth at all, told by the data's README."""

ALIKE = 0.85


class Missing(Exception):
    """There is nothing to measure with; the message says what is not there."""


@dataclass
class Score:
    """Right and scored answers by field, and each wrong one as (file, field, answer, truth)."""

    right: dict[str, int] = field(default_factory=dict)
    scored: dict[str, int] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    wrong: list[tuple[str, str, object, object]] = field(default_factory=list)

    def count(self, file: str, name: str, answer: object, truth: object, right: bool) -> None:
        if truth is None:
            return
        self.scored[name] = self.scored.get(name, 0) + 1
        self.right[name] = self.right.get(name, 0) + right
        self.unanswered[name] = self.unanswered.get(name, 0) + (answer is None)
        if not right:
            self.wrong.append((file, name, answer, truth))

    def share(self, names: Sequence[str] = FIVE) -> float:
        return sum(self.right.get(name, 0) for name in names) / max(1, sum(self.scored.get(name, 0) for name in names))

    def printed(self) -> str:
        lines = [
            [
                name,
                f"{self.right[name]}/{self.scored[name]}",
                f"{self.right[name] / self.scored[name]:.1%}",
                str(self.unanswered[name]),
            ]
            for name in self.scored
        ]
        five = sum(self.right.get(name, 0) for name in FIVE), sum(self.scored.get(name, 0) for name in FIVE)
        lines.append(["the first five", f"{five[0]}/{five[1]}", f"{self.share():.1%}", ""])
        return table(["field", "right", "share", "null"], lines)


def mixed_table(data: Path = DATA, *, wanted: Callable[[str], bool] = lambda file: True) -> Score:
    """The 21 invoices of many vendors; `wanted` chooses some by their file."""
    score = Score()
    for truth in _lines(data / "invoices_mixed" / "truth.jsonl"):
        if not wanted(truth["file"]):
            continue
        answer = invoice_on(pages_of(data / "invoices_mixed" / truth["file"]))
        expected = {**truth, "date": truth["issue_date"], "tax_amount": truth.get("tax")}
        _count(score, truth["file"], answer, expected)
    return score


def zugferd_pages_table(data: Path = DATA) -> Score:
    """The pages of e-invoices, read without what they carry inside; only what is known to stand on the page."""
    score = Score()
    for line in _lines(data / "zugferd_invoices" / "truth.jsonl"):
        try:
            answer = invoice_on(pages_of(data / "zugferd_invoices" / line["file"]))
        except Unreadable:
            continue
        truth, seen = line.get("truth") or {}, line.get("visible_check") or {}
        if not seen:
            continue
        sums = truth.get("totals") or {}
        expected = {
            "vendor": truth["vendor"]["name"] if seen.get("vendor") else None,
            "invoice_number": truth["invoice_number"] if seen.get("invoice_number") else None,
            "date": truth["issue_date"] if seen.get("issue_date") else None,
            "total": sums.get("gross") if seen.get("gross") else None,
            "currency": truth.get("currency"),
            "subtotal": sums.get("net") if seen.get("net") else None,
            "tax_amount": sums.get("tax") if seen.get("tax") else None,
            "due_date": truth.get("due_date") if line.get("note") is None else None,
        }
        _count(score, line["file"], answer, expected)
    return score


def receipts_table(data: Path = DATA, *, only: Sequence[str] = ()) -> Score:
    """The hard receipt scans; `only` names some of them."""
    score = Score()
    for name, truth, image in _receipts(data, only):
        answer = invoice_on(pages_of(image))
        score.count(name, "vendor", answer.vendor, truth.company, _alike(answer.vendor, truth.company) >= ALIKE)
        score.count(name, "date", answer.date, truth.day, answer.date == truth.day)
        score.count(name, "total", answer.total, truth.total, _same_money(answer.total, truth.total))
        same = _letters(answer.vendor) == _letters(truth.company)
        score.count(name, "vendor to the letter", answer.vendor, truth.company, same)
    return score


def plain_receipts(data: Path = DATA, *, only: Sequence[str] = ()) -> Score:
    """Whether plain Tesseract's text of the same receipts holds the truth at all, by the same measures: the most that
    anybody could find in it."""
    _, command, environment = plain_tesseract()
    score = Score()
    for name, truth, image in _receipts(data, only):
        asked = [*command, str(image), "stdout", "-l", "eng"]
        text = subprocess.run(asked, capture_output=True, text=True, check=True, env=environment).stdout
        lines = [line for line in text.splitlines() if line.strip()]
        both = [*lines, *(f"{one} {other}" for one, other in pairwise(lines))]
        alike = max((_alike(line, truth.company) for line in both), default=0.0)
        score.count(name, "vendor", text, truth.company, alike >= ALIKE or _letters(truth.company) in _letters(text))
        days = {str(one.read(day_first=True)) for line in lines for one in dates(line)}
        score.count(name, "date", text, truth.day, truth.day in days)
        score.count(name, "total", text, truth.total, f"{truth.total}" in text.replace(" ", ""))
        score.count(name, "vendor to the letter", text, truth.company, _letters(truth.company) in _letters(text))
    return score


@dataclass(frozen=True)
class _Receipt:
    company: str
    day: str
    total: Decimal


def _receipts(data: Path, only: Sequence[str]) -> Iterator[tuple[str, _Receipt, Path]]:
    folder = data / "receipts_sroie"
    _there(folder / "key")
    for key in sorted((folder / "key").glob("*.json")):
        if not only or key.stem in only:
            told = json.loads(key.read_text())
            day = dates(told["date"])[0].read(day_first=True)
            truth = _Receipt(told["company"], str(day), Decimal(told["total"].removeprefix("RM")))
            yield key.stem, truth, folder / "img" / f"{key.stem}.jpg"


def _alike(one: str | None, other: str) -> float:
    return difflib.SequenceMatcher(None, _letters(one), _letters(other)).ratio()


def pages_of(path: Path) -> list[Page]:
    """The document's pages, by our own reading, here and now."""
    _there(path)
    pages: list[Page] = []
    following: int | None = 0
    data = path.read_bytes()
    while following is not None:
        told, (blob,) = read_document({"pages": 100, "first": following}, [data])
        pages += [from_json(page) for page in json.loads(blob)]
        following = told["next"]
    return pages


def _count(score: Score, file: str, answer: AskedInvoice, truth: Mapping[str, Any]) -> None:
    money = ("subtotal", "tax_amount")
    checks: Iterator[tuple[str, Callable[[Any, Any], bool]]] = iter(
        [
            ("vendor", lambda one, other: _letters(LEGAL.sub("", one or "")) == _letters(LEGAL.sub("", other))),
            ("invoice_number", lambda one, other: _letters(one) == _letters(other)),
            ("date", _same_day),
            ("total", _same_money),
            ("currency", lambda one, other: one == other),
            ("due_date", _same_day),
            *((name, _same_money) for name in money),
        ]
    )
    for name, same in checks:
        given, expected = getattr(answer, name), truth.get(name)
        score.count(file, name, given, expected, expected is not None and same(given, expected))


def _same_day(one: str | None, other: str) -> bool:
    return one is not None and date.fromisoformat(one) == date.fromisoformat(other)


def _same_money(one: str | None, other: float | Decimal) -> bool:
    return one is not None and abs(Decimal(one) - Decimal(str(other))) < Decimal("0.005")


def _letters(text: str | None) -> str:
    return re.sub(r"[\W_]+", "", (text or "").lower())


def _lines(path: Path) -> list[dict[str, Any]]:
    _there(path)
    return [json.loads(line) for line in path.read_text().splitlines()]


def _there(path: Path) -> None:
    if not path.exists():
        raise Missing(f"there is no {path}: nothing was measured")


TABLES: dict[str, Callable[[], Score]] = {
    "mixed": mixed_table,
    "zugferd": zugferd_pages_table,
    "receipts": receipts_table,
}


def main(arguments: list[str]) -> int:
    below = False
    for name in arguments or TABLES:
        if name not in TABLES:
            print(f"there is no table {name!r}; there are: {', '.join(TABLES)}", file=sys.stderr)
            return 2
        try:
            score = TABLES[name]()
        except Missing as why:
            print(f"{name}: {why}", file=sys.stderr)
            return 2
        print(f"{name}\n{score.printed()}")
        for file, what, answer, truth in score.wrong:
            print(f"  {file}: {what} is {truth!r}, answered {answer!r}")
        if name == "receipts":
            plain = plain_receipts()
            print(f"\nwhat plain Tesseract's text of them holds at all\n{plain.printed()}")
            print(f"the data's README counts {PLAIN_TESSERACT}")
            below |= any(score.right[what] <= plain.right[what] for what in PLAIN_TESSERACT)
        if name == "mixed":
            below |= score.share() < WANTED
        print()
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
