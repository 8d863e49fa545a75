"""How long a whole library takes in virtual time: books of very unequal length, batches of very unequal latency.

Ours are the product's own rules (`rules.heads`, `rules.rank`, `rules.judge`), filled into batches as a tick does it.
Beside it: pages in the order in which they became ready, and a bound below which nobody gets who is dealt the same
latencies. It depends on how it went: the longest of the chains, each as the sum of the latencies of the batches that
its pages were in, and all pages over all slots.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from penstock.pipelines.pages import rules
from penstock.pipelines.pages.model import Execution
from penstock.pipelines.pages.rules import Numbering, Ready

POLL = 20.0
FAILING = 0.02
LONGEST_LATENCY = 86_400.0
Slots = Literal["tight", "ample"]

Order = Callable[[Ready, int], tuple[object, ...]]
"""What pages are sorted by: the page, and its place in the order of arrival."""

ORDERS: dict[str, Order] = {
    "longest chain first": lambda page, _: rules.rank(page),
    "first come": lambda _, arrived: (arrived,),
}


@dataclass(frozen=True)
class Library:
    """What is to be done and what it is done with. `seed` deals the latencies and the failures."""

    seed: int
    chains: tuple[int, ...]
    slots: int
    batch_size: int
    latency: Callable[[random.Random], float]
    failing: float = FAILING


@dataclass(frozen=True)
class Outcome:
    makespan: float
    bound: float
    batches: int

    @property
    def ratio(self) -> float:
        return self.makespan / self.bound


def library(seed: int, slots: Slots) -> Library:
    """A random library: 20 to 300 books of 1 to 400 pages. Tight slots hold a fiftieth to a third of the books at once,
    so that now the longest book decides, now the slots; ample ones hold all of them."""
    dice = random.Random(f"{seed} {slots}")
    lengths: Callable[[], float] = dice.choice([
        lambda: dice.lognormvariate(math.log(40), 1.0),
        lambda: 8 * dice.paretovariate(1.1),
    ])  # fmt: skip
    chains = tuple(max(1, min(400, round(lengths()))) for _ in range(dice.randint(20, 300)))
    share = dice.uniform(0.02, 0.3) if slots == "tight" else dice.uniform(1.0, 3.0)
    count = dice.randint(2, 10)
    latency: Callable[[random.Random], float] = dice.choice([
        lambda drawn: drawn.lognormvariate(math.log(900), 1.0),
        lambda drawn: 400 * drawn.paretovariate(1.5),
    ])  # fmt: skip
    return Library(seed, chains, count, max(1, math.ceil(len(chains) * share / count)), latency)


@dataclass
class _Book:
    name: str
    numbering: Numbering
    states: str
    served: int = 0
    strikes: dict[int, rules.Strikes] = field(default_factory=dict)
    went: float = 0.0
    """The latencies of the batches that its pages were in."""


@dataclass
class _Run:
    library: Library
    order: Order
    books: dict[str, _Book] = field(default_factory=dict)
    ready: dict[tuple[str, int], tuple[object, ...]] = field(default_factory=dict)
    arrived: int = 0
    batches: int = 0
    paged: float = 0.0
    """Latencies, each by the share of its batch that was full."""

    def __post_init__(self) -> None:
        for at, length in enumerate(self.library.chains):
            written, _ = rules.numbered([f"{number:04d}" for number in range(1, length + 1)])
            book = _Book(f"State/School {at:04d}/1850", Numbering(written), rules.all_to_do(written))
            self.books[book.name] = book
            self.enter(book)

    def enter(self, book: _Book) -> None:
        for head in rules.heads(book.numbering, book.states):
            if (book.name, head.number) not in self.ready:
                self.arrived += 1
                page = Ready(book.name, head.number, head.remaining, book.served)
                self.ready[book.name, head.number] = self.order(page, self.arrived)

    def send(self, latency: float) -> list[tuple[str, int]]:
        """A new batch: what comes first of those that can run."""
        self.batches += 1
        sent = heapq.nsmallest(self.library.batch_size, self.ready, key=self.ready.__getitem__)
        for name, number in sent:
            del self.ready[name, number]
            book = self.books[name]
            book.states = rules.changed(book.numbering, book.states, {number: rules.FLYING})
            book.served = self.batches
            book.went += latency
        self.paged += latency * len(sent) / self.library.batch_size
        return sent

    def take_in(self, sent: list[tuple[str, int]], dice: random.Random) -> None:
        execution = Execution()
        for name, number in sent:
            book = self.books[name]
            letter = rules.DONE
            if dice.random() < self.library.failing:
                judged = rules.judge(
                    book.strikes.get(number, rules.Strikes()),
                    "schema",
                    most_failures=execution.most_failures,
                    batch_failures_free=execution.batch_failures_free,
                )
                book.strikes[number] = judged.strikes
                letter = rules.DEAD if judged.dead else rules.WORK
            book.states = rules.changed(book.numbering, book.states, {number: letter})
            self.enter(book)


def simulate(library: Library, order: Order) -> Outcome:
    """Tick until nothing flies and nothing can run. The same seed deals every order the same latencies, batch by
    batch."""
    latencies, failures = random.Random(f"{library.seed} latencies"), random.Random(f"{library.seed} failures")
    run = _Run(library, order)
    flying: list[tuple[float, int, list[tuple[str, int]]]] = []
    now = 0.0
    while True:
        while flying and flying[0][0] <= now:
            run.take_in(heapq.heappop(flying)[2], failures)
        while run.ready and len(flying) < library.slots:
            latency = min(LONGEST_LATENCY, library.latency(latencies))
            heapq.heappush(flying, (now + latency, run.batches, run.send(latency)))
        if not flying:
            break
        now = math.ceil(flying[0][0] / POLL) * POLL
    longest = max(book.went for book in run.books.values())
    return Outcome(now, max(longest, run.paged / library.slots), run.batches)


def study(libraries: int) -> dict[tuple[str, str], list[Outcome]]:
    """What became of every library, by kind of slots and order."""
    kinds: tuple[Slots, ...] = ("tight", "ample")
    return {
        (slots, name): [simulate(library(seed, slots), order) for seed in range(libraries)]
        for slots in kinds
        for name, order in ORDERS.items()
    }


def summed_up(ratios: list[float]) -> tuple[float, float, float]:
    """Median, the worst of ten, and the worst."""
    ordered = sorted(ratios)
    return median(ordered), ordered[math.ceil(len(ordered) * 0.9) - 1], ordered[-1]
