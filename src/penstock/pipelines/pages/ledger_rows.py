"""What a ledger is made of, as a tick holds it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.pipelines.pages import rules
from penstock.pipelines.pages.model import PageIdentifier
from penstock.pipelines.pages.rules import Numbering


@dataclass(slots=True)
class Book:
    """One row of `pages_books`, and whether it was changed here."""

    book: str
    state: str
    school: str
    year: int
    numbering: Numbering
    states: str
    served: int = 0
    label_seen: int = 0
    output_seen: int = 0
    new: bool = False

    def page(self, number: int) -> PageIdentifier:
        name = self.numbering.name(number)
        return PageIdentifier(state=self.state, school=self.school, year=self.year, page=number, name=name)

    def change(self, changes: dict[int, str]) -> None:
        self.states = rules.changed(self.numbering, self.states, changes)


@dataclass(slots=True, frozen=True)
class BatchRow:
    """A batch that has not ended."""

    number: int
    job: str
    call: str | None
    state: str
    size: int
    created: float
    model: str
    prompt: str
    version: str
    generation: str


@dataclass(slots=True, frozen=True)
class Flight:
    """A page in flight: which batch it is in, and what its request was made of."""

    book: str
    number: int
    key: str
    batch: int
    image: str
    context: str | None
    without: str | None


@dataclass(slots=True, frozen=True)
class Totals:
    books: int = 0
    pages: int = 0
    done: int = 0
    flying: int = 0
    dead: int = 0
    found: int = 0
    ready: int = 0


@dataclass(slots=True, frozen=True)
class Failure:
    """One failed attempt at a page, as it is kept."""

    page: PageIdentifier
    book: str
    batch: int
    kind: rules.FailureType
    message: str
    raw: str | None = None
    parsed: str | None = None
