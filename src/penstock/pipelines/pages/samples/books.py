"""The invented catalogues: which pages a book has, and what stands on them. Even books give their studies by class and
term, odd ones by department; odd ones also lack some leaves, so that their pages are two chains."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.pipelines.pages.model import PageIdentifier
from penstock.pipelines.pages.prompts.catalogue import Course
from penstock.pipelines.pages.samples import words
from penstock.pipelines.pages.samples.typesetting import Font, Piece, Sheet, Span, fill, number

FIRST_YEAR, YEARS = 1858, 40

MISSING_LEAVES = 6
"""Pages that an odd book has lost after its front matter."""

FRONT = 3
"""Pages of an odd book before its gap."""


@dataclass(frozen=True)
class Book:
    """`place` is its number among the samples."""

    place: int
    state: str
    school: str
    year: int

    @property
    def gapped(self) -> bool:
        return self.place % 2 == 1

    def page(self, index: int) -> PageIdentifier:
        """The page at this place: odd books spell `0003`, and have a gap."""
        if not self.gapped:
            return PageIdentifier(state=self.state, school=self.school, year=self.year, page=index + 1)
        page = index + 3 + (MISSING_LEAVES if index >= FRONT else 0)
        return PageIdentifier(state=self.state, school=self.school, year=self.year, page=page, name=f"{page:04d}")


def book(place: int) -> Book:
    """Every school has a catalogue for each of its years; after that come new schools with numbered names."""
    turn, which = divmod(place, len(words.SCHOOLS))
    again, year = divmod(turn, YEARS)
    school = f"{words.SCHOOLS[which]} {again + 1}" if again else words.SCHOOLS[which]
    return Book(place, words.STATES[which % len(words.STATES)], school, FIRST_YEAR + (7 * which + year) % YEARS)


def sheets(book: Book, *, pages: int, seed: int) -> list[Sheet]:
    """The book's pages, typeset and numbered."""
    rng = random.Random(f"{seed}:{book.place}")
    plan = _by_department if book.gapped else _by_class
    made = plan(book, rng, pages)[:pages]
    for index, sheet in enumerate(made):
        if sheet.kind != "cover":
            page = book.page(index).page
            number(sheet, page, _head(book, sheet) if page % 2 else f"{book.school.upper()}.")
    return made


def _by_class(book: Book, rng: random.Random, pages: int) -> list[Sheet]:
    made = [*_cover(book, rng), *_calendar(book)]
    made += _faculty(rng) if pages >= 8 else []
    made += _admission(rng)
    terms = ("First Term", "Second Term", "Third Term")
    made += fill("courses", _study(rng, terms, dashed=True), most=2)
    between = pages - len(made) - 1
    return [*made, *(_departments(rng, between) if between > 0 else []), *_expenses(rng)]


def _by_department(book: Book, rng: random.Random, pages: int) -> list[Sheet]:
    made = [*_cover(book, rng), *_faculty(rng), *_admission(rng)]
    made += fill("courses", _study(rng, ("Fall Session", "Spring Session"), dashed=False), most=2) if pages >= 9 else []
    tail = _expenses(rng) if pages >= 8 else []
    return [*made, *_departments(rng, max(1, pages - len(made) - len(tail))), *tail]


def _head(book: Book, sheet: Sheet) -> str:
    names = {"courses": "COURSES OF INSTRUCTION.", "expenses": "GENERAL INFORMATION."}
    return names.get(sheet.kind, "ANNUAL CATALOGUE.")


def _printed(text: str) -> str:
    return text.replace("'", "\u2019")


def _span(text: str, font: Font = "roman") -> Span:
    return Span(_printed(text), font)


def _centred(text: str, size: float, *, font: Font = "roman", before: float = 0.0) -> Piece:
    return Piece("heading", (_span(text, font),), "centre", size, before)


def _heading(text: str, before: float = 16.0) -> Piece:
    return _centred(f"{text.upper()}.", 13, font="bold", before=before)


def _paragraph(text: str, before: float = 3.0) -> Piece:
    return Piece("paragraph", (_span(text),), before=before, indent=14)


def _entry(*spans: Span, course: Course | None = None) -> Piece:
    return Piece("list", spans, "left", 10, 1.5, indent=10, hang=26, course=course)


def _cover(book: Book, rng: random.Random) -> list[Sheet]:
    town = words.TOWNS[book.place % len(words.SCHOOLS)]
    lines = (
        ("ANNUAL CATALOGUE", 20, 40), ("OF THE OFFICERS AND STUDENTS", 11, 14), ("OF", 9, 10),
        (book.school.upper(), 18, 12), (f"{town.upper()}, {book.state.upper()},", 11, 20),
        (f"FOR THE ACADEMIC YEAR {book.year}-{(book.year + 1) % 100:02d}.", 12, 34),
        (f"{town}:", 10, 150), (f"{rng.choice(words.PRINTERS)}.", 11, 6), (f"{book.year}.", 11, 6),
    )  # fmt: skip
    return fill("cover", (_centred(text, size, before=before) for text, size, before in lines), most=1)


def _calendar(book: Book) -> list[Sheet]:
    def pieces() -> Iterator[Piece]:
        yield _heading("College Calendar")
        yield _centred(f"{book.year}.", 11, before=10)
        for place, (day, event) in enumerate(words.CALENDAR):
            if place == 5:
                yield _centred(f"{book.year + 1}.", 11, before=10)
            yield _entry(_span(f"{day}.", "italic"), _span(f"\u2014{event}."))

    return fill("calendar", pieces(), most=1)


def _name(rng: random.Random) -> str:
    return f"{rng.choice(words.FIRST_NAMES)} {rng.choice('ABCEFGHLMPRSTW')}. {rng.choice(words.LAST_NAMES)}"


def _faculty(rng: random.Random) -> list[Sheet]:
    def pieces() -> Iterator[Piece]:
        yield _heading("Faculty of Instruction")
        for place, chair in enumerate(words.CHAIRS):
            title = "D.D." if place == 0 else "A.M."
            yield _entry(_span(f"{_name(rng).upper()}, {title}, "), _span(f"{chair}.", "italic"))

    return fill("faculty", pieces(), most=1)


def _admission(rng: random.Random) -> list[Sheet]:
    pieces = [_heading("Admission"), *map(_paragraph, rng.sample(words.ADMISSION, 4))]
    return fill("admission", pieces, most=1)


def _expenses(rng: random.Random) -> list[Sheet]:
    lines = rng.sample(words.EXPENSES, 8)
    table = [Piece("table", (_span(f"{what},"),), "left", 10, 2, aside=price) for what, price in lines]
    return fill("expenses", [_heading("Expenses"), *table, *map(_paragraph, words.EXPENSES_PROSE)], most=1)


def _study(rng: random.Random, terms: tuple[str, ...], *, dashed: bool) -> Iterator[Piece]:
    """By class and term: `Rhetoric—Pell's Elements.` or `Rhetoric (Pell's Elements), three hours a week.`"""
    yield _heading("Course of Study")
    for level, subjects in words.STUDIES.items():
        yield _centred(f"{level.upper()}.", 11, before=11)
        chosen = iter(rng.sample(subjects, len(subjects)))
        for term in terms:
            yield _centred(f"{term}.", 10.5, font="italic", before=5)
            for _ in range(5 if level == "Freshman Class" else 4):
                yield _subject(rng, *next(chosen), level=level, term=term, dashed=dashed)


def _subject(rng: random.Random, name: str, title: str, *, level: str, term: str, dashed: bool) -> Piece:
    book = f"{rng.choice(words.LAST_NAMES)}'s {title}" if title else ""
    hours = "" if dashed else rng.choice(words.HOURS).lower()
    course = Course(
        name=_printed(name),
        number=None,
        department=None,
        level=level.upper(),
        term=term,
        hours=hours or None,
        textbooks=[_printed(book)] if book else [],
        description=None,
    )
    if dashed:
        spans = (_span(f"{name}\u2014"), _span(f"{book}.", "italic")) if book else (_span(f"{name}."),)
        return _entry(*spans, course=course)
    return _entry(_span(f"{name} ({book}), {hours}." if book else f"{name}, {hours}."), course=course)


def _departments(rng: random.Random, most: int) -> list[Sheet]:
    return fill("courses", _all_departments(rng, most), most=most)


def _all_departments(rng: random.Random, sheets: int) -> Iterator[Piece]:
    """Departments until so many sheets are certainly full."""
    for place in range(2 * sheets + 1):
        round_, which = divmod(place, len(words.DEPARTMENTS))
        name, about, courses = words.DEPARTMENTS[which]
        name = name.replace(" of ", " of Advanced ", 1) if round_ else name
        yield _heading(name, before=18)
        yield _centred(f"Professor {rng.choice(words.LAST_NAMES)}.", 10, before=2)
        yield _paragraph(about)
        for at, (subject, done, title) in enumerate(courses, 1):
            yield _described(rng, at, subject, done, title, department=name)


def _described(rng: random.Random, at: int, name: str, done: str, title: str, *, department: str) -> Piece:
    level, term, hours = rng.choice(words.LEVELS), rng.choice(words.TERMS), rng.choice(words.HOURS)
    book = f"{rng.choice(words.LAST_NAMES)}'s {title}" if title else ""
    named = f" Text-book: {book}." if book else ""
    course = Course(
        name=_printed(name),
        number=str(at),
        department=department.upper(),
        level=level,
        term=term,
        hours=hours,
        textbooks=[_printed(book)] if book else [],
        description="",
    )
    spans = (_span(f"{at}. "), _span(f"{name}.", "bold"), _span(f"\u2014{done}.{named} {level}, {term}. {hours}."))
    return Piece("paragraph", spans, before=3, indent=14, course=course, numbered=True)
