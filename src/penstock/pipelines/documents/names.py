"""Whether a name on the page is that of the business that issued the invoice: what the letterhead, the foot, the mail
address and the labels of both parties say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.pipelines.documents.confidence import Case
from penstock.pipelines.documents.evidence import Place, legal_form, name_words
from penstock.pipelines.documents.sheet import Sheet

SELLER = 0.25
"""What a label that says “seller” leaves of the doubt."""
OWN_DOMAIN = 0.3
"""The same for a web or mail address of that name."""
AGAIN = 0.5
"""The same for a name that stands in several places, such as head and foot."""
LEGAL_FORM = 0.6
LETTERHEAD = 0.6
LARGE = 0.6
CUSTOMER = 0.35
"""The bound for a name that stands only in the customer's block."""
NO_NAME = 0.5
"""The bound for a text that can hardly be a name."""
TOP = 0.2
"""Part of the first page's height that is its head."""
_DOMAIN = re.compile(r"(?:@|www\.|https?://)([\w.\-]+)")


def judge_name(case: Case, sheet: Sheet, found: Sequence[Place], place: Place) -> None:
    own = [other for other in found if other.kind != "customer"]
    if any(other.kind == "vendor" for other in found):
        case.speaks_for("label", "it stands where the seller is named", SELLER)
    elif not own:
        case.speaks_against("label", f"it stands at the customer's place, beside “{_text(place)}”", CUSTOMER)
    elif len(own) < len(found):
        case.says("label", "it also stands at the customer's place", passed=False)
        case.bound = min(case.bound, 0.8)
    words = name_words(case.value)
    if not any(sign.isalpha() for sign in case.value) or len(words) > 10:
        case.speaks_against("form", "this is hardly the name of a business", NO_NAME)
        return
    if _own_domain(sheet, words):
        case.speaks_for("address", "a web or mail address on the page has this name", OWN_DOMAIN)
    rows = {other.spot.row for other in own}
    if len(rows) > 1:
        case.speaks_for("repeated", f"it stands in {len(rows)} places", AGAIN)
    if legal_form(words) or any(_form_behind(sheet, other) for other in own):
        case.speaks_for("form", "it has the legal form of a business", LEGAL_FORM)
    if any(_in_head(sheet, other) for other in own):
        case.speaks_for("letterhead", "it stands at the top of the first page", LETTERHEAD)
        if any(_large(sheet, other) for other in own):
            case.speaks_for("size", "it is printed larger than the text", LARGE)


def _text(place: Place) -> str:
    return "" if place.label is None else place.label.spot.text[:40]


def _own_domain(sheet: Sheet, words: Sequence[str]) -> bool:
    joined = "".join(words)
    for row in sheet.rows:
        for word in row.folded:
            if ("@" in word or "www" in word or "//" in word) and (found := _DOMAIN.search(word)):
                domain = re.sub(r"[\W_]", "", found[1].rpartition(".")[0].removeprefix("www."))
                if len(domain) >= 4 and (domain in joined or joined in domain):
                    return True
    return False


def _form_behind(sheet: Sheet, place: Place) -> bool:
    row = sheet.rows[place.spot.row]
    return legal_form(name_words(" ".join(row.plain[place.spot.last : place.spot.last + 2])))


def _in_head(sheet: Sheet, place: Place) -> bool:
    page = sheet.pages[place.spot.page]
    return place.spot.page == 0 and place.spot.box[1] <= TOP * page.height


def _large(sheet: Sheet, place: Place) -> bool:
    heights = sorted(row.words[0].box[3] - row.words[0].box[1] for row in sheet.rows[:300])
    return place.spot.box[3] - place.spot.box[1] >= 1.4 * heights[len(heights) // 2]
