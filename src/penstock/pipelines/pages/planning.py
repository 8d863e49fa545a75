"""What a run would be: books, pages and chains from the trees as they lie there, and from them batches, tokens, money
and days. Nothing is stored and nobody is asked; a ledger that is there already only makes the answer better.

The trees are walked book by book and each book is forgotten once it is counted, so memory does not grow with them.
"""

from __future__ import annotations

import difflib
import heapq
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.engine.call import Usage
from penstock.engine.engine import Engine
from penstock.gemini import file, generate_request
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.images import EXTENSIONS
from penstock.pipelines.pages.model import OnDeadPage, PageIdentifier, Run
from penstock.pipelines.pages.prompts.context import LONGEST_TEXT, ContextCourse, PageContext
from penstock.pipelines.pages.prompts.registry import LoadedPrompt
from penstock.pipelines.pages.rules import Numbering
from penstock.pipelines.pages.walk import Sighting, Walk
from penstock.remote.gemini.tokens import image_tokens, input_tokens, output_tokens
from penstock.remote.prices import Price, Prices, rounded_up

BOOKS_AT_ONCE = 200
LAST_BATCHES = 50
"""By these it is measured what a batch takes."""

MOST_NAMED = 20
"""States that a message names."""

ANSWER_TOKENS: Mapping[str, int] = {"course_catalogue": 1500, "transcription": 800}
"""Tokens that the answer for a page is expected to have; for other prompts as for the first."""

_SUFFIXES = frozenset(f".{extension}" for extension in EXTENSIONS)
_RUN = re.compile(f"[{rules.WORK}{rules.FLYING}]+")

Numbers = Mapping[str, Iterable[int]]


@dataclass(slots=True, frozen=True)
class History:
    """What a ledger knows that the trees do not tell."""

    dead: Numbers = field(default_factory=dict)
    flying: Numbers = field(default_factory=dict)
    batch_seconds: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    """Of a page, as Gemini counted them."""
    spent: int = 0
    """What the run that is alive has spent of its budget, in millionths of a dollar."""


@dataclass(slots=True)
class Survey:
    """What is there. `chains` counts those with work left by how many pages they have left."""

    books: int = 0
    pages: int = 0
    runs_of_pages: int = 0
    done: int = 0
    dead: int = 0
    flying: int = 0
    without_image: int = 0
    blocked: int = 0
    ready: int = 0
    ignored: int = 0
    longest_book_chain: int = 0
    chains: Counter[int] = field(default_factory=Counter)
    next_pages: list[tuple[str, int]] = field(default_factory=list)
    """Keys of the pages that would be sent first, and how many wait for each, itself included."""

    @property
    def to_do(self) -> int:
        """Pages that will be sent, if all goes well."""
        return self.pages - self.done - self.dead - self.flying - self.without_image - self.blocked

    @property
    def longest_chain(self) -> int:
        return max(self.chains, default=0)


@dataclass(slots=True, frozen=True)
class Rounds:
    """Batches one after the other, as deep as the chains are; each round waits for the one before."""

    rounds: int
    batches: int


@dataclass(slots=True, frozen=True)
class Estimate:
    """Money is millionths of a dollar at batch prices; None where the model has no price."""

    model: str
    input_tokens: int
    output_tokens: int
    cost: int | None
    most: int | None
    """If every answer were as long as it may be."""
    image: int
    words: int
    answer: int
    longest_answer: int
    measured: bool
    price: Price | None


def nothing_matches(run: Run) -> str | None:
    """Which filter lets nothing through, and what there would be; None where something passes, or where the label
    folder has no books at all. Looks at the folders of states, schools and years, not at pages. Blocking."""
    wanted, years = run.filters.target_states, run.filters.target_years
    states: set[str] = set()
    seen: set[int] = set()
    passed = False

    def admits(state: str, year: int | None) -> bool:
        nonlocal passed
        states.add(state)
        if year is None:
            return wanted is None or state in wanted
        seen.add(year)
        passed = passed or run.filters.admits(state, year)
        return False

    # No book is admitted, so none is opened: the walk is over when all folders have been named.
    Walk(run.paths.label_source_dir, run.paths.output_dir, {}, {}, admits).step(1)
    if passed or not states or (wanted is None and not seen):
        return None
    where = run.paths.label_source_dir
    if wanted is not None and not states.intersection(wanted):
        return f"filters.target_states: {no_such_state(wanted, states, str(where))}"
    if seen:
        bounds = [f"from {years.start}"] if years.start is not None else []
        bounds += [f"to {years.end}"] if years.end is not None else []
        there = f"{min(seen)} to {max(seen)}" if len(seen) > 1 else str(min(seen))
        return f"filters.target_years: no year {' '.join(bounds)} in {where}; there are {there}"
    return None


def no_such_state(wanted: Iterable[str], there: Iterable[str], where: str) -> str:
    """`no state Ohoi in labels; there are Ohio, Vermont; did you mean Ohio?`"""
    named, known = list(wanted), sorted(there)
    near = [close for name in named for close in difflib.get_close_matches(name, known, n=1, cutoff=0.6)]
    shown = [*known[:MOST_NAMED], *([f"and {len(known) - MOST_NAMED} more"] if len(known) > MOST_NAMED else [])]
    asked = f"; did you mean {', '.join(dict.fromkeys(near))}?" if near else ""
    return f"no state {' or '.join(named[:MOST_NAMED])} in {where}; there are {', '.join(shown) or 'none'}{asked}"


def survey(
    run: Run, history: History | None = None, *, first: int = 0, tell: Callable[[Survey], None] | None = None
) -> Survey:
    """Walk the trees. Outputs that are there count as done; whether they are valid is found out by a run. `first`: so
    many of `next_pages`. `tell` is called on the way. Blocking."""
    known = history or History()
    filters = run.filters
    states = None if filters.target_states is None else frozenset(filters.target_states)

    def admits(state: str, year: int | None) -> bool:
        return states is None or state in states if year is None else filters.admits(state, year)

    told = Survey()
    heads: list[tuple[int, str, int, str]] = []
    walk = Walk(run.paths.label_source_dir, run.paths.output_dir, {}, {}, admits)
    while sightings := walk.step(BOOKS_AT_ONCE):
        for sighting in sightings:
            numbering, letters = _book(run, sighting, known, told)
            if first:
                heads += _heads(sighting, numbering, letters, run.execution.on_dead_page)
        if len(heads) > 4 * first:
            heads = sorted(heads)[:first]
        if tell is not None:
            tell(told)
    told.ignored += len(walk.ignored)
    told.next_pages = [(key, -remaining) for remaining, _, _, key in sorted(heads)[:first]]
    return told


def _heads(
    sighting: Sighting, numbering: Numbering, states: str, on_dead: OnDeadPage
) -> list[tuple[int, str, int, str]]:
    return [
        (-head.remaining, sighting.book, head.number, _page(sighting, numbering, head.number).id_string)
        for head in rules.heads(numbering, states, on_dead)
    ]


def _page(sighting: Sighting, numbering: Numbering, number: int) -> PageIdentifier:
    name = numbering.name(number)
    return PageIdentifier(state=sighting.state, school=sighting.school, year=sighting.year, page=number, name=name)


def _book(run: Run, sighting: Sighting, known: History, told: Survey) -> tuple[Numbering, str]:
    """Count one book."""
    written, left_out = rules.numbered(sighting.labels or [])
    numbering = Numbering(written)
    states = rules.all_to_do(written)
    changes = dict.fromkeys(known.dead.get(sighting.book, ()), rules.DEAD)
    changes |= dict.fromkeys(known.flying.get(sighting.book, ()), rules.FLYING)
    if changes:
        states = rules.changed(numbering, states, changes)
    if sighting.outputs:
        states = rules.seen(numbering, states, sighting.outputs)
    before = rules.tally(states)
    if rules.WORK in states:
        states = _with_images(run.paths.image_source_dir / sighting.book, numbering, states)
    counted = rules.tally(states)
    told.books += 1
    told.ignored += len(left_out)
    told.pages += counted.total
    told.done += counted.done
    told.flying += counted.flying
    told.dead += before.dead
    told.without_image += counted.dead - before.dead
    for chain in states.split(rules.GAP) if states else ():
        told.runs_of_pages += 1
        told.longest_book_chain = max(told.longest_book_chain, len(chain))
        _chain(chain, run.execution.on_dead_page, told)
    return numbering, states


def _chain(chain: str, on_dead: OnDeadPage, told: Survey) -> None:
    for found in _RUN.finditer(chain):
        behind_dead = found.start() > 0 and chain[found.start() - 1] == rules.DEAD
        if behind_dead and on_dead == "block" and chain[found.start()] == rules.WORK:
            told.blocked += found[0].count(rules.WORK)
        else:
            told.chains[len(found[0])] += 1
            told.ready += chain[found.start()] == rules.WORK


def _with_images(folder: Path, numbering: Numbering, states: str) -> str:
    """The states where a page that has no image counts as dead, which is what it will be."""
    try:
        # Names only, as many as there are pages: pathlib would make an object of each.
        names = os.listdir(folder)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError:
        # Nobody can say what is in it; the run will.
        return states
    there = {stem for stem, suffix in map(os.path.splitext, names) if suffix.lower() in _SUFFIXES}
    letters = iter(letter for letter in states if letter != rules.GAP)
    missing = [
        number
        for number, letter in zip(numbering, letters, strict=True)
        if letter == rules.WORK and numbering.name(number) not in there
    ]
    return rules.changed(numbering, states, dict.fromkeys(missing, rules.DEAD)) if missing else states


def rounds(chains: Mapping[int, int], *, size: int, slots: int) -> Rounds:
    """How often one batch must wait for another, longest chain first, if no page fails and batches take equally long.
    `chains`: how many there are of each length."""
    left = Counter({length: count for length, count in chains.items() if length > 0 and count > 0})
    lengths = [-length for length in left]
    heapq.heapify(lengths)
    depth = batches = 0
    while lengths:
        room = size * slots
        moved: Counter[int] = Counter()
        while lengths and room:
            length = -lengths[0]
            taken = min(left[length], room)
            room -= taken
            left[length] -= taken
            moved[length - 1] += taken
            if not left[length]:
                heapq.heappop(lengths)
        for length, count in moved.items():
            if length:
                if not left[length]:
                    heapq.heappush(lengths, -length)
                left[length] += count
        depth += 1
        batches += -(-(size * slots - room) // size)
    return Rounds(depth, batches)


def estimate(
    run: Run,
    prompt: LoadedPrompt,
    told: Survey,
    prices: Prices,
    *,
    model: str,
    most_output: int,
    now: float,
    history: History | None = None,
    answer: int | None = None,
) -> Estimate:
    """Tokens and money of the pages that are to do. `answer`: tokens of an answer, where somebody knows better."""
    known = history or History()
    alone, chained = _request(run, prompt, None), _request(run, prompt, _CONTEXT)
    longest = output_tokens(chained, most_output)
    expected = answer if answer is not None else round(known.output_tokens or ANSWER_TOKENS.get(prompt.name, 1500))
    expected = min(expected, longest)
    heads = min(sum(told.chains.values()), told.to_do)
    of_a_page = known.input_tokens
    each: tuple[tuple[int, int], ...]
    if of_a_page is None:
        each = ((input_tokens(alone, model), heads), (input_tokens(chained, model), told.to_do - heads))
    else:
        each = ((round(of_a_page), told.to_do),)
    price = prices.price_of(model, "batch", now)
    return Estimate(
        model=model,
        input_tokens=sum(tokens * pages for tokens, pages in each),
        output_tokens=expected * told.to_do,
        cost=_charged(price, each, expected),
        most=_charged(price, each, longest),
        image=image_tokens(model),
        words=input_tokens(chained, model) - image_tokens(model),
        answer=expected,
        longest_answer=longest,
        measured=known.output_tokens is not None and answer is None,
        price=price,
    )


def pages_until_pause(told: Survey, cost: Estimate, *, size: int, left: int) -> int | None:
    """About how many pages are read before a budget with so much left makes the run pause; None: it never does, even
    if every answer is as long as it may be. What a batch may cost at most is reserved before it is sent, and what it
    did not cost is free again when it has ended."""
    if cost.cost is None or cost.most is None or not told.to_do or cost.most <= left:
        return None
    batch = min(size, max(told.ready, 1))
    expected, most = cost.cost / told.to_do, cost.most / told.to_do
    room = left - most * batch
    if room < 0:
        return 0
    return min(told.to_do, batch + int(room / expected) if expected else told.to_do)


def _charged(price: Price | None, each: Iterable[tuple[int, int]], output: int) -> int | None:
    if price is None:
        return None
    return rounded_up(sum(price.charge(Usage(input=tokens, output=output)) * pages for tokens, pages in each))


_CONTEXT = PageContext(
    text="x" * LONGEST_TEXT,
    courses=(ContextCourse(name="Moral Philosophy", department="Philosophy", level="Senior", term="First Term"),) * 3,
)


def _request(run: Run, prompt: LoadedPrompt, context: PageContext | None) -> dict[str, Any]:
    page = PageIdentifier(state="Pennsylvania", school="A College of Some Name", year=1850, page=100)
    words = prompt.render(page, context)
    return generate_request(
        [file("page.jpg", "image/jpeg"), words], schema=prompt.json_schema, config=run.model.generation_config
    )


async def history_of(engine: Engine, ledger: str, *, place: str) -> History:
    """What the ledger of an output folder adds; reads only. What batches took is measured at `place` alone: a Gemini on
    this machine says nothing about Google's."""
    where = f"gemini.batch {place} "
    named = {"ledger": ledger, "place": where, "long": len(where)}
    dead = await engine.read(("SELECT book, number FROM pages_failures WHERE ledger = :ledger AND dead = 1", named))
    # A batch that waits to be sent (for money, say) is work still to be paid for.
    flying = await engine.read(
        (
            "SELECT f.book, f.number FROM pages_flights f JOIN pages_batches b"
            " ON b.ledger = f.ledger AND b.number = f.batch WHERE f.ledger = :ledger AND b.state <> 'planned'",
            named,
        )
    )
    ended = await engine.read(
        (
            "SELECT b.ended - b.submitted, b.size, c.input, c.output FROM pages_batches b JOIN calls c ON c.id = b.call"
            " WHERE b.ledger = :ledger AND substr(c.place || ' ', 1, :long) = :place"
            " AND b.state = 'ended' AND b.submitted IS NOT NULL"
            f" AND c.state = 'collected' ORDER BY b.number DESC LIMIT {LAST_BATCHES}",
            named,
        )
    )
    alive = await engine.read(
        (
            "SELECT b.spent FROM pages_ledgers l JOIN jobs j ON j.id = l.job JOIN budgets b ON b.scope = 'job:' || j.id"
            " WHERE l.id = :ledger AND j.status NOT IN ('completed', 'failed', 'canceled')",
            named,
        )
    )
    took = sorted(row[0] for row in ended)
    # Our own Gemini counts in its own way.
    pages = 0 if place == "own" else sum(row[1] for row in ended)
    return History(
        dead=_by_book(dead),
        flying=_by_book(flying),
        batch_seconds=took[len(took) // 2] if took else None,
        input_tokens=sum(row[2] for row in ended) / pages if pages else None,
        output_tokens=sum(row[3] for row in ended) / pages if pages else None,
        spent=int(alive[0][0]) if alive else 0,
    )


def _by_book(rows: Iterable[Sequence[Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for book, number in rows:
        found.setdefault(book, []).append(number)
    return found
