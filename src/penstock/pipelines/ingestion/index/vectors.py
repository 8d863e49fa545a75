"""Vectors of editions, kept in memory so that a search compares the question with all of them at once, exactly.

What an edition has got since is read with every search; when something was removed from it (its generation is another
then), it is read anew. All editions together take at most so much memory: who was not searched for the longest goes
first, and an edition that does not fit by itself is read in slices for each search and not kept.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.engine.errors import InvalidRequest, StoreError

SLICE = 4096
"""Vectors that are read at once."""

_SMALL = 2 * SLICE
"""Rows up to which a block takes in what comes later."""

Rows = list[tuple[Any, ...]]
Read = Callable[[int], Awaitable[Rows]]
"""The next `SLICE` numbers and vectors after this number, in order."""

Hits = list[tuple[int, float]]


@dataclass(slots=True, frozen=True)
class Block:
    numbers: NDArray[np.int64]
    rows: NDArray[np.float32]


@dataclass(slots=True, frozen=True)
class Matrix:
    """All vectors of an edition up to number `last`. Never changed: a new one takes its place."""

    generation: int
    last: int = 0
    blocks: tuple[Block, ...] = ()
    too_large: bool = False

    @property
    def size(self) -> int:
        return sum(block.rows.nbytes + block.numbers.nbytes for block in self.blocks)


@dataclass(slots=True)
class _Kept:
    matrix: Matrix
    used: int


class Matrices:
    """The vectors that this process keeps, of all its stores. Safe to use from several threads and event loops."""

    def __init__(self) -> None:
        self._stores: weakref.WeakKeyDictionary[Any, dict[int, _Kept]] = weakref.WeakKeyDictionary()
        self._turns: weakref.WeakKeyDictionary[Any, dict[tuple[int, int], asyncio.Lock]] = weakref.WeakKeyDictionary()
        self._changing = threading.Lock()
        self._uses = count()

    async def search(
        self, store: Any, edition: int, generation: int, vector: NDArray[Any], limit: int, *, read: Read, memory: int
    ) -> Hits:
        """The `limit` best. At most `memory` bytes are kept, of all editions."""
        question = np.ascontiguousarray(vector, np.float32)
        if not question.any():
            return []
        # Two searches at once read it once.
        async with self._turn(store, edition):
            matrix = await self._current(store, edition, generation, len(question), read, memory)
        if matrix.too_large:
            return await _scanned(question, limit, read)
        return await asyncio.to_thread(best, matrix.blocks, question, limit)

    def size(self) -> int:
        """Bytes that are kept."""
        with self._changing:
            return sum(kept.matrix.size for editions in self._stores.values() for kept in editions.values())

    def _turn(self, store: Any, edition: int) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        with self._changing:
            turns = self._turns.setdefault(loop, {})
            return turns.setdefault((id(store), edition), asyncio.Lock())

    async def _current(
        self, store: Any, edition: int, generation: int, dimension: int, read: Read, memory: int
    ) -> Matrix:
        with self._changing:
            kept = self._stores.get(store, {}).get(edition)
        # Who asks with an older generation has looked at the edition before it changed: the newer one is right.
        matrix = kept.matrix if kept is not None and kept.matrix.generation >= generation else Matrix(generation)
        if matrix.too_large:
            return matrix
        while True:
            rows = await read(matrix.last)
            if rows:
                matrix = await asyncio.to_thread(_longer, matrix, rows, dimension)
            if matrix.size > memory:
                matrix = Matrix(generation, too_large=True)
            # Others make room while it grows, not when it is whole: never more than `memory` is kept.
            self._keep(store, edition, matrix, memory)
            if matrix.too_large or len(rows) < SLICE:
                return matrix

    def _keep(self, store: Any, edition: int, matrix: Matrix, memory: int) -> None:
        with self._changing:
            self._stores.setdefault(store, {})[edition] = _Kept(matrix, next(self._uses))
            everyone = [(kept.used, of, number) for of in self._stores.values() for number, kept in of.items()]
            total = sum(kept.matrix.size for of in self._stores.values() for kept in of.values())
            for _, of, number in sorted(everyone, key=lambda each: each[0])[:-1]:
                if total <= memory:
                    break
                total -= of.pop(number).matrix.size


def _longer(matrix: Matrix, rows: Rows, dimension: int) -> Matrix:
    numbers = np.array([number for number, _ in rows], np.int64)
    joined = b"".join([blob for _, blob in rows])
    if len(joined) != 4 * dimension * len(rows):
        _wrong(rows, dimension)
    block = Block(numbers, np.frombuffer(joined, "<f4").reshape(len(rows), dimension))
    blocks = matrix.blocks
    if blocks and len(blocks[-1].numbers) + len(numbers) <= _SMALL:
        last = blocks[-1]
        block = Block(np.concatenate([last.numbers, block.numbers]), np.concatenate([last.rows, block.rows]))
        blocks = blocks[:-1]
    return replace(matrix, last=int(numbers[-1]), blocks=(*blocks, block))


def _wrong(rows: Rows, dimension: int) -> None:
    """Says what is wrong: the question's vector, or one in the index."""
    lengths = {len(blob) for _, blob in rows}
    if len(lengths) == 1:
        raise InvalidRequest(
            f"the question's vector has {dimension} dimensions and the index {lengths.pop() // 4}: it must be embedded"
            " as the knowledge base is"
        )
    number = next(number for number, blob in rows if len(blob) != 4 * dimension)
    raise StoreError(f"the vector of chunk {number} is damaged: `penstock ingest repair` embeds it again")


def best(blocks: Sequence[Block], question: NDArray[np.float32], limit: int) -> Hits:
    """The most similar, the best first, ties by number. Vectors are of unit length, so the product is the cosine; not
    by BLAS, whose threads spin while they wait for each other, and take many times as long on a busy machine."""
    if not blocks:
        return []
    numbers = np.concatenate([block.numbers for block in blocks])
    scores = np.concatenate([np.einsum("ij,j->i", block.rows, question) for block in blocks])
    if limit < len(scores):
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        chosen = scores >= least
        numbers, scores = numbers[chosen], scores[chosen]
    order = np.lexsort((numbers, -scores))[:limit]
    return [(int(number), float(score)) for number, score in zip(numbers[order], scores[order], strict=True)]


async def _scanned(question: NDArray[np.float32], limit: int, read: Read) -> Hits:
    found: Hits = []
    last = 0
    while rows := await read(last):
        part = await asyncio.to_thread(_longer, Matrix(0), rows, len(question))
        found += await asyncio.to_thread(best, part.blocks, question, limit)
        found = sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit]
        last = part.last
        if len(rows) < SLICE:
            break
    return found


def unit_rows(vectors: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """One row for each, of unit length; zeros stay zeros, and are like nothing."""
    if not len(vectors):
        return np.zeros((0, 0), np.float32)
    rows = np.asarray(vectors, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), np.float32)
