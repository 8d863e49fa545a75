"""What ingestion counts for `/metrics`: documents and chunks, each with the commit that makes it so (`tallies`), and
how long searches took, which each process keeps for itself: a search writes nothing."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from penstock.engine.meters import bound
from penstock.pipelines.ingestion.statements import Statement
from penstock.pipelines.ingestion.work import Counters
from penstock.pipelines.tallies import added, labels, part_of

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

DOCUMENTS, CHUNKS = "ingestion.documents", "ingestion.chunks"

OUTCOMES = {DOCUMENTS: ("loaded", "unchanged", "error"), CHUNKS: ("processed", "skipped", "error")}
"""What became of them. What a run takes back of its own counters was done all the same."""

SEARCH_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Upper bounds, in seconds."""

Amounts = list[tuple[dict[str, str], float]]

_searches: WeakKeyDictionary[Engine, dict[str, list[float]]] = WeakKeyDictionary()


def counted(counters: Counters, *, worker: str | None) -> list[Statement]:
    """What a commit adds to what all runs have done; nothing where that is nothing."""
    documents = (
        counters.docs_seen - counters.docs_unchanged - counters.docs_error,
        counters.docs_unchanged,
        counters.docs_error,
    )
    chunks = (counters.chunks_processed, counters.chunks_skipped, counters.chunks_error)
    part = str(part_of(worker))
    amounts = {
        (name, labels(outcome=outcome, part=part)): float(amount)
        for name, all_of_it in ((DOCUMENTS, documents), (CHUNKS, chunks))
        for outcome, amount in zip(OUTCOMES[name], all_of_it, strict=True)
        if amount > 0
    }
    return [added(amounts)] if amounts else []


def searched(engine: Engine, mode: str, seconds: float) -> None:
    """A question was answered."""
    spread = _searches.setdefault(engine, {}).setdefault(mode, [0.0] * (len(SEARCH_BUCKETS) + 2))
    spread[bisect_left(SEARCH_BUCKETS, seconds)] += 1
    # Somebody may have set the clock back meanwhile.
    spread[-1] += max(seconds, 0.0)


def searches(engine: Engine) -> tuple[Amounts, Amounts]:
    """How many questions this process answered within each bound, and how long they took in all, by mode."""
    bounds = [*map(bound, SEARCH_BUCKETS), "+Inf"]
    buckets, sums = Amounts(), Amounts()
    for mode, spread in _searches.get(engine, {}).items():
        buckets += [({"mode": mode, "le": le}, amount) for le, amount in zip(bounds, spread[:-1], strict=True)]
        sums.append(({"mode": mode}, spread[-1]))
    return buckets, sums
