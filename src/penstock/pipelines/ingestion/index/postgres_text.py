"""Full text on PostgreSQL, ranked by BM25. PostgreSQL finds the chunks that have the words, and ranks them without
regard to how rare a word is; so its best are only candidates, which are ranked again here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.pipelines.ingestion.index.bm25 import Candidate, Term, ranked, rarity
from penstock.pipelines.ingestion.index.contract import Hits
from penstock.pipelines.ingestion.index.query import asked, plain
from penstock.pipelines.ingestion.statements import Reads

CONFIGURATION = "CAST('english' AS regconfig)"

BEST = 200
"""Candidates that are ranked again, at least."""

MOST_RANKED = 2000
"""Chunks that PostgreSQL ranks, about. A word that more have than that is rarely what tells them apart."""

_PART = re.compile(r"'((?:[^']|'')*)'|<(\d+|-)>")


@dataclass(slots=True)
class Statistics:
    """What BM25 knows of an edition: counted anew when something was removed from it, or it has grown by a tenth."""

    generation: int
    last: int
    texts: int
    average: float
    having: dict[str, int] = field(default_factory=dict)
    """How many chunks have a word or phrase, of those that were asked for."""

    def fits(self, generation: int, last: int) -> bool:
        return self.generation == generation and self.last <= last <= 1.1 * self.last + 10


class TextSearch:
    """Of one edition. `known` has the statistics of all of them."""

    def __init__(self, reads: Reads, edition: int, known: dict[int, Statistics]) -> None:
        self._reads = reads
        self._edition = edition
        self._table = f"kb{edition}_index"
        self._known = known

    async def hits(self, question: str, limit: int, generation: int) -> Hits:
        queries = await self._queries(question)
        if not queries:
            return []
        statistics = await self._statistics(generation)
        terms = [(query, count) for query, count in await self._counted(statistics, queries) if count]
        if not terms:
            return []
        candidates = await self._candidates(terms, max(BEST, limit), statistics.texts)
        scored = ranked(
            [Term(_words(query), count) for query, count in terms], candidates,
            texts=statistics.texts, average=statistics.average,
        )  # fmt: skip
        return scored[:limit]

    async def _queries(self, question: str) -> list[str]:
        """What is asked for, in PostgreSQL's own words: each a lexeme, or a phrase of them."""
        what = asked(question)
        told = [plain(" ".join(term)) for term in (*((word,) for word in what.words), *what.phrases)]
        if not told:
            return []
        rows = await self._reads.read(
            (
                f"SELECT DISTINCT CAST(phraseto_tsquery({CONFIGURATION}, told) AS text)"
                " FROM unnest(CAST(:told AS text[])) AS told",
                {"told": told},
            )
        )
        return sorted(query for (query,) in rows if query)

    async def _statistics(self, generation: int) -> Statistics:
        known = self._known.get(self._edition)
        ((last,),) = await self._reads.read(f"SELECT COALESCE(MAX(chunk), 0) FROM {self._table}")
        if known is None or not known.fits(generation, last):
            ((texts, average),) = await self._reads.read(
                f"SELECT COUNT(*), CAST(COALESCE(AVG(size), 0) AS float8) FROM {self._table}"
            )
            known = self._known[self._edition] = Statistics(generation, last, texts, average)
        return known

    async def _counted(self, statistics: Statistics, queries: list[str]) -> list[tuple[str, int]]:
        """How many chunks have each; the rarest first."""
        new = [query for query in queries if query not in statistics.having]
        if new:
            rows = await self._reads.read(
                (
                    f"SELECT q, (SELECT COUNT(*) FROM {self._table} WHERE words @@ CAST(q AS tsquery))"
                    " FROM unnest(CAST(:queries AS text[])) AS q",
                    {"queries": new},
                )
            )
            # What no chunk has the next one may have; a number that is a little too small only weighs a little wrong.
            statistics.having.update((query, count) for query, count in rows if count)
        counted = [(query, statistics.having.get(query, 0)) for query in queries]
        return sorted(counted, key=lambda each: (each[1], each[0]))

    async def _candidates(self, terms: list[tuple[str, int]], wanted: int, texts: int) -> list[Candidate]:
        """The best that have one of the rarer terms; then, where those are too few, any that have another."""
        rare, total = [terms[0][0]], terms[0][1]
        for query, count in terms[1:]:
            if total + count > MOST_RANKED:
                break
            rare.append(query)
            total += count
        everything = [query for query, _ in terms]
        found = await self._reads.read(
            (
                # First by how rare the terms are that a chunk has, which the index of words tells by itself.
                "WITH weighed AS (SELECT i.chunk, SUM(q.weight) AS weight"
                " FROM unnest(CAST(:rare AS text[]), CAST(:weights AS float8[])) AS q (term, weight)"
                f" JOIN {self._table} i ON i.words @@ CAST(q.term AS tsquery) GROUP BY i.chunk)"
                f" SELECT i.chunk, i.size FROM weighed JOIN {self._table} i ON i.chunk = weighed.chunk"
                " ORDER BY weighed.weight DESC, ts_rank_cd(i.words, CAST(:terms AS tsquery)) DESC, i.chunk"
                " LIMIT :wanted",
                {
                    "rare": rare, "weights": [rarity(texts, count) for _, count in terms[: len(rare)]],
                    "terms": _any_of(everything), "wanted": wanted,
                },
            )
        )  # fmt: skip
        common = everything[len(rare) :]
        if common and len(found) < wanted:
            found = found + await self._reads.read(
                (
                    f"SELECT chunk, size FROM {self._table} WHERE words @@ CAST(:common AS tsquery)"
                    " AND NOT words @@ CAST(:rare AS tsquery) ORDER BY chunk LIMIT :wanted",
                    {"common": _any_of(common), "rare": _any_of(rare), "wanted": wanted - len(found)},
                )
            )
        return await self._with_positions([(chunk, size) for chunk, size in found], everything)

    async def _with_positions(self, found: list[tuple[int, int]], queries: list[str]) -> list[Candidate]:
        rows = await self._reads.read(
            (
                f"SELECT i.chunk, w.lexeme, w.positions FROM {self._table} i, unnest(i.words) AS w"
                " WHERE i.chunk = ANY(CAST(:chunks AS bigint[])) AND w.lexeme = ANY(CAST(:lexemes AS text[]))",
                {
                    "chunks": [chunk for chunk, _ in found],
                    "lexemes": sorted({word for query in queries for word, _ in _words(query)}),
                },
            )
        )
        positions: dict[int, dict[str, list[int]]] = {}
        for chunk, lexeme, places in rows:
            positions.setdefault(chunk, {})[lexeme] = places
        return [Candidate(chunk, size, positions.get(chunk, {})) for chunk, size in found]


def _words(query: str) -> tuple[tuple[str, int], ...]:
    """`'a' <-> 'b' <2> 'c'`: the words, and how far each stands from the first."""
    words: list[tuple[str, int]] = []
    distance = 0
    for lexeme, step in _PART.findall(query):
        if step:
            distance += 1 if step == "-" else int(step)
        else:
            words.append((lexeme.replace("''", "'"), distance))
    return tuple(words)


def _any_of(queries: Sequence[str]) -> str:
    return " | ".join(f"({query})" for query in queries)
