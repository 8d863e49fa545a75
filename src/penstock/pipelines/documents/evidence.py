"""Where a value stands on the pages: an amount in any printed form, a day in any format, a name in spite of OCR, a
number with other punctuation. Of several places the one beside a label of the field is taken."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from itertools import islice

from penstock.paper.page import Page
from penstock.pipelines.documents.currencies import CODES, NAMES, SIGNS
from penstock.pipelines.documents.model import Evidence, FieldName
from penstock.pipelines.documents.sheet import ROW_REACH, Label, Sheet, Spot, sheet_of
from penstock.pipelines.documents.values import fold

MOST_PLACES = 100
"""Places of one value that are looked at; a hostile page repeats a value on every line."""
MOST_GUESSES = 100
"""Places whose spelling is compared letter by letter with a name."""

OWN: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "total": (frozenset({"total"}), frozenset({"total_word", "due_amount"})),
    "subtotal": (frozenset({"subtotal"}), frozenset()),
    "tax_amount": (frozenset({"tax_amount"}), frozenset()),
    "tax_rate": (frozenset({"tax_amount", "tax_rate"}), frozenset()),
    "date": (frozenset({"date"}), frozenset({"date_word"})),
    "due_date": (frozenset({"due_date"}), frozenset()),
    "invoice_number": (frozenset({"invoice_number"}), frozenset({"title", "number_word"})),
    "vendor": (frozenset({"vendor"}), frozenset()),
    "currency": (frozenset({"currency"}), frozenset()),
}
"""The kinds of labels that announce a field: those that say so, and those that may also announce something else."""

NUMBER_LABELS = frozenset({"invoice_number", "title", "number_word", "other_number", "tax_id"})
PARTY_LABELS = frozenset({"vendor", "customer"})


@dataclass(slots=True, frozen=True)
class Place:
    """One place of a value. `label` is what it stands beside; `nearest` says that the value is the one the label
    announces; `exact` is False where letters or the sign differ."""

    spot: Spot
    label: Label | None
    nearest: bool = True
    exact: bool = True

    @property
    def kind(self) -> str | None:
        return None if self.label is None else self.label.kind


def find(name: FieldName, value: object, pages: Sequence[Page]) -> Evidence | None:
    """Where the value of a field stands, or None where it is not found."""
    sheet = sheet_of(pages)
    place = best(name, places(sheet, name, value))
    return None if place is None else evidence(sheet, place.spot)


def evidence(sheet: Sheet, spot: Spot) -> Evidence:
    page = sheet.pages[spot.page]
    left, top, right, bottom = spot.box
    width, height = max(1, page.width), max(1, page.height)
    box = (_part(left / width), _part(top / height), _part(right / width), _part(bottom / height))
    return Evidence(page=spot.page + 1, text=spot.text[:500], box=box)


def _part(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 4)


def best(name: str, found: Sequence[Place]) -> Place | None:
    """The place beside a label of the field; else the first that no other label claims."""
    strong, weak = OWN.get(name, (frozenset(), frozenset()))

    def rank(place: Place) -> tuple[bool, int]:
        if place.kind in strong:
            at = 0 if place.nearest else 1
        elif place.kind in weak:
            at = 2 if place.nearest else 3
        else:
            at = 4 if place.label is None else 5
        return not place.exact, at

    return min(found, key=rank, default=None)


def places(sheet: Sheet, name: FieldName, value: object) -> list[Place]:
    """Where the value stands, in reading order."""
    if value is None:
        return []
    return list(islice(_places(sheet, name, value), MOST_PLACES))


def _places(sheet: Sheet, name: FieldName, value: object) -> Iterator[Place]:
    if name == "tax_rate" and isinstance(value, Decimal):
        yield from _rates(sheet, value)
    elif isinstance(value, Decimal):
        yield from _amounts(sheet, value)
    elif isinstance(value, date):
        for day in sheet.days:
            if value in day.days:
                yield Place(day.spot, day.beside, day.nearest)
    elif name == "currency" and isinstance(value, str):
        yield from currency_places(sheet, value)
    elif name == "vendor" and isinstance(value, str):
        yield from _names(sheet, value)
    elif isinstance(value, str):
        yield from _codes(sheet, value)


def _rates(sheet: Sheet, value: Decimal) -> Iterator[Place]:
    for number in sheet.numbers:
        if number.percent and number.value == value:
            yield Place(number.spot, sheet.label_of(number.spot, OWN["tax_rate"][0]))


def _amounts(sheet: Sheet, value: Decimal) -> Iterator[Place]:
    wanted = abs(value)
    for number in sheet.numbers:
        if not number.percent and abs(number.value) == wanted:
            yield Place(number.spot, number.beside, number.nearest, exact=number.value == value)


_JUNK = re.compile(r"[\W_]+")
_ALIKE = str.maketrans("oilsbzg", "0115829")


def _letters(text: str) -> str:
    return _JUNK.sub("", fold(text))


def _codes(sheet: Sheet, value: str) -> Iterator[Place]:
    """A number of a document: its letters and digits count, in one word or in several; on scans `O` and `0` are one."""
    wanted = _letters(value)
    if not wanted:
        return
    alike = wanted.translate(_ALIKE)
    loose = sheet.scanned
    for index, row in enumerate(sheet.rows):
        for at, word in enumerate(row.plain):
            # The number may stand behind a sign (`#INV1`).
            if not loose and wanted[0] not in word[:3]:
                continue
            joined, last = "", at
            while last < len(row.plain) and len(joined) < len(wanted) and last - at < 6:
                joined += _letters(row.plain[last])
                last += 1
                if not wanted.startswith(joined) and not (loose and alike.startswith(joined.translate(_ALIKE))):
                    break
            if joined == wanted or (loose and joined.translate(_ALIKE) == alike):
                spot = sheet.spot(index, at, last)
                yield Place(spot, sheet.label_of(spot, NUMBER_LABELS), exact=joined == wanted)


_LEGAL_FORMS = """
gmbh ag kg ug ohg gbr se mbh co ltd limited inc llc llp plc corp corporation company bv nv sarl sas sa sasu eurl srl spa
sl oy ab as aps sdn bhd pvt pty pte lp ev eg dac kk og
"""
_FORMS = frozenset(_LEGAL_FORMS.split())


def legal_form(words: Collection[str]) -> bool:
    """Whether one of these words (letters alone) is the legal form of a business."""
    return not _FORMS.isdisjoint(words)


def name_words(text: str) -> list[str]:
    return [letters for letters in (_letters(word) for word in text.split()) if letters]


def _names(sheet: Sheet, value: str) -> Iterator[Place]:
    """A name, with or without the legal form at its end. Where a page was scanned and nothing fits, spellings a letter
    or two away count as well."""
    words = name_words(value)
    if not words:
        return
    core = list(words)
    while len(core) > 1 and core[-1] in _FORMS:
        core.pop()
    seen = False
    for place in _exact_names(sheet, words, core):
        seen = True
        yield place
    if not seen and sheet.scanned:
        yield from _near_names(sheet, "".join(core))


def _exact_names(sheet: Sheet, words: Sequence[str], core: Sequence[str]) -> Iterator[Place]:
    first, joined, whole = core[0], "".join(core), "".join(words)
    for index, row in enumerate(sheet.rows):
        for at, word in enumerate(row.plain):
            # Two words of the name may be one on the page, and the other way round.
            if (
                not word
                or word[0] != first[0]
                or not (joined.startswith(letters := _letters(word)) or first == letters)
            ):
                continue
            text, last = "", at
            while last < len(row.plain) and joined.startswith(text + _letters(row.plain[last])) and text != joined:
                text += _letters(row.plain[last])
                last += 1
            if text != joined:
                spot = sheet.spot(index, at, last)
                # A long name goes on in the next line of its column.
                if last > at and (whole_spot := _goes_on(sheet, spot, joined[len(text) :], whole[len(text) :])):
                    yield Place(whole_spot, party_of(sheet, spot))
                continue
            while last < len(row.plain) and text != whole and whole.startswith(text + _letters(row.plain[last])):
                text += _letters(row.plain[last])
                last += 1
            spot = sheet.spot(index, at, last)
            yield Place(spot, party_of(sheet, spot))


def _goes_on(sheet: Sheet, start: Spot, joined: str, whole: str) -> Spot | None:
    """The spot with the lines below it, where these hold the rest of a name."""
    height = max(8, start.box[3] - start.box[1])
    text, box, shown = "", start.box, start.text
    for index in range(start.row + 1, min(len(sheet.rows), start.row + 4)):
        row = sheet.rows[index]
        if row.page != start.page or row.top - box[3] > 1.5 * height:
            break
        at = bisect_left(row.lefts, start.box[0] - height)
        if at == len(row.lefts) or row.lefts[at] > start.box[0] + height:
            continue
        first = at
        while at < len(row.plain) and whole.startswith(text + _letters(row.plain[at])) and text != whole:
            text += _letters(row.plain[at])
            at += 1
        if at == first:
            break
        more = sheet.spot(index, first, at)
        box = (min(box[0], more.box[0]), box[1], max(box[2], more.box[2]), more.box[3])
        shown = f"{shown} {more.text}"
    return replace(start, box=box, text=shown) if text.startswith(joined) else None


def _near_names(sheet: Sheet, wanted: str) -> Iterator[Place]:
    allowed = max(1, len(wanted) // 6)
    guesses = 0
    for index, row in enumerate(sheet.rows):
        for at in range(len(row.plain)):
            start = _letters(row.plain[at])[:1]
            if not start or (start != wanted[0] and at > 0):
                continue
            guesses += 1
            if guesses > MOST_GUESSES:
                return
            text, last = "", at
            while last < len(row.plain) and len(text) < len(wanted) - allowed:
                text += _letters(row.plain[last])
                last += 1
            if abs(len(text) - len(wanted)) <= allowed and _distance(text, wanted, allowed) <= allowed:
                spot = sheet.spot(index, at, last)
                yield Place(spot, party_of(sheet, spot), exact=False)


def _distance(one: str, other: str, most: int) -> int:
    """How many letters to change, add or leave out; given up beyond `most`."""
    before = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        here = [row]
        for column, against in enumerate(other, start=1):
            here.append(min(before[column] + 1, here[-1] + 1, before[column - 1] + (letter != against)))
        if min(here) > most:
            return most + 1
        before = here
    return before[-1]


def party_of(sheet: Sheet, spot: Spot) -> Label | None:
    """The label of the block a name stands in: of the seller or of the customer. It stands beside the name, or above
    it with nothing but lines of the same block between."""
    row = sheet.rows[spot.row]
    height = max(8, spot.box[3] - spot.box[1])
    for label in reversed([label for label in row.labels if label.spot.last <= spot.first][-3:]):
        gap = spot.box[0] - label.spot.box[2]
        if label.kind in PARTY_LABELS and gap <= 12 * height:
            return label
        if gap <= 2 * height:
            break
    # In a form, `Name:` stands in the column of the block's label, and the name further right.
    colons = [at for at in range(max(0, spot.first - 6), spot.first) if row.folded[at].endswith(":")]
    left = row.words[colons[-1]].box[0] if colons else spot.box[0]
    bottom = spot.box[1]
    for index in range(spot.row - 1, max(-1, spot.row - 7), -1):
        above = sheet.rows[index]
        if above.page != spot.page or bottom - above.bottom > 3 * height:
            return None
        end = bisect_left(above.lefts, left + 3 * height)
        start = bisect_left(above.lefts, left - 3 * height)
        for label in above.labels:
            if label.kind in PARTY_LABELS and start <= label.spot.first < end:
                return label
        if start < end:
            bottom = above.top
    return None


def currency_places(sheet: Sheet, code: str) -> Iterator[Place]:
    """Where a currency is shown by its code, its name or a sign of its own."""
    signs = tuple(sign for sign, meant in SIGNS.items() if meant == code)
    names = [name.split() for name, meant in NAMES.items() if meant == code]
    lower = code.lower()
    for index, row in enumerate(sheet.rows):
        for at, word in enumerate(row.plain):
            text = row.words[at].text
            shown = word == lower and text.strip(".,:;()[]").isupper() and code not in _WORDS_TOO
            shown = shown or (text.startswith(code) and text[3:4].isdigit()) or _is_sign(text, signs)
            length = 1 if shown else next((len(name) for name in names if row.plain[at : at + len(name)] == name), 0)
            if length:
                spot = sheet.spot(index, at, at + length)
                yield Place(spot, sheet.label_of(spot, OWN["currency"][0]))


_WORDS_TOO = frozenset({"ALL", "TOP", "TRY", "CUP", "PEN", "MAD", "BAM", "LAK", "SOS", "MOP", "GEL", "ERN", "COP"})
"""Codes that are words as well."""
assert _WORDS_TOO <= CODES


def _is_sign(text: str, signs: Sequence[str]) -> bool:
    for sign in signs:
        if sign not in text:
            continue
        if not sign[0].isalpha():
            return True
        # `RM` and `Ft` are signs only alone or right before or behind digits.
        rest = text.replace(sign, "", 1).strip(".,:;()-")
        if not rest or (rest[0].isdigit() and not rest[-1].isalpha()):
            return True
    return False


Announced = tuple[str, object, Spot]
"""The kind of a label, and the value beside it."""


def announced(sheet: Sheet, name: str) -> list[Announced]:
    """What the pages show right beside the labels that say it is this field; where there are none, beside those that
    may say so."""
    strong, weak = OWN[name]
    for kinds in (strong, weak):
        if found := list(islice(_announced(sheet, name, kinds), MOST_PLACES)):
            return found
    return []


def _announced(sheet: Sheet, name: str, kinds: Collection[str]) -> Iterator[Announced]:
    if name in ("total", "subtotal", "tax_amount"):
        for number in sheet.numbers:
            if number.nearest and number.beside is not None and number.beside.kind in kinds and not number.percent:
                yield number.beside.kind, number.value, number.spot
    elif name in ("date", "due_date"):
        for day in sheet.days:
            if day.nearest and day.beside is not None and day.beside.kind in kinds:
                yield day.beside.kind, day.days, day.spot
    elif name == "invoice_number":
        for label in sheet.labels:
            if label.kind in kinds and (spot := _number_after(sheet, label)) is not None:
                yield label.kind, _letters(spot.text), spot


def _number_after(sheet: Sheet, label: Label) -> Spot | None:
    """The first word with a digit right of a label, before any other label; else the one below it."""
    row = sheet.rows[label.spot.row]
    for at in range(label.spot.last, min(len(row.words), label.spot.last + 4)):
        if any(other.spot.first == at for other in row.labels[:50]):
            break
        if row.words[at].box[0] - row.words[at - 1].box[2] > ROW_REACH * sheet.pages[row.page].width:
            break
        if any(sign.isdigit() for sign in row.words[at].text):
            return sheet.spot(label.spot.row, at, at + 1)
    height = max(8, label.spot.box[3] - label.spot.box[1])
    for index in range(label.spot.row + 1, min(len(sheet.rows), label.spot.row + 4)):
        below = sheet.rows[index]
        if below.page != row.page or below.top - label.spot.box[3] > 6 * height:
            return None
        start = bisect_left(below.lefts, label.spot.box[0] - height)
        for at in range(start, min(len(below.words), start + 3)):
            if below.words[at].box[0] > label.spot.box[2]:
                break
            if any(sign.isdigit() for sign in below.words[at].text):
                return sheet.spot(index, at, at + 1)
            return None
    return None


def same_code(value: str, letters: object) -> bool:
    """Whether an announced number is this one, or begins or ends it where the page parts it in words."""
    wanted = _letters(value)
    return isinstance(letters, str) and (
        wanted == letters or (len(letters) >= 2 and (wanted.startswith(letters) or wanted.endswith(letters)))
    )
