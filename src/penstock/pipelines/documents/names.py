"""Whether a name on the page is that of the business that issued the invoice, and is whole: what the letterhead, the
foot, the mail address, the lines around it and the labels of both parties say."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from penstock.pipelines.documents.confidence import Case
from penstock.pipelines.documents.evidence import Place, legal_form, name_words
from penstock.pipelines.documents.labels import label_at
from penstock.pipelines.documents.sheet import Row, Sheet, Spot

SELLER = 0.25
"""What a label that says “seller” leaves of the doubt."""
OWN_DOMAIN = 0.3
"""The same for a web or mail address of that name."""
PART_OF_DOMAIN = 0.5
AGAIN = 0.5
"""The same for a name that stands in several places, such as head and foot."""
LEGAL_FORM = 0.6
LETTERHEAD = 0.6
LARGE = 0.6

CUSTOMER = 0.35
"""The bound for a name that stands only in the customer's block."""
BOTH_PARTIES = 0.8
NO_NAME = 0.5
"""The bound for a text that can hardly be a name."""
MAYBE_PART = 0.85
"""The bound for a name with more text right before, behind, above or below it in most places."""
SCANNED_NAME = 0.88
"""The bound for a scanned name that is not repeated letter by letter."""
SAME_SIZE = 0.4
"""How far the heights of two lines may differ, as part of the larger: capitals, accents and descenders do so much."""
TOP = 0.2
"""Part of the first page's height that is its head."""

_DOMAIN = re.compile(
    r"(?:@|www\.|https?://)([\w.\-]+)|^([\w\-]+(?:\.[\w\-]+)*\.(?:com|net|org|de|at|ch|fr|nl|be|eu|uk|io|example))$"
)
_STREET = re.compile(
    r"^\d+[a-z]?,? |(?:strasse|straße|str\.|weg|platz|gasse| street| road| avenue| lane| rue) ?\d*$", re.IGNORECASE
)
_ODD = re.compile(r"[\[\]{}<>|=\\^~_\"„“”*:;?]|^\W")


def judge_name(case: Case, sheet: Sheet, found: Sequence[Place], place: Place) -> None:
    own = [other for other in found if other.kind != "customer"]
    whole = "".join(name_words(case.value))
    # A shorter form of the name elsewhere (`Smith Billing` for Smith Ltd) says nothing about where it ends.
    full = [other for other in own if "".join(name_words(other.spot.text)) == whole] or own
    if any(other.kind == "vendor" for other in found):
        case.speaks_for("label", "it stands where the seller is named", SELLER)
    elif not own:
        case.speaks_against("label", f"it stands at the customer's place, beside “{_text(place)}”", CUSTOMER)
    elif len(own) < len(found):
        case.speaks_against("label", "it also stands at the customer's place", BOTH_PARTIES)
    words = name_words(case.value)
    if trouble := _no_name(case.value, words):
        case.speaks_against("form", trouble, NO_NAME)
    if leaves := _own_domain(sheet, words):
        case.speaks_for("address", "a web or mail address on the page has this name", leaves)
    rows = {other.spot.row for other in own}
    if len(rows) > 1:
        case.speaks_for("repeated", f"it stands in {len(rows)} places", AGAIN)
    elif sheet.pages[place.spot.page].source == "ocr":
        bound = min(SCANNED_NAME, place.spot.sure)
        case.speaks_against("repeated", "it was recognised in one place only", bound)
    if legal_form(words) or any(_form_behind(sheet, other) for other in own):
        case.speaks_for("form", "it has the legal form of a business", LEGAL_FORM)
    if any(_in_head(sheet, other) for other in own):
        case.speaks_for("letterhead", "it stands at the top of the first page", LETTERHEAD)
        if any(_large(sheet, other) for other in own):
            case.speaks_for("size", "it is printed larger than the text", LARGE)
    if full and 2 * sum(_goes_further(sheet, other) for other in full) >= len(full):
        case.speaks_against("whole", "the name may go on in the words or lines around it", MAYBE_PART)
    if full and all(_torn(sheet, other.spot) for other in full):
        case.speaks_against("whole", "there is a gap in the name, so something else may be in it", MAYBE_PART)


def _text(place: Place) -> str:
    return "" if place.label is None else place.label.spot.text[:40]


def _no_name(value: str, words: Sequence[str]) -> str | None:
    if sum(sign.isalpha() for sign in value) < 2 or len(words) > 10:
        return "this is hardly the name of a business"
    if _STREET.search(value):
        return "this looks like an address"
    if _ODD.search(value):
        return "there are signs in it that names do not have"
    # Letters set wide come as several words.
    for spelled in (list(words), ["".join(words)]):
        label = label_at(spelled, 0, len(spelled), colon=True)
        if label is None or label[1] < len(spelled):
            continue
        return "this is a word that invoices use, and no name"
    return None


def _own_domain(sheet: Sheet, words: Sequence[str]) -> float | None:
    """How much doubt a web or mail address leaves: it may have the whole name or a part of it."""
    joined = "".join(words)
    core = "".join(word for word in words if not legal_form((word,)))
    part: float | None = None
    for row in sheet.rows:
        for word in row.folded:
            if "." not in word or not (found := _DOMAIN.search(word)):
                continue
            parts = (found[1] or found[2]).removeprefix("www.").split(".")[:-1]
            domain = re.sub(r"[\W_]", "", "".join(parts[-1:]))
            if len(domain) >= 4 and (domain in (joined, core) or core in domain):
                return OWN_DOMAIN
            if len(domain) >= 4 and domain in joined:
                part = PART_OF_DOMAIN
    return part


def _form_behind(sheet: Sheet, place: Place) -> bool:
    row = sheet.rows[place.spot.row]
    return legal_form(name_words(" ".join(row.plain[place.spot.last : place.spot.last + 2])))


def _in_head(sheet: Sheet, place: Place) -> bool:
    page = sheet.pages[place.spot.page]
    return place.spot.page == 0 and place.spot.box[1] <= TOP * page.height


def _large(sheet: Sheet, place: Place) -> bool:
    heights = sorted(row.words[0].box[3] - row.words[0].box[1] for row in sheet.rows[:300])
    return place.spot.box[3] - place.spot.box[1] >= 1.4 * heights[len(heights) // 2]


def _goes_further(sheet: Sheet, place: Place) -> bool:
    """Whether text of the same size follows or precedes without a gap, so that the name may be a part of it. Labels,
    addresses (which have digits), legal forms and text behind a separator do not count, nor what follows a legal form
    or precedes a name that has its own label."""
    spot = place.spot
    row = sheet.rows[spot.row]
    size = row.words[spot.first].box[3] - row.words[spot.first].box[1]
    before, behind = spot.first - 1, spot.last
    ended = legal_form(name_words(spot.text)[-1:])
    begun = place.kind == "vendor"
    if (
        not begun
        and before >= 0
        and spot.box[0] - row.words[before].box[2] <= 0.6 * size
        and not _apart(row, before, size)
    ):
        return True
    end = row.words[spot.last - 1]
    close = behind < len(row.words) and row.words[behind].box[0] - end.box[2] <= 0.6 * size
    if close and not ended and not end.text.endswith((",", ".", ":", ";")) and not _apart(row, behind, size):
        return True
    return (not begun and _continues(sheet, spot, size, -1)) or (not ended and _continues(sheet, spot, size, 1))


def _torn(sheet: Sheet, spot: Spot) -> bool:
    words = sheet.rows[spot.row].words[spot.first : spot.last]
    size = max(word.box[3] - word.box[1] for word in words)
    return any(behind.box[0] - word.box[2] > size for word, behind in pairwise(words))


def _apart(row: Row, at: int, size: int) -> bool:
    """Whether a word beside a name is no part of it."""
    word = row.words[at]
    if abs((word.box[3] - word.box[1]) - size) > 0.5 * size or not any(sign.isalpha() for sign in word.text):
        return True
    if (
        any(sign.isdigit() or sign in "@/" for sign in word.text)
        or legal_form((row.plain[at],))
        or word.text.endswith((":", ",", "."))
    ):
        return True
    return any(label.spot.first <= at < label.spot.last for label in row.labels)


def _continues(sheet: Sheet, spot: Spot, size: int, step: int) -> bool:
    """Whether the next line of the column, upwards or downwards, is text of the same size without digits."""
    for index in range(spot.row + step, spot.row + 4 * step, step):
        if not 0 <= index < len(sheet.rows) or sheet.rows[index].page != spot.page:
            return False
        row = sheet.rows[index]
        if (row.top - spot.box[3] if step > 0 else spot.box[1] - row.bottom) > size:
            return False
        at = bisect_left(row.lefts, spot.box[0] - size // 2)
        if at == len(row.lefts) or row.lefts[at] > spot.box[0] + size // 2:
            # Another column's line.
            continue
        height = row.words[at].box[3] - row.words[at].box[1]
        return (
            abs(height - size) <= SAME_SIZE * max(height, size)
            and not _apart(row, at, size)
            and not _has_digits(row, at, size)
        )
    return False


def _has_digits(row: Row, at: int, size: int) -> bool:
    """Whether there is a digit in the words from here to the next gap: then it is an address."""
    end = row.words[at].box[0]
    for word in row.words[at:]:
        if word.box[0] - end > size:
            break
        if any(sign.isdigit() for sign in word.text):
            return True
        end = word.box[2]
    return False
