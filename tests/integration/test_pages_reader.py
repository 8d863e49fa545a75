"""The local reader of catalogues, on sample pages whose truth is known: it finds the courses, says under what they
stand, and makes nothing up."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass

import pytest

from penstock.gemini_local.backend import CannotAnswer, Part, Turn
from penstock.gemini_local.backend import Prompt as Asked
from penstock.gemini_local.backends.local import LocalBackend
from penstock.gemini_local.readers import Line, Page, Word
from penstock.pipelines.pages.model import PageIdentifier, Prompt
from penstock.pipelines.pages.prompts.catalogue import CataloguePage
from penstock.pipelines.pages.prompts.context import ContextCourse, PageContext, context_of
from penstock.pipelines.pages.prompts.registry import load_prompt
from penstock.pipelines.pages.reader import before, catalogue_page
from penstock.pipelines.pages.samples import make_samples

CATALOGUE = load_prompt(Prompt())


@dataclass(frozen=True)
class Read:
    page: PageIdentifier
    truth: CataloguePage
    found: CataloguePage
    text: str


def asking(text: str, image: bytes, schema: dict[str, object] | None) -> Asked:
    parts = (Part(text=text), Part(mime="image/jpeg", data=image))
    return Asked("gemini-2.5-flash", (Turn("user", parts),), schema=schema)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> list[Read]:
    """Both books, each page with the context that the page before gave, as the pipeline asks for them."""
    samples = make_samples(tmp_path_factory.mktemp("reader") / "samples")

    async def one_book(backend: LocalBackend, pages: tuple[PageIdentifier, ...]) -> list[Read]:
        done: list[Read] = []
        for page in pages:
            follows = bool(done) and done[-1].page.page == page.page - 1
            context = context_of(done[-1].found.model_dump()) if follows else None
            image = samples.image_of(page).read_bytes()
            asked = asking(CATALOGUE.render(page, context), image, CATALOGUE.json_schema)
            answer = json.loads((await backend.generate(asked)).text)
            assert CATALOGUE.validate(answer) is None
            text = "" if page.page == 1 else (await backend.generate(asking("Transcribe.", image, None))).text
            done.append(Read(page, samples.truth_of(page), CataloguePage.model_validate(answer), text))
        return done

    async def both() -> list[Read]:
        backend = LocalBackend()
        try:
            books = (samples.pages[3:6], samples.pages[9:12], samples.pages[:2], samples.pages[6:8])
            return [one for book in await asyncio.gather(*(one_book(backend, book) for book in books)) for one in book]
        finally:
            await backend.close()

    return asyncio.run(both())


def plain(text: str | None) -> str:
    return re.sub(r"\W+", " ", (text or "").lower()).strip()


def test_most_courses_are_found_with_what_they_stand_under(read: list[Read]) -> None:
    counts = dict.fromkeys(("courses", "name", "department", "level", "term", "textbooks"), 0)
    for one in read:
        left = list(one.found.courses)
        for course in one.truth.courses:
            counts["courses"] += 1
            found = next((other for other in left if plain(other.name) == plain(course.name)), None)
            if found is None:
                continue
            left.remove(found)
            counts["name"] += 1
            for field in ("department", "level", "term"):
                counts[field] += plain(getattr(found, field)) == plain(getattr(course, field))
            counts["textbooks"] += [*map(plain, found.textbooks)] == [*map(plain, course.textbooks)]
    shares = {name: round(count / counts["courses"], 2) for name, count in counts.items()}
    assert counts["courses"] >= 60 and all(share >= 0.85 for share in shares.values()), shares


def test_nothing_is_made_up(read: list[Read]) -> None:
    for one in read:
        printed = plain(one.text.replace("-\n", ""))
        for course in one.found.courses if one.text else ():
            for said in (course.name, *course.textbooks):
                assert plain(said) in printed, f"{one.page.id_string}: {said!r} is not on the page"
        if not one.truth.courses:
            assert one.found.courses == [], one.page.id_string


def test_the_kind_of_a_page_and_its_headings_are_seen(read: list[Read]) -> None:
    kinds = {one.page.id_string: (one.found.page_kind, one.truth.page_kind) for one in read}
    assert all(found == truth for found, truth in kinds.values()), kinds
    headings = [(heading, one) for one in read for heading in one.truth.headings]
    seen = sum(plain(heading) in map(plain, one.found.headings) for heading, one in headings)
    assert seen / len(headings) >= 0.85, f"{seen} of {len(headings)} headings"
    assert all(one.found.continues in (one.truth.continues, None) for one in read)
    numbers = [one.found.printed_page for one in read if one.found.printed_page]
    assert numbers and all(one.found.printed_page in (one.truth.printed_page, None) for one in read), numbers


def test_a_page_takes_over_what_the_page_before_ended_with() -> None:
    page = PageIdentifier(state="Ohio", school="A: B", year=1860, page=5)
    courses = (
        ContextCourse(name="Optics (light)", department="School of Physics", level="JUNIOR CLASS", term="First Term"),
    )
    told = CATALOGUE.render(page, PageContext(text="Optics (light)\nSecond Term.", courses=courses))
    assert before(told) == {"department": "School of Physics", "level": "JUNIOR CLASS", "term": "Second Term"}
    assert before(CATALOGUE.render(page, None)) == {}
    entries = printed("Acoustics\u2014Pell's Sound.", "Logic.")
    taken = catalogue_page(entries, before(told)).courses
    assert [(course.name, course.level, course.term) for course in taken] == [
        ("Acoustics", "JUNIOR CLASS", "Second Term"),
        ("Logic", "JUNIOR CLASS", "Second Term"),
    ]
    assert catalogue_page(entries).courses == [], "a list without a heading is no list of courses"


def printed(*rows: str, left: int = 100) -> Page:
    """A page with these rows, in letters ten pixels wide."""
    lines: list[Line] = []
    for place, row in enumerate(rows):
        words, x = [], left
        for word in row.split():
            words.append(Word(word, (x, 300 + 50 * place, x + 10 * len(word), 320 + 50 * place)))
            x += 10 * len(word) + 10
        lines.append(Line(tuple(words), 1, 1))
    return Page(1200, 1800, tuple(lines), "ocr")


def test_odd_pages_are_answered_and_left_empty() -> None:
    assert catalogue_page(Page(1200, 1800, (), "ocr")) == CataloguePage(
        page_kind="blank", printed_page=None, headings=[], text_blocks=[], courses=[], continues=None
    )
    for rows in (
        ("17",), (".",), ("- -", "|"), ("(" * 400,), ("a" * 5000,), ("\u2014", "\u2014"), ("1.", "2.", "3."),
        ("First Term", "(", ")", "\u2014", "12 00"), ("$12 00", "1 00", "2 00"), ("JUNIOR CLASS.", "\u201c", "1. (."),
    ):  # fmt: skip
        found = catalogue_page(printed(*rows), {"level": "Junior Class"})
        assert found.page_kind in ("other", "blank", "courses") and not found.courses, rows


def test_rules_of_conduct_are_no_courses() -> None:
    rows = printed(
        "1. Students shall attend prayers. Absence is noted.", "2. No student shall leave the town. He asks."
    )
    assert catalogue_page(rows).courses == []


def test_more_than_one_page_is_refused() -> None:
    async def ask() -> None:
        backend = LocalBackend(workers=1)
        try:
            with pytest.raises(CannotAnswer, match="send the image of one page"):
                await backend.generate(
                    Asked("m", (Turn("user", (Part(text="Read."),)),), schema=CataloguePage.model_json_schema())
                )
        finally:
            await backend.close()

    asyncio.run(ask())
