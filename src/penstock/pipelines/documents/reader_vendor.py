"""Who issued the invoice: the seller where it is named as such, else the name at the head that most speaks for it, by
its size, its legal form, the address that follows, and what the web address and the foot of the page say. Whoever is
named below `Bill to` or the like is the customer, here and everywhere else on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.paper.page import Box
from penstock.pipelines.documents.reader_labels import Label, mentions
from penstock.pipelines.documents.reader_layout import Cell, Sheet, beside
from penstock.pipelines.documents.reader_table import Header
from penstock.pipelines.documents.reader_values import amounts, dates

LEGAL = re.compile(
    r"(?<!\w)(?:(?i:GmbH(?:\s?&\s?Co\.?\s?KG)?|mbH|KGaA|OHG|GbR|Ltd\.?|Limited|LLC|L\.L\.C\.|LLP|Inc\.?|Incorporated|Corp\.?|Corporation|PLC|Pty|Pvt\.?|"
    r"B\.\s?V\.|N\.\s?V\.|V\.O\.F\.|SARL|S\.à\.?\s?r\.l\.|SASU?|EURL|S\.r\.l\.|SRL|S[àa]rl|G\.K\.|K\.K\.|DAC|S\.p\.A\.|S[DO0U]N\.?\s?B[HA][DO0]\.?|Bhd\.?|S/B|Enterprise|Sp\.\sz\s?o\.o\.)|"
    r"AG|KG|UG|OG|[ea]\.\s?[GKV]\.|eG|SE|BV|NV|S\.A\.S?\.?|SA|A/S|ApS|AB|Oy|AS|Co\.)(?!\w)"
)
"""How the form of a business is written, also as OCR misreads it."""

_DOMAIN = re.compile(
    r"@([\w-]{1,60}(?:\.[\w-]{1,60}){0,4})\.\w{2,}|"
    r"(?:www\.|https?://(?:www\.)?)([\w-]{1,60}(?:\.[\w-]{1,60}){0,4})\.\w{2,}"
)
_MAIL_FOR_ALL = {"gmail", "hotmail", "yahoo", "outlook", "gmx", "web", "icloud", "aol", "email", "localhost"}
_KEY = re.compile(r"(?:name|nom|firma|company(?:\sname)?|raison\ssociale|naam)\s?:?", re.I)
_SENDER = re.compile(r"\s+[-–—•●·|*]\s+|\s?[●•|]\s?")
_SPLIT = re.compile(r"\s+[-–—•●·|*]\s+|\s{2,}|,\s(?=\d)|\s?[●•|]\s?")
_STREET = re.compile(
    r"\b(?:street|st|road|rd|avenue|ave|drive|dr|lane|ln|blvd|boulevard|suite|floor|jalan|jln|taman|lot|no|rue|chemin|allée|place|"
    r"weg|platz|allee|gasse|laan|plein|way|court|box|postfach|bahnstr|hwy|parkway|square)\b\.?|\w+(?:stra(?:ß|ss)e|str\.|weg|platz|straat|gasse)\b",
    re.I,
)
_POSTCODE = re.compile(
    r"(?:^|[\s,-])(?:[A-Z]{1,3}-?\s?)?\d{4,6}(?:\s[A-Z]{2})?\s+[^\W\d]|\b[A-Z]{2}[.,]?\s+\d{5}\b|\b[A-Z]{1,2}\d\w?\s?\d[A-Z]{2}\b"
)
_NO_NAME = re.compile(
    r"@|www\.|https?:|\.(?:com|de|fr|nl|net|org)\b(?!\s?\w)|\btel\b|\bfax\b|\bphone\b|\bpage\b|\bseite\b|thank\syou|welcome|\(c\)|©|copyright|\biban\b|\bbic\b|"
    r"\b(?:gst|vat|ust|tva|tax|reg|co)\.?\s?(?:id|no|reg|registration)|\bwebsite\b|\bcontact\b|^\W*(?:address|adresse|anschrift)\b|"
    r"\b(?:email|e-mail|mobile|cashier|table|original|copy|duplicate|member|served|statement|estimate|quote|stylesheet|logo)\b|xml|pdf/?a",
    re.I,
)
_TITLES = re.compile(
    r"\W*(?:(?:tax|retail|sales|cash|commercial|proforma|project|simplified)\s)*(?:invoices?|bills?|receipt|statement|rechnung|facture|factuur|gutschrift|(?:facture\sd['’])?avoir|credit\snote|"
    r"handelsrechnung|customer\scopy|kopie|rechnungsdokument)\W*(?:/\s?\w+)?\W*", re.I,
)  # fmt: skip
_TITLE_BEHIND = re.compile(
    r"[\s-]+(?:(?:tax|sales|retail)\s)?(?:invoice|rechnung|facture|receipt|statement|bill)\W*$", re.I
)
_PLACES = re.compile(
    r"\W*(?:united\s(?:states|kingdom)|deutschland|germany|france|nederland|netherlands|usa|india|malaysia|schweiz|österreich|belgi\w+|hong\skong|singapore|canada|australia)\W*",
    re.I,
)


@dataclass(frozen=True)
class Name:
    text: str
    score: float
    row: int


def vendor(sheet: Sheet, found: Sequence[Label], heads: Sequence[Header]) -> str | None:
    """The name that most speaks for, or None where nothing does."""
    buyers = _buyers(sheet, found)
    names = [*_sellers(sheet, found, buyers), *_heads(sheet, heads, buyers), *_foot(sheet, buyers)]
    if not names:
        return None
    domains = _domains(sheet, buyers)
    text = _letters(sheet.text)
    best: tuple[float, int, str] | None = None
    for name in names:
        score = name.score
        key = _letters(_without_form(name.text))
        if len(key) < 2:
            continue
        score += 14 if any(_agree(key, domain) for domain in domains) else 0
        score += min(8, 4 * (text.count(key) - 1)) if len(key) > 4 else 0
        if best is None or (score, -name.row) > best[:2]:
            best = (score, -name.row, name.text)
    if best is None or best[0] < 8:
        return None
    fuller = [name.text for name in names if name.text.startswith(f"{best[2]} ") and LEGAL.search(name.text)]
    return max(fuller, key=len) if fuller and not LEGAL.search(best[2]) else best[2]


def _sellers(sheet: Sheet, found: Sequence[Label], buyers: set[str]) -> Iterator[Name]:
    for label in found:
        if label.kind != "seller":
            continue
        for text in _named(sheet, label):
            if (name := _name(text)) and not _known(name, buyers):
                yield Name(name, 40 + _form(name), label.cell.row)
                break


def _named(sheet: Sheet, label: Label) -> Iterator[str]:
    yield label.rest.strip(" :")
    if label.rest.strip(" :"):
        return
    row = sheet.rows[label.cell.row]
    for cell in row.cells[label.place + 1 : label.place + 2]:
        if not mentions(cell.text):
            yield cell.text
    for cell in sheet.below(label.box, label.cell.row, lines=9, rows=4):
        if _KEY.fullmatch(cell.text):
            yield from (other.text for other in _next(sheet, cell))
        elif not cell.text.endswith(":"):
            yield cell.text


def _next(sheet: Sheet, cell: Cell) -> Sequence[Cell]:
    cells = sheet.rows[cell.row].cells
    place = cells.index(cell)
    return cells[place + 1 : place + 2]


def _heads(sheet: Sheet, heads: Sequence[Header], buyers: set[str]) -> Iterator[Name]:
    """Names in the upper part of the first page, before the table begins."""
    table = min((head.row for head in heads), default=len(sheet.rows))
    place = 0
    for cell in sheet.cells():
        if cell.page or sheet.down(cell) > 0.42 or cell.row >= table:
            continue
        name = _name(_SPLIT.split(cell.text)[0])
        if name is None or _known(name, buyers):
            continue
        name = _with_form_below(sheet, cell, name)
        yield Name(_with_above(sheet, cell, name), _form(name) + _stands(sheet, cell) - 1.5 * place, cell.row)
        place += 1


def _stands(sheet: Sheet, cell: Cell) -> float:
    """How much the place and the size of a name at the head speak for it."""
    score = 14.0 - 14 * sheet.down(cell)
    if cell.height > 1.3 * sheet.tall:
        score += min(14.0, 9 * (cell.height / sheet.tall - 1.15))
    if _SENDER.search(cell.text) and _POSTCODE.search(" ".join(_SPLIT.split(cell.text)[1:])):
        score += 16
    elif _addressed(sheet, cell):
        score += 6
    elif _below_sender(sheet, cell):
        score -= 14
    doubtful = sheet.scanned and sum(word.confidence for word in cell.words) < 50 * len(cell.words)
    return score - 6 if cell.text.islower() or doubtful else score


def _with_form_below(sheet: Sheet, cell: Cell, name: str) -> str:
    """A name with the form of the business, where that alone has gone into the next line."""
    for under in sheet.below(cell.box, cell.row, lines=1.2, rows=1):
        if LEGAL.fullmatch(under.text):
            return f"{name} {under.text}"
    return name


def _with_above(sheet: Sheet, cell: Cell, name: str) -> str:
    """A name with the lines above it, where it began there: of the same size and capitals, with the form of the
    business only in the last. Lines that are centred go together only if the first is full."""
    if not LEGAL.search(name) or len(name.split()) > 4:
        return name
    here = cell
    for _ in range(2):
        above = sheet.above(here)
        first = None if above is None else _name(above.text)
        if above is None or first is None or here.box[1] - above.box[3] > 1.2 * here.height:
            break
        alike = 0.7 < above.height / max(1, here.height) < 1.4 and above.text.isupper() == here.text.isupper()
        flush = abs(above.box[0] - here.box[0]) < 0.5 * sheet.tall and here.height > 1.2 * sheet.tall
        full = above.box[2] - above.box[0] >= 0.9 * (here.box[2] - here.box[0])
        if not alike or not (flush or full) or LEGAL.search(first) or first.islower() or re.search(r"\d", first):
            break
        name, here = f"{first} {name}", above
    return name


def _foot(sheet: Sheet, buyers: set[str]) -> Iterator[Name]:
    """Names with a legal form at the foot of a page, where the imprint stands."""
    for cell in sheet.cells():
        if sheet.down(cell) < 0.75 or not LEGAL.search(cell.text):
            continue
        name = _name(_SPLIT.split(cell.text)[0])
        if name and LEGAL.search(name) and not _known(name, buyers) and len(name.split()) <= 7:
            yield Name(name, 10, cell.row)


def _name(text: str) -> str | None:
    """The text as a name, or None where it is something else: a label, an address, a date, figures."""
    if text.rstrip().endswith(":"):
        return None
    text = re.sub(r"\s*\(\s?\w*\d\w{3,}-\w\s?\)?.*$", "", text)
    text = re.sub(r"\s*\(?(?:Reg\.?\s?No\.?:?\s*)?\(?\b\d{5,}-\w\)?.*$|\s*\(\d[^)]*\)?\s*$", "", text)
    text = re.sub(r"^(?:name|nom|company)\s?:\s*", "", text, flags=re.I)
    text = _TITLE_BEHIND.sub("", text).strip(" ,;:|*-\u2013_'\u2018\u2019`\"~<>")
    letters = sum(letter.isalpha() for letter in text)
    if (
        letters < 3
        or (not LEGAL.search(text) and all(len(word) < 4 and not word.isupper() for word in text.split()))
        or letters < 0.55 * len(text.replace(" ", ""))
        or len(text) > 70
        or len(text.split()) > 9
    ):
        return None
    if _TITLES.fullmatch(text) or _PLACES.fullmatch(text) or _NO_NAME.search(text) or dates(text):
        return None
    if not LEGAL.search(text) and (_POSTCODE.search(text) or (re.search(r"\d", text) and _STREET.search(text))):
        return None
    if any(one.start == 0 and one.end == len(text) for one in mentions(text, columns=True)):
        return None
    found = [
        one for one in mentions(text) if one.kind not in ("title", "seller", "tendered", "other_amount", "tax", "total")
    ]
    if found and not LEGAL.search(text):
        return None
    if (
        (text.endswith(("!", "?")) or (text.endswith(".") and len(text.split()) > 5)) and not LEGAL.search(text)
    ) or any(one.money for one in amounts(text, None)):
        return None
    return text


def _form(name: str) -> float:
    return 10.0 if LEGAL.search(name) else 0.0


def _without_form(name: str) -> str:
    return LEGAL.sub("", name)


def _known(name: str, buyers: set[str]) -> bool:
    return _letters(name) in buyers or _letters(_without_form(name)) in buyers


def _addressed(sheet: Sheet, cell: Cell) -> bool:
    """Whether an address follows in the same column."""
    texts = [one.text for one in sheet.below(cell.box, cell.row, lines=6, rows=4)]
    return any(_POSTCODE.search(text) or _STREET.search(text) for text in texts)


def _below_sender(sheet: Sheet, cell: Cell) -> bool:
    """Whether the line above is a sender's, as in the window of an envelope: then this is the addressee."""
    box: Box = cell.box
    for row in reversed(sheet.rows[: cell.row]):
        if row.page != cell.page or box[1] - row.box[3] > 9 * sheet.tall:
            return False
        for above in row.cells:
            if beside(above.box, box) and len(_SPLIT.split(above.text)) > 1 and _POSTCODE.search(above.text):
                return True
    return False


def _buyers(sheet: Sheet, found: Sequence[Label]) -> set[str]:
    """What stands after or below a label of the customer's, letters only."""
    names: set[str] = set()
    for label in found:
        if label.kind != "buyer":
            continue
        rest = label.rest.strip(" :,")
        if len(rest) > 2 and label.cell.text[: label.start].strip(" :") == "":
            names |= _both(rest)
        row = sheet.rows[label.cell.row]
        if not rest:
            for cell in row.cells[label.place + 1 : label.place + 2]:
                if not mentions(cell.text):
                    names |= _both(cell.text)
        last = label.box
        for cell in sheet.below(label.box, label.cell.row, lines=12, rows=5):
            if cell.box[1] - last[3] > 2.2 * sheet.tall or abs(cell.box[0] - label.box[0]) > 12 * sheet.tall:
                break
            if cell.box[0] < label.box[0] - 4 * sheet.tall:
                continue
            names |= _both(cell.text)
            if _KEY.fullmatch(cell.text):
                names |= {form for other in _next(sheet, cell) for form in _both(other.text)}
            last = cell.box
    return names


def _both(text: str) -> set[str]:
    return {_letters(text), _letters(_without_form(text))}


def _domains(sheet: Sheet, buyers: set[str]) -> set[str]:
    """The names in web and e-mail addresses, without the customer's and those of mail for everybody."""
    text = "\n".join(cell.text.lower() for cell in sheet.cells() if _letters(cell.text) not in buyers)
    found = [one or other for one, other in _DOMAIN.findall(text)]
    parts = {part for whole in found for part in whole.split(".")} - _MAIL_FOR_ALL
    return {_letters(part) for part in parts if len(part) > 3}


def _agree(name: str, domain: str) -> bool:
    return len(domain) > 3 and (domain == name or (len(name) > 4 and (name in domain or domain in name)))


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())
