"""Answers for the local Gemini when a page of a college catalogue is asked for: by OCR, layout and rules, without a
model. What the rules cannot tell is left empty; nothing is answered that is not printed on the page, or told in the
request as the courses of the page before."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from penstock.gemini_local.backend import Answer, CannotAnswer, Prompt
from penstock.gemini_local.readers import Documents, Page, Reader, attachments, paged
from penstock.pipelines.pages.prompts.catalogue import CataloguePage, Course, PageKind, TextBlock
from penstock.pipelines.pages.reader_layout import Layout, Piece, layout
from penstock.pipelines.pages.reader_rules import Kind, Standing, described, heading_kinds, listed, only_a_heading

_COURSE_BEFORE = re.compile(r"^- (.*) \(department: (.*); level: (.*); term: (.*)\)$", re.M)
_TOLD = "Its last courses:"

_KINDS: tuple[tuple[str, PageKind], ...] = (
    (r"\bcontents\b|\bindex\b", "contents"),
    (r"\bcalendar\b|\balmanac\b", "calendar"),
    (r"\btrustees\b|\bregents\b|\bboard of\b|\bvisitors\b", "trustees"),
    (r"\bfaculty\b|\binstructors\b|\bofficers of instruction\b|\bprofessors\b", "faculty"),
    (r"\badmission\b|\bentrance\b", "admission"),
    (r"\bexpenses\b|\bfees\b|\btuition\b|\bboarding\b|\bcharges\b", "expenses"),
    (r"\bstudents\b|\bundergraduates\b|\balumni\b|\bgraduates\b", "students"),
    (r"\bcourses? of (?:study|studies|instruction)\b", "courses"),
)

_MANY_WORDS = 80
_LONGEST_HEADING = 8
"""Words of a line that is taken for a heading although its place on the page is not known."""


async def read_catalogue(prompt: Prompt, documents: Documents) -> Answer:
    parts = attachments(prompt)
    if len(parts) != 1 or not paged(parts[0]):
        raise CannotAnswer("A catalogue is read page by page: send the image of one page.")
    pages = await documents.pages(parts[0])
    if len(pages) != 1:
        raise CannotAnswer(f"A catalogue is read page by page: the file holds {len(pages)} pages, send one.")
    found = await asyncio.to_thread(catalogue_page, pages[0], before(prompt.text))
    return Answer(found.model_dump_json())


def before(text: str) -> dict[Kind, str]:
    """Under which headings the page before ended, as the prompt tells it: those of its last course, and what its last
    lines show to have come after that."""
    standing = Standing()
    _, told, rest = text.rpartition(_TOLD)
    courses = _COURSE_BEFORE.findall(rest) if told else []
    name = ""
    if courses:
        name, *values = courses[-1]
        kinds: tuple[Kind, ...] = ("department", "level", "term")
        for kind, value in zip(kinds, values, strict=True):
            if value not in ("", "none"):
                standing.hold(kind, value)
    end = re.search(r"<end_of_page_before>\n(.*?)\n</end_of_page_before>", text, re.S)
    lines = end[1].splitlines() if end else []
    last = max((place for place, line in enumerate(lines) if name and name in line), default=-1)
    for line in lines[last + 1 :]:
        if len(line.split()) <= _LONGEST_HEADING and (named := heading_kinds(line)):
            for kind, words in named:
                standing.hold(kind, words)
    return dict(standing.held)


def catalogue_page(page: Page, inherited: dict[Kind, str] | None = None) -> CataloguePage:
    """What the rules make of a page. `inherited` holds for its courses only where the page goes on with the one
    before."""
    seen = layout(page)
    goes_on = _continues(seen.pieces)
    standing = Standing()
    if goes_on is not False:
        for kind, words in (inherited or {}).items():
            # Courses in paragraphs say themselves for whom they are, so the last one's class is not the next one's.
            if kind == "department" or (seen.pieces and seen.pieces[0].kind != "paragraph"):
                standing.hold(kind, words)
    if seen.head and re.search(_KINDS[-1][0], seen.head, re.I):
        standing.studies = True
    courses = _courses(seen.pieces, standing)
    blocks = [TextBlock(kind="page_number", text=seen.number)] if seen.number else []
    blocks += [TextBlock(kind="running_head", text=seen.head)] if seen.head else []
    blocks += [TextBlock(kind=piece.kind, text=piece.text) for piece in seen.pieces]
    return CataloguePage(
        page_kind=_kind(seen, courses),
        printed_page=seen.number,
        headings=[piece.text for piece in seen.pieces if piece.kind == "heading"],
        text_blocks=blocks,
        courses=courses,
        continues=goes_on,
    )


def _courses(pieces: Sequence[Piece], standing: Standing) -> list[Course]:
    found: list[Course] = []
    for piece in pieces:
        if piece.kind == "heading":
            standing.heading(piece.text)
            continue
        for entry in piece.entries:
            if piece.kind == "list" and only_a_heading(entry):
                standing.heading(entry)
                continue
            numbered = described(entry, standing)
            if numbered is not None:
                found.append(numbered)
            elif piece.kind == "list":
                found += listed(entry, standing)
    return found


def _continues(pieces: Sequence[Piece]) -> bool | None:
    if not pieces:
        return None
    first = pieces[0]
    if first.kind == "heading":
        kinds = [kind for kind, _ in heading_kinds(first.text)]
        return kinds == ["term"]
    start = next((letter for letter in first.text if letter.isalnum()), "")
    if start.islower() or first.kind in ("list", "table"):
        return True
    if start.isdigit():
        number = re.match(r"\d+", first.text.lstrip())
        return bool(number and int(number[0]) > 1) or None
    later = [piece for piece in pieces[1:] if piece.kind == "paragraph"]
    return True if not first.indented and later and all(piece.indented for piece in later) else None


def _kind(seen: Layout, courses: Sequence[Course]) -> PageKind:
    """The first heading that says it; of many courses, their number says it."""
    if not seen.pieces:
        return "other" if seen.head or seen.number else "blank"
    if len(courses) >= 3:
        return "courses"
    texts = [piece.text for piece in seen.pieces]
    headings = [piece.text for piece in seen.pieces if piece.kind == "heading"]
    words = sum(len(text.split()) for text in texts)
    if seen.number is None and seen.centred > 0.7 and words < _MANY_WORDS and _is_title_page(" ".join(texts)):
        return "cover"
    for heading in [*headings, seen.head or ""]:
        for pattern, kind in _KINDS:
            if re.search(pattern, heading, re.I):
                return kind
    if courses:
        return "courses"
    prose = sum(len(piece.text.split()) for piece in seen.pieces if piece.kind == "paragraph")
    return "prose" if prose >= _MANY_WORDS and prose * 4 >= words * 3 else "other"


def _is_title_page(text: str) -> bool:
    return bool(re.search(r"\b(?:catalogue|catalog|register|announcement|circular)\b", text, re.I)) and bool(
        re.search(r"\b1[6-9]\d\d\b", text)
    )


READERS = (Reader("course catalogue", read_catalogue, schemas=(CataloguePage.model_json_schema(),)),)
