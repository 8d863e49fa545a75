"""Samples in folders. The same arguments give the same files; every file appears whole, and the list of what is true,
`truth.jsonl`, comes last."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from penstock.engine.errors import InvalidRequest
from penstock.outputs.files import quick_write
from penstock.pipelines.documents.samples import hostile
from penstock.pipelines.documents.samples.layouts import LAYOUTS, SHEETS
from penstock.pipelines.documents.samples.moulds import Mould
from penstock.pipelines.documents.samples.sampling import KINDS, LANGUAGES, Kind, Sample, known, sample

USUAL: tuple[Kind, ...] = ("pdf", "scan", "facturx", "pdf", "tiff", "facturx_conflict", "pdf", "scan", "pdf", "facturx")
"""What an office receives: made in this order where nobody says otherwise, without what cannot be read."""

TRUTH = "truth.jsonl"

MARK = ".samples.json"
"""Says how a folder was made, so that two kinds of samples are never mixed."""

MOST = 1_000_000

MOULDS = 12
"""Invoices that are laid out for `bulk`."""

_T = TypeVar("_T")


def make_samples(folder: Path, *, count: int = 10, seed: int = 1, kinds: Sequence[str] | None = None) -> list[Sample]:
    """`count` documents in the folder, of these kinds in turn, and `truth.jsonl` beside them. The first of a longer
    list are those of a shorter one. A folder that was left half-written is completed."""
    turns = USUAL if kinds is None else tuple(known("kind", kind, KINDS) for kind in kinds)
    if not turns:
        raise InvalidRequest(f"kinds must name at least one of {', '.join(KINDS)}")
    _count(count)
    before = _there(folder, {"count": count, "seed": seed, "kinds": list(turns)})
    if before is not None:
        return before
    made = []
    rng = random.Random(f"{seed}:turns")
    layouts, sheets = _bag(rng, LAYOUTS), _bag(rng, SHEETS)
    languages, troubles = _bag(rng, LANGUAGES), _bag(rng, hostile.TROUBLES)
    for place in range(count):
        kind = turns[place % len(turns)]
        content, one = sample(
            f"{seed}:{place}",
            kind=kind,
            layout=next(layouts) if kind in ("pdf", "scan") else next(sheets),
            language=next(languages),
            trouble=next(troubles) if kind == "hostile" else None,
        )
        path = folder / f"{place + 1:03d}-{one.path.name}"
        quick_write(path, content)
        made.append(one.model_copy(update={"path": path}))
    _write_truth(folder, made)
    return made


def read_truth(folder: Path) -> list[Sample]:
    """What `make_samples` or `bulk` said of a folder."""
    lines = (folder / TRUTH).read_text("utf-8").splitlines()
    made = [Sample.model_validate_json(line) for line in lines]
    return [one.model_copy(update={"path": folder / one.path}) for one in made]


def bulk(folder: Path, count: int, seed: int = 1) -> list[Sample]:
    """Many small text PDFs of one page, all different, each made in a millisecond: a few invoices are laid out, and
    their numbers changed. For measuring, not for reading: they look alike."""
    _count(count)
    before = _there(folder, {"count": count, "seed": seed, "kinds": ["bulk"]})
    if before is not None:
        return before
    moulds = [Mould(f"{seed}:{place}") for place in range(min(count, MOULDS))]
    made = []
    for place in range(count):
        content, one = moulds[place % len(moulds)].cast(place)
        path = folder / f"{place // 1000:03d}" / f"{place:06d}.pdf"
        quick_write(path, content)
        made.append(one.model_copy(update={"path": path}))
    _write_truth(folder, made)
    return made


def _bag(rng: random.Random, choices: Sequence[_T]) -> Iterator[_T]:
    """All of them in one order, then all in another: a few samples already have most of what there is."""
    rng = random.Random(rng.random())
    while True:
        yield from rng.sample(choices, len(choices))


def _count(count: int) -> None:
    if not 1 <= count <= MOST:
        raise InvalidRequest(f"count must be from 1 to {MOST:,}, not {count}")


def _there(folder: Path, made: dict[str, object]) -> list[Sample] | None:
    """The folder's samples, if all of them are there already; marks the folder as theirs if not."""
    mark = folder / MARK
    if not mark.is_file() or not mark.stat().st_size:
        quick_write(mark, json.dumps(made).encode())
        return None
    try:
        before = json.loads(mark.read_bytes())
    except ValueError:
        before = None
    if before != made:
        raise InvalidRequest(
            f"{folder} holds other samples ({mark.name} says {before}): choose another folder, or remove it first"
        )
    if not (folder / TRUTH).is_file():
        return None
    found = read_truth(folder)
    whole = all(one.path.is_file() and (one.path.stat().st_size or one.trouble == "empty") for one in found)
    return found if whole else None


def _write_truth(folder: Path, made: list[Sample]) -> None:
    named = (one.model_copy(update={"path": one.path.relative_to(folder)}) for one in made)
    quick_write(folder / TRUTH, "".join(one.model_dump_json() + "\n" for one in named).encode())
