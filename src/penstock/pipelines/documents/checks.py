"""How sure each field is: what is claimed of an invoice is held against its pages, its own sums and the rules of the
trade. No model is asked how sure it is. Pure, and quick enough to run on every request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal, cast

from penstock.paper.page import Page
from penstock.pipelines.documents import arithmetic
from penstock.pipelines.documents.arithmetic import Relation
from penstock.pipelines.documents.clues import SHARED, Clues
from penstock.pipelines.documents.confidence import CONTRADICTS, MISSING_OPTIONAL, Case, overall
from penstock.pipelines.documents.evidence import (
    OWN,
    Announced,
    Place,
    announced,
    best,
    evidence,
    places,
    same_code,
)
from penstock.pipelines.documents.fields import RULES
from penstock.pipelines.documents.model import FIELDS, FieldConfidence, FieldName, InvoiceData
from penstock.pipelines.documents.names import judge_name
from penstock.pipelines.documents.sheet import Sheet, sheet_of
from penstock.pipelines.documents.values import money_text
from penstock.pipelines.documents.weights import (
    AMBIGUOUS,
    CONTRADICTED,
    FIRST_DAY,
    FOUND,
    FOUND_NEARLY,
    GUESSED_CURRENCY,
    IN_E_INVOICE,
    IN_E_INVOICE_ALONE,
    LABELLED,
    LABELLED_MAYBE,
    LAST_DAY,
    LONGEST_TERM,
    MISSING_BUT_SHOWN,
    NOT_ON_PAGE,
    OCR_WEIGHT,
    ONLY_ONE,
    OTHER_LABEL,
    RIVAL,
    RIVALS,
    SCANNED_ONCE,
    SCANNED_WELL,
    SHOWN_TWICE,
    SUM_EXACT,
    SUM_OFF,
    SUM_OFF_AND_EXACT,
    SUM_SAME,
    TITLED,
    UNUSUAL,
    WORKED_OUT,
    WRONG_ORDER,
)

Source = Literal["e-invoice", "model"]


@dataclass(slots=True, frozen=True)
class Judgement:
    """`findings` are for the reviewer, beyond the single fields."""

    field_confidences: tuple[FieldConfidence, ...]
    overall: float
    findings: tuple[str, ...]


def judge(
    data: InvoiceData,
    pages: Sequence[Page],
    *,
    source: Source,
    refused: Mapping[str, str],
    today: date | None = None,
) -> Judgement:
    """The confidence of every field. `refused` says, by field, what could not be understood; `today` makes a day in the
    future suspicious."""
    sheet = sheet_of(pages)
    trial = _Trial(data, sheet, Clues(sheet), arithmetic.relations(data, sheet), source, today)
    findings: list[str] = []
    contradicted: list[str] = []
    cases: list[Case] = []
    for name in FIELDS:
        case, finding = trial.hear(name, refused.get(name))
        if finding is not None:
            findings.append(finding)
            contradicted.append(name)
        cases.append(case)
    for case in cases:
        # A page that is another invoice's does not show this one's values at all.
        if contradicted and case.name == "line_items":
            if case.bound == UNUSUAL:
                case.speaks_against("e-invoice", "the page contradicts the sums as well", CONTRADICTED)
        elif contradicted and case.evidence is None and case.value is not None:
            case.speaks_against("e-invoice", "the page contradicts the data elsewhere, and does not show this", RIVAL)
    confidences = [case.closed(shown(case.value)) for case in cases]
    wrong = trial.clues.accounts[1]
    if wrong:
        findings.append(f"the bank account {wrong[0]} on the page has wrong check digits")
    return Judgement(tuple(confidences), overall(confidences, contradicted), tuple(findings))


def shown(value: Any) -> Any:
    """A value as it is written in JSON: text, or null."""
    if value is None or value == ():
        return None
    if isinstance(value, Decimal):
        return money_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return [{key: shown(part) for key, part in line} for line in value]
    return value


@dataclass(slots=True)
class _Trial:
    data: InvoiceData
    sheet: Sheet
    clues: Clues
    relations: list[Relation]
    source: Source
    today: date | None

    def hear(self, name: FieldName, refused: str | None) -> tuple[Case, str | None]:
        value = getattr(self.data, name)
        case = Case(name, value)
        if refused is not None:
            case.says("understood", f"not understood: {refused[:300]}", passed=False)
        if value is None or value == ():
            self._missing(case, refused)
            return case, None
        if self.source == "e-invoice":
            return case, self._exact(case)
        _JUDGES[name](self, case)
        return case, None

    def _missing(self, case: Case, refused: str | None) -> None:
        case.value = None
        if RULES[case.name].required:
            case.doubt = 1.0
            case.says("present", "there is no value, and an invoice must have one", passed=False)
            return
        if refused is not None:
            case.doubt = 1.0
            return
        case.doubt = 1 - (IN_E_INVOICE_ALONE if self.source == "e-invoice" else MISSING_OPTIONAL)
        text = self._overlooked(case)
        if text is None:
            case.says("absent", "no value, and the page does not seem to show one")
        else:
            case.speaks_against("absent", f"no value, but the page seems to show one: {text}", MISSING_BUT_SHOWN)

    def _overlooked(self, case: Case) -> str | None:
        """What the page shows of a field that has no value."""
        if case.name in ("due_date", "subtotal", "tax_amount"):
            seen = announced(self.sheet, case.name)
            if seen:
                case.evidence = evidence(self.sheet, seen[0][2])
                return seen[0][2].text[:60]
        if case.name == "currency" and len(self.clues.currencies) == 1:
            return next(iter(self.clues.currencies))
        # Some e-invoices have no lines by their profile, whatever the page shows.
        if case.name == "line_items" and self.source == "model" and any(row.head_of_items for row in self.sheet.rows):
            return "a table of items"
        return None

    # An e-invoice: exact by itself, and held against its page.

    def _exact(self, case: Case) -> str | None:
        if case.name == "line_items":
            self._exact_lines(case)
            return None
        found = places(self.sheet, case.name, case.value)
        place = best(case.name, found)
        if place is not None and not self._is_another_day(case, found):
            case.doubt = 1 - IN_E_INVOICE
            case.evidence = evidence(self.sheet, place.spot)
            case.says("e-invoice", "exact, from the data in the file; the page shows the same")
            self._sums(case)
            return None
        case.doubt = 1 - IN_E_INVOICE_ALONE
        other = self._shown_instead(case)
        if other is None:
            case.says("e-invoice", "exact, from the data in the file; the page does not show it as text")
            self._sums(case)
            return None
        words = case.name.replace("_", " ")
        case.speaks_against(
            "e-invoice", f"the data in the file say {shown(case.value)}, the page {other}", CONTRADICTED
        )
        return f"{CONTRADICTS.format(words)}{shown(case.value)} in the data, {other} on the page"

    def _exact_lines(self, case: Case) -> None:
        case.doubt = 1 - IN_E_INVOICE
        case.says("e-invoice", "exact, from the data in the file")
        self._sums(case)
        amounts = {abs(number.value) for number in self.sheet.numbers}
        totals = [abs(line.total) for line in self.data.line_items if line.total is not None]
        missing = [amount for amount in totals if amount not in amounts]
        if missing and len(missing) < len(totals):
            note = f"the page does not show {len(missing)} of the {len(totals)} amounts, such as {missing[0]}"
            case.speaks_against("on the page", note, UNUSUAL)

    def _is_another_day(self, case: Case, found: Sequence[Place]) -> bool:
        """Whether the day of an e-invoice stands on the page only as another one (the due date, say), while the page
        has a day of its own for this field."""
        if case.name not in ("date", "due_date"):
            return False
        strong, weak = OWN[case.name]
        claimed = all(place.label is not None and place.nearest and place.kind not in strong | weak for place in found)
        return claimed and any(kind in strong for kind, _, _ in announced(self.sheet, case.name))

    def _shown_instead(self, case: Case) -> str | None:
        """What the page shows beside a label of the field, where that is not the value of the e-invoice."""
        if case.name == "currency":
            others = self.clues.currencies - {case.value}
            return ", ".join(sorted(others)) if others and case.value not in self.clues.currencies else None
        if case.name not in ("invoice_number", "date", "due_date", "subtotal", "tax_amount", "total"):
            return None
        seen = announced(self.sheet, case.name)
        if not seen:
            return None
        if case.name == "tax_amount" and _adds_up(seen, case.value):
            case.says("taxes", "the taxes on the page add up to it")
            return None
        case.evidence = evidence(self.sheet, seen[0][2])
        return seen[0][2].text[:60]

    # What a model says: nothing is believed that the page does not show.

    def _on_page(self, case: Case) -> tuple[list[Place], Place | None]:
        found = places(self.sheet, case.name, case.value)
        place = best(case.name, found)
        if place is None:
            return found, None
        case.evidence = evidence(self.sheet, place.spot)
        scanned = self.sheet.pages[place.spot.page].source == "ocr"
        sure = max(other.spot.sure for other in found) if scanned else 1.0
        leaves = min(1.0, (FOUND if place.exact else FOUND_NEARLY) + (1 - sure) * OCR_WEIGHT)
        where = f"on page {place.spot.page + 1}: {place.spot.text[:80]}"
        if scanned:
            where += f" (recognised with {sure:.0%})"
        if not place.exact:
            where += ", written a little differently"
        case.speaks_for("on the page", where, leaves)
        return found, place

    def _absent(self, case: Case) -> None:
        exact = any(relation.state == "exact" and not relation.weak for relation in self._of(case.name))
        if exact:
            case.speaks_against("on the page", "not on the page; it was worked out, and the sums are right", WORKED_OUT)
        else:
            case.speaks_against("on the page", "not found on the page", NOT_ON_PAGE)

    def _label(self, case: Case, place: Place) -> None:
        """Whether the value stands beside a label of its field, and whether another one does."""
        strong, weak = OWN[case.name]
        if place.kind in strong and place.nearest:
            case.speaks_for("label", f"beside “{_label_text(place)}”", LABELLED)
        elif place.kind == "title":
            case.speaks_for("label", f"right behind “{_label_text(place)}”", TITLED)
        elif place.kind in strong or place.kind in weak:
            case.speaks_for("label", f"beside “{_label_text(place)}”", LABELLED_MAYBE)
        elif place.label is not None:
            case.speaks_against("label", f"it stands beside “{_label_text(place)}”", OTHER_LABEL)
        else:
            case.says("label", "no label of this field beside it", passed=False)

    def _rivals(self, case: Case, place: Place, same: Callable[[Any], bool]) -> None:
        """Other values beside labels of the field. Where sums prove this one, they do not count."""
        if any(relation.state == "exact" and not relation.weak for relation in self._of(case.name)):
            return
        strong, _ = OWN[case.name]
        seen = announced(self.sheet, case.name)
        others = [(kind, spot) for kind, value, spot in seen if not same(value)]
        # Words like “no.” stand beside all kinds of numbers.
        if others and case.name == "invoice_number" and others[0][0] not in strong:
            return
        if not others:
            if seen:
                case.speaks_for("only one", "no other value stands beside such a label", ONLY_ONE)
            return
        text = others[0][1].text[:40]
        if len(others) == len(seen):
            case.speaks_against("only one", f"the page shows {text} beside a label of this field", RIVAL)
        else:
            case.speaks_against("only one", f"the page also shows {text} beside such a label", RIVALS)

    def _of(self, name: FieldName) -> list[Relation]:
        return [relation for relation in self.relations if name in relation.fields]

    def _sums(self, case: Case) -> None:
        related = self._of(case.name)
        exact = [relation for relation in related if relation.state == "exact"]
        for relation in related:
            if relation.state == "exact":
                case.speaks_for(relation.name, relation.note, SUM_SAME if relation.weak else SUM_EXACT)
            elif relation.state == "close":
                case.says(relation.name, relation.note)
            else:
                proved = any(not other.weak for other in exact)
                case.speaks_against(relation.name, relation.note, SUM_OFF_AND_EXACT if proved else SUM_OFF)

    def _scanned_once(self, case: Case, found: Sequence[Place], place: Place) -> None:
        if self.sheet.pages[place.spot.page].source != "ocr":
            return
        proved = any(relation.state == "exact" for relation in self._of(case.name))
        if len(found) < 2 and not proved:
            well = case.name != "invoice_number" and place.spot.sure >= SCANNED_WELL
            case.bound = min(case.bound, SCANNED_WELL if well else min(SCANNED_ONCE, place.spot.sure))

    def amount(self, case: Case) -> None:
        found, place = self._on_page(case)
        if place is None:
            seen = announced(self.sheet, case.name) if case.name == "tax_amount" else []
            if _adds_up(seen, case.value):
                case.speaks_for("on the page", "the taxes on the page add up to it", FOUND)
            else:
                self._absent(case)
        else:
            self._label(case, place)
            self._rivals(case, place, lambda value: abs(cast(Decimal, value)) == abs(case.value))
            self._scanned_once(case, found, place)
            if case.name == "total":
                self._rounded(case)
                if place.kind == "due_amount":
                    self._not_what_is_due(case)
        self._sums(case)

    def _rounded(self, case: Case) -> None:
        """Where a total is rounded to coins, it is printed twice, and which one counts is not for us to say."""
        for number in self.sheet.numbers:
            if number.beside is not None and number.beside.kind == "rounding" and number.nearest and number.value:
                note = f"the page rounds its total by {number.spot.text}"
                case.speaks_against("rounding", note, RIVALS)
                return

    def _not_what_is_due(self, case: Case) -> None:
        """What is left to pay is the total only where nothing was paid before."""
        paid = [
            number
            for number in self.sheet.numbers
            if number.beside is not None and number.beside.kind == "paid" and number.nearest and number.value
        ]
        if paid and not any(relation.state == "exact" for relation in self._of(case.name)):
            note = f"it is what is left to pay, and {paid[0].spot.text} was paid or owed before"
            case.speaks_against("total or rest", note, OTHER_LABEL)

    def rate(self, case: Case) -> None:
        _, place = self._on_page(case)
        if place is None:
            self._absent(case)
        elif place.kind is not None:
            case.speaks_for("label", f"beside “{_label_text(place)}”", LABELLED)
        rates = {number.value for number in self.sheet.numbers if number.percent and number.value}
        if place is not None and rates == {case.value}:
            case.speaks_for("only one", "no other percentage on the page", SHOWN_TWICE)
        self._sums(case)

    def day(self, case: Case) -> None:
        found, place = self._on_page(case)
        if place is None:
            self._absent(case)
        else:
            if case.name == "date" and self._with_number(place):
                case.speaks_for("label", "right behind the invoice's number", LABELLED)
            else:
                self._label(case, place)
                self._rivals(case, place, lambda days: case.value in days)
            self._scanned_once(case, found, place)
            self._day_order(case, place)
        self._calendar(case)

    def _with_number(self, place: Place) -> bool:
        """Whether the day follows the invoice's number in its row, as in “Invoice 17 of 5 March”."""
        if place.kind != "date_word" or self.data.invoice_number is None:
            return False
        numbers = places(self.sheet, "invoice_number", self.data.invoice_number)
        return any(n.spot.row == place.spot.row and 0 <= place.spot.first - n.spot.last <= 2 for n in numbers)

    def _day_order(self, case: Case, place: Place) -> None:
        """Where day and month could be swapped, the page's own way of writing days decides."""
        days = next(day.days for day in self.sheet.days if day.spot == place.spot)
        if len(days) == 1:
            return
        day_first = case.value == days[0]
        hint = self.clues.day_first
        other = days[1 if day_first else 0]
        if hint is None:
            case.speaks_against("day or month", f"{place.spot.text} may also mean {other.isoformat()}", AMBIGUOUS)
        elif hint != day_first:
            case.speaks_against(
                "day or month", f"the page writes days so that it means {other.isoformat()}", OTHER_LABEL
            )
        else:
            case.says("day or month", "read as the page writes its other days, or as its country does")

    def _calendar(self, case: Case) -> None:
        issued, due = self.data.date, self.data.due_date
        if not FIRST_DAY <= case.value < LAST_DAY:
            case.speaks_against("calendar", "an unusual year", UNUSUAL)
        if case.name == "date" and self.today is not None and case.value > self.today:
            case.speaks_against("calendar", "the day is in the future", UNUSUAL)
        if issued is None or due is None:
            return
        if due < issued:
            case.speaks_against("order", f"due on {due}, before the invoice of {issued}", WRONG_ORDER)
        elif (due - issued).days > LONGEST_TERM:
            case.speaks_against("order", f"due on {due}, more than a year after {issued}", UNUSUAL)
        else:
            case.says("order", "issued before it is due")

    def number(self, case: Case) -> None:
        found, place = self._on_page(case)
        if place is None:
            self._absent(case)
            return
        self._label(case, place)
        self._rivals(case, place, lambda letters: same_code(case.value, letters))
        self._scanned_once(case, found, place)
        if not any(sign.isdigit() for sign in case.value):
            case.speaks_against("form", "a number without a digit", OTHER_LABEL)

    def currency(self, case: Case) -> None:
        found = places(self.sheet, case.name, case.value)
        place = best(case.name, found)
        others = self.clues.currencies - {case.value}
        if place is not None:
            case.evidence = evidence(self.sheet, place.spot)
            case.speaks_for("on the page", f"shown as {place.spot.text[:40]}", FOUND)
            if others:
                note = f"the page also shows {', '.join(sorted(others))}"
                case.speaks_against("only one", note, RIVALS)
            else:
                case.speaks_for("only one", "no other currency is shown", LABELLED)
            if len(found) > 1:
                case.speaks_for("repeated", f"shown {len(found)} times", SHOWN_TWICE)
        else:
            self._shared_sign(case, others)
        homes = self.clues.money_of_accounts
        if homes and case.value not in homes:
            case.says(
                "account", f"the bank account or VAT id is of a country with {', '.join(sorted(homes))}", passed=False
            )
        elif homes:
            case.speaks_for("account", "a bank account or VAT id of a country with this currency", SHOWN_TWICE)

    def _shared_sign(self, case: Case, others: frozenset[str]) -> None:
        signs = [sign for sign in self.clues.shared_signs if case.value in SHARED[sign]]
        if not signs or others:
            note = f"the page shows {', '.join(sorted(others))}" if others else "the page does not show it"
            case.speaks_against("on the page", note, NOT_ON_PAGE)
            return
        homes = self.clues.homes & SHARED[signs[0]]
        if homes == {case.value}:
            case.speaks_for("on the page", f"“{signs[0]}”, which several countries use, with an address of one", FOUND)
            case.speaks_for("country", "the page names no other country with such a sign", LABELLED)
        else:
            note = f"“{signs[0]}” is used by several countries, and the page does not tell which"
            case.speaks_against("on the page", note, GUESSED_CURRENCY)

    def vendor(self, case: Case) -> None:
        found, place = self._on_page(case)
        if place is None:
            self._absent(case)
            return
        judge_name(case, self.sheet, found, place)

    def lines(self, case: Case) -> None:
        lines = self.data.line_items
        amounts = {abs(number.value) for number in self.sheet.numbers}
        totals = [line.total for line in lines if line.total is not None]
        seen = sum(abs(amount) in amounts for amount in totals)
        if totals and seen == len(totals):
            case.speaks_for("on the page", "the amount of every line is on the page", FOUND)
        elif len(totals) < len(lines):
            case.speaks_against("complete", f"{len(lines) - len(totals)} lines have no amount", SUM_OFF)
        else:
            case.speaks_against(
                "on the page", f"{len(totals) - seen} of {len(lines)} amounts are not on it", NOT_ON_PAGE
            )
        whole = [line for line in lines if None not in (line.quantity, line.unit_price, line.total)]
        off = [line for line in whole if not _multiplies(line.quantity, line.unit_price, line.total)]
        if off:
            note = f"{off[0].quantity} times {off[0].unit_price} is not {off[0].total}; a discount may be in it"
            case.speaks_against("quantity times price", note, UNUSUAL)
        elif len(whole) == len(lines):
            case.speaks_for("quantity times price", "right on every line", LABELLED_MAYBE)
        self._sums(case)


_JUDGES: dict[FieldName, Callable[[_Trial, Case], None]] = {
    "vendor": _Trial.vendor,
    "invoice_number": _Trial.number,
    "date": _Trial.day,
    "due_date": _Trial.day,
    "subtotal": _Trial.amount,
    "tax_rate": _Trial.rate,
    "tax_amount": _Trial.amount,
    "total": _Trial.amount,
    "currency": _Trial.currency,
    "line_items": _Trial.lines,
}


def _label_text(place: Place) -> str:
    return "" if place.label is None else place.label.spot.text[:40]


def _adds_up(seen: Sequence[Announced], wanted: Decimal) -> bool:
    """Whether several announced amounts, each counted once, make up one: a tax for each rate."""
    amounts = {cast(Decimal, value) for _, value, _ in seen}
    return len(amounts) > 1 and abs(sum(amounts) - wanted) <= arithmetic.CENTS


def _multiplies(quantity: Decimal | None, price: Decimal | None, total: Decimal | None) -> bool:
    if quantity is None or price is None or total is None:
        return False
    return abs(quantity * price - total) <= max(arithmetic.CENTS, abs(total) * Decimal("0.01"))
