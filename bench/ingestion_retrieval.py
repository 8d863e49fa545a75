"""How often a question finds what answers it: by words (BM25), by vectors, and by both, with the local embedder, the
default chunker and the whole pipeline, in a knowledge base on SQLite that is made and thrown away.

`hit@1`: the first hit is of the paragraph that the question was asked about. `span recall@5`: how much of the passages
that answer it the first five hits cover. `page hit@5`: one of the first five hits is of a page that is cited. The data
is not part of the project; `PENSTOCK_DATA` says where it is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.table import table
from penstock import Penstock
from penstock.config.settings import Settings
from penstock.pipelines.ingestion import control
from penstock.pipelines.ingestion.model import Configuration
from penstock.pipelines.ingestion.searching import Hit, Mode, search
from penstock.pipelines.ingestion.workflow import ALL

DATA = Path(os.environ.get("PENSTOCK_DATA", "../shared/data"))

MODES: tuple[Mode, ...] = ("text", "vector", "hybrid")
PATIENCE = 600.0

Judge = Callable[[Sequence[Hit]], float]
"""How well the first hits answer, from 0 to 1."""


class Missing(Exception):
    """There is nothing to measure with; the message says what is not there."""


@dataclass(frozen=True)
class Asked:
    """A set of questions: what is ingested for it, and how hits are judged."""

    name: str
    measure: str
    top: int
    wanted: float | None
    sources: tuple[dict[str, Any], ...]
    questions: tuple[tuple[str, Judge], ...]


@dataclass
class Measured:
    asked: Asked
    chunks: int = 0
    shares: dict[Mode, float] = field(default_factory=dict)
    milliseconds: dict[Mode, float] = field(default_factory=dict)

    @property
    def missed(self) -> list[str]:
        """What was wanted and not reached. Where nothing is wanted of a set, it is told for comparison."""
        if self.asked.wanted is None:
            return []
        hybrid = self.shares["hybrid"]
        lines = []
        if hybrid < self.asked.wanted:
            lines.append(f"{self.asked.name}: hybrid {hybrid:.3f}, wanted: at least {self.asked.wanted}")
        lines += [
            f"{self.asked.name}: hybrid {hybrid:.4f} is not above {mode} alone, {self.shares[mode]:.4f}"
            for mode in ("text", "vector")
            if hybrid <= self.shares[mode]
        ]
        return lines


def paragraphs(data: Path, scratch: Path, language: str, name: str, wanted: float | None) -> Asked:
    """Each paragraph is a document; a question belongs to one."""
    folder = scratch / f"paragraphs-{language}"
    folder.mkdir()
    questions: list[tuple[str, Judge]] = []
    count = 0
    for article in _json(data / "rag_xquad" / f"xquad.{language}.dev.json")["data"]:
        for paragraph in article["paragraphs"]:
            count += 1
            uri = f"{count:05}.md"
            (folder / uri).write_text(paragraph["context"], encoding="utf-8")
            questions += [(asked["question"], _first_is(uri)) for asked in paragraph["qas"]]
    return Asked(name, "hit@1", 1, wanted, ({"type": "markdown", "path": str(folder)},), tuple(questions))


def spans(data: Path, name: str, wanted: float) -> Asked:
    """Long texts; what answers a question is known to the character."""
    folder = data / "rag_chunk_spans"
    asked = _lines(folder / "questions.jsonl")
    questions = tuple((each["question"], _covers(each["corpus"], each["references"])) for each in asked)
    sources = ({"type": "markdown", "path": str(folder / "corpora")},)
    return Asked(name, "span recall@5", 5, wanted, sources, questions)


def pages(data: Path, name: str, wanted: float) -> Asked:
    """PDFs; the pages that answer a question are cited."""
    folder = data / "rag_pdf_qa"
    asked = _lines(folder / "questions.jsonl")
    questions = tuple((each["question"], _has_page(each["citations"])) for each in asked)
    sources = ({"type": "pdf", "path": str(folder / "pdf")}, {"type": "markdown", "path": str(folder / "md")})
    return Asked(name, "page hit@5", 5, wanted, sources, questions)


def _first_is(uri: str) -> Judge:
    return lambda hits: float(bool(hits) and hits[0].source == uri)


def _covers(corpus: str, references: Sequence[Mapping[str, Any]]) -> Judge:
    def judge(hits: Sequence[Hit]) -> float:
        covered = wanted = 0
        for reference in references:
            begin, end = reference["start_index"], reference["end_index"]
            found: set[int] = set()
            for hit in hits:
                if hit.source == corpus:
                    found.update(range(max(begin, hit.position["start"]), min(end, hit.position["end"])))
            covered += len(found)
            wanted += end - begin
        return covered / wanted

    return judge


def _has_page(citations: Sequence[Mapping[str, Any]]) -> Judge:
    cited = {(citation["file"], citation["page"]) for citation in citations}

    def judge(hits: Sequence[Hit]) -> float:
        return float(any((hit.source, page) in cited for hit in hits for page in _pages(hit.position)))

    return judge


def _pages(position: Mapping[str, Any]) -> Sequence[int]:
    """A chunk that reaches over several pages is on all of them."""
    if "pages" in position:
        first, *_, last = position["pages"]
        return range(first, last + 1)
    return [position["page"]] if "page" in position else []


async def measured(
    sets: Sequence[Asked], folder: Path, chunker: Mapping[str, Any], store: str | None
) -> list[Measured]:
    settings = Settings.model_validate({"home": folder / "home", "store": store or f"sqlite:///{folder / 'store.db'}"})
    app = Penstock(workflows=list(ALL))
    await app.open(settings=settings)
    try:
        results = []
        for number, asked in enumerate(sets):
            base = f"set-{number}"
            await _filled(app, base, asked, chunker)
            results.append(await _searched(app, base, asked))
        return results
    finally:
        await app.close()


async def _filled(app: Penstock, base: str, asked: Asked, chunker: Mapping[str, Any]) -> None:
    config = Configuration.model_validate({"sources": asked.sources, "chunker": chunker})
    async with app.worker():
        started = await control.start(app, base, config)
        job = await app.wait(started.job_id, timeout=PATIENCE)
    if job.status != "completed":
        raise Missing(f"{asked.name} was not ingested: {job.error}")


async def _searched(app: Penstock, base: str, asked: Asked) -> Measured:
    result = Measured(asked)
    ((result.chunks,),) = await app.engine.read(
        ("SELECT chunks FROM kb_editions WHERE base = :base ORDER BY number DESC LIMIT 1", {"base": base})
    )
    for mode in MODES:
        total, began = 0.0, time.perf_counter()
        for question, judge in asked.questions:
            total += judge(await search(app.engine, base, question, top=asked.top, mode=mode))
        result.shares[mode] = total / len(asked.questions)
        result.milliseconds[mode] = (time.perf_counter() - began) / len(asked.questions) * 1e3
    return result


def compared(
    data: Path = DATA, *, chunker: Mapping[str, Any] | None = None, store: str | None = None
) -> list[Measured]:
    """All sets. Another chunker than the default one is for experiments; so is another store, an empty one."""
    for needed in ("rag_xquad", "rag_chunk_spans", "rag_pdf_qa"):
        if not (data / needed).is_dir():
            raise Missing(f"there is no {data / needed}: nothing was measured")
    with _scratch() as folder:
        sets = [
            paragraphs(data, folder, "en", "paragraphs, English", 0.92),
            paragraphs(data, folder, "de", "paragraphs, German", None),
            spans(data, "passages in long texts", 0.93),
            pages(data, "pages of handbooks", 0.60),
        ]
        return asyncio.run(measured(sets, folder, chunker or {}, store))


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-retrieval-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def printed(results: Sequence[Measured]) -> str:
    headings = ["", "questions", "chunks", "measure", "wanted", *MODES, "ms a question"]
    lines = [
        [
            each.asked.name,
            str(len(each.asked.questions)),
            str(each.chunks),
            each.asked.measure,
            "-" if each.asked.wanted is None else f"{each.asked.wanted:.2f}",
            *(f"{each.shares[mode]:.4f}" for mode in MODES),
            f"{each.milliseconds['hybrid']:.1f}",
        ]
        for each in results
    ]
    return table(headings, lines)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.ingestion_retrieval", description=__doc__)
    parser.add_argument("--size", type=int, metavar="TOKENS", help="of a chunk, instead of the default")
    parser.add_argument("--overlap", type=int, metavar="TOKENS", help="of two chunks, instead of the default")
    parser.add_argument("--store", metavar="URL", help="an empty store, instead of a new one on SQLite")
    chosen = parser.parse_args(arguments)
    chunker = {name: value for name in ("size", "overlap") if (value := getattr(chosen, name)) is not None}
    try:
        results = compared(chunker=chunker, store=chosen.store)
    except Missing as why:
        print(why, file=sys.stderr)
        return 2
    print(printed(results))
    missed = [line for each in results for line in each.missed]
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
