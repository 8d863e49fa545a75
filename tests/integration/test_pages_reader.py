"""The local reader of catalogues, on sample pages whose truth is known: it finds the courses, says under what they
stand, and makes nothing up."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from penstock.gemini_local.backend import CannotAnswer, Part, Turn
from penstock.gemini_local.backend import Prompt as Asked
from penstock.gemini_local.backends.local import LocalBackend
from penstock.gemini_local.readers import Line, Page, Word
from penstock.paper.ocr import without_smears
from penstock.paper.page import from_json
from penstock.paper.reading import read_document
from penstock.pipelines.pages.model import PageIdentifier, Prompt
from penstock.pipelines.pages.prompts.catalogue import CataloguePage
from penstock.pipelines.pages.prompts.context import ContextCourse, PageContext, context_of
from penstock.pipelines.pages.prompts.registry import load_prompt
from penstock.pipelines.pages.reader import before, catalogue_page
from penstock.pipelines.pages.samples import Samples, make_samples

CATALOGUE = load_prompt(Prompt())


@dataclass(frozen=True)
class Read:
    page: PageIdentifier
    truth: CataloguePage
    found: CataloguePage
    text: str


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return make_samples(tmp_path_factory.mktemp("reader") / "samples")


@pytest.fixture(scope="module")
def read(samples: Samples) -> list[Read]:
    """Pages of both books, each with the context that the page before gave, as the pipeline asks for them."""
    pages = [samples.pages[place] for place in (0, 3, 4, 7, 9, 10)]
    with ThreadPoolExecutor(2) as pool:
        seen = list(pool.map(lambda page: page_of(samples.image_of(page).read_bytes()), pages))
    done: list[Read] = []
    for page, image in zip(pages, seen, strict=True):
        follows = bool(done) and done[-1].page.page == page.page - 1
        context = context_of(done[-1].found.model_dump()) if follows else None
        found = catalogue_page(image, before(CATALOGUE.render(page, context)))
        done.append(Read(page, samples.truth_of(page), found, image.text))
    return done


def page_of(data: bytes) -> Page:
    _, (told,) = read_document({"pages": 1}, [data])
    (page,) = json.loads(told)
    return from_json(page)


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
    assert counts["courses"] >= 50 and all(share >= 0.85 for share in shares.values()), shares


def test_nothing_is_made_up(read: list[Read]) -> None:
    for one in read:
        printed = plain(one.text.replace("-\n", ""))
        for course in one.found.courses:
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


def test_a_heading_that_is_not_centred_is_still_no_course() -> None:
    rows = printed(
        "JUNIOR CLASS.", "First Term.", "Logic.", "Optics (Pell), two hours a week.", "Second Term.", "Ethics."
    )
    found = [(course.name, course.level, course.term, course.hours) for course in catalogue_page(rows).courses]
    assert found == [
        ("Logic", "JUNIOR CLASS", "First Term", None),
        ("Optics", "JUNIOR CLASS", "First Term", "two hours a week"),
        ("Ethics", "JUNIOR CLASS", "Second Term", None),
    ]


def test_dates_and_rules_of_conduct_are_no_courses() -> None:
    calendar = printed(
        "September 7.\u2014First Term begins.", "January 26.\u2014Day of Prayer.", "June 29.\u2014Commencement."
    )
    assert catalogue_page(calendar).courses == []
    rows = printed(
        "1. Students shall attend prayers. Absence is noted.", "2. No student shall leave the town. He asks."
    )
    assert catalogue_page(rows).courses == []


def test_the_local_gemini_answers_for_one_page_and_refuses_none(samples: Samples) -> None:
    cover = samples.pages[0]
    image = Part(mime="image/jpeg", data=samples.image_of(cover).read_bytes())

    def asking(*parts: Part) -> Asked:
        return Asked("m", (Turn("user", parts),), schema=CATALOGUE.json_schema)

    async def ask() -> str:
        backend = LocalBackend(workers=1)
        try:
            for parts in ((Part(text="Read."),), (image, image)):
                with pytest.raises(CannotAnswer, match="send the image of one page"):
                    await backend.generate(asking(*parts))
            return (await backend.generate(asking(Part(text=CATALOGUE.render(cover, None)), image))).text
        finally:
            await backend.close()

    answer = json.loads(asyncio.run(ask()))
    assert CATALOGUE.validate(answer) is None and answer["page_kind"] == "cover"


def test_a_smear_is_left_out_of_a_clean_page_only() -> None:
    text = Line(tuple(Word("penstock", (0, 0, 80, 20), 96.0) for _ in range(20)), 1, 1)
    smear = Line((Word("|", (0, 900, 5, 920), 73.0), Word("EEE", (9, 900, 40, 920), 19.0)), 2, 1)
    faint = Line(tuple(Word("penstock", (0, 40, 80, 60), 70.0) for _ in range(20)), 3, 1)
    assert without_smears(Page(1200, 1800, (text, smear), "ocr")).lines == (text,)
    doubtful = Page(1200, 1800, (text, smear, faint), "ocr")
    assert without_smears(doubtful) == doubtful, "on a page that is hard to read a faint block may be its text"
