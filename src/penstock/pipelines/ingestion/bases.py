"""Knowledge bases, their editions and runs, as rows: what is known of them, and the statements that change them."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from penstock.engine.errors import NotFound
from penstock.pipelines.ingestion.model import ChunkerSpec, Configuration, EmbedderSpec, SourceSpec
from penstock.pipelines.ingestion.statements import Reads, Statement
from penstock.store.protocol import Expect


@dataclass(slots=True, frozen=True)
class Base:
    """A knowledge base."""

    tenant: str
    id: str
    config: Configuration
    run: str | None
    edition: int | None
    created: float
    updated: float
    plan: dict[str, Any] | None


@dataclass(slots=True, frozen=True)
class Edition:
    """What a knowledge base is filled with, and by what."""

    number: int
    chunker: ChunkerSpec
    embedder: EmbedderSpec
    opened_by: str | None
    generation: int
    documents: int
    chunks: int

    @property
    def dimension(self) -> int:
        assert self.embedder.dimension is not None
        return self.embedder.dimension

    def pinning(self, config: Configuration, kept: Configuration | None = None) -> Configuration:
        """That configuration with this chunker and embedder; in batches where that is asked of this embedder. `kept` is
        what the knowledge base keeps: a rebuild that came to nothing may have left a wish that was for another."""
        asked = config.embedder
        meant = asked if kept is None or "name" in asked.model_fields_set else kept.embedder
        batch = asked.batch and meant.name == self.embedder.name
        embedder = self.embedder.model_copy(update={"batch": batch})
        return config.model_copy(update={"chunker": self.chunker, "embedder": embedder})


@dataclass(slots=True, frozen=True)
class Run:
    """One filling, or refreshing. `id` stays the same when it is resumed after a failure; `job` does not."""

    id: str
    tenant: str
    base: str
    edition: int | None
    job: str
    config: Configuration
    began: float
    finished: float | None
    last_error: str | None
    plan: dict[str, Any] | None
    outcome: dict[str, Any] | None
    state: str | None


_BASE = "tenant, id, config, run, edition, created, updated, plan"
_RUN = "id, tenant, base, edition, job, config, began, finished, last_error, plan, outcome, state"
_EDITION = "number, chunker, embedder, model, dimension, opened_by, generation, documents, chunks"


_APART = 4096


LISTED = ("paths", "urls", "ids", "playlists", "files")
"""Options that list what a source has: what is in the list may change, and the source is the same."""


def source_key(spec: SourceSpec) -> str:
    """The name of a source within its knowledge base: the same as long as it means the same documents, whatever else
    is set."""
    options = spec.options
    for name in ("path", "url"):
        if isinstance(options.get(name), str):
            key = f"{spec.type}:{options[name]}"
            return key if len(key) <= 400 else f"{key[:380]}…{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if any(options.get(name) for name in LISTED):
        return f"{spec.type}:"
    said = to_json(options, fallback=str)
    return f"{spec.type}:{hashlib.sha256(said).hexdigest()[:16]}"


def _base(row: tuple[Any, ...]) -> Base:
    tenant, id, config, run, edition, created, updated, plan = row
    known = Configuration.model_validate_json(config)
    return Base(tenant, id, known, run, edition, created, updated, from_json(plan) if plan else None)


def _run(row: tuple[Any, ...]) -> Run:
    id, tenant, base, edition, job, config, began, finished, last_error, plan, outcome, state = row
    return Run(
        id, tenant, base, edition, job, Configuration.model_validate_json(config), began, finished, last_error,
        from_json(plan) if plan else None, from_json(outcome) if outcome else None, state,
    )  # fmt: skip


async def find_base(reads: Reads, tenant: str, id: str) -> Base | None:
    """None also for one that is being deleted."""
    rows = await reads.read(
        (
            f"SELECT {_BASE} FROM kb_bases WHERE tenant = :tenant AND id = :id AND leaving IS NULL",
            {"tenant": tenant, "id": id},
        )
    )
    return _base(rows[0]) if rows else None


async def base_of(reads: Reads, tenant: str, id: str) -> Base:
    found = await find_base(reads, tenant, id)
    if found is None:
        raise NotFound(f"there is no knowledge base {id!r}")
    return found


async def bases(reads: Reads, tenant: str | None, *, after: str = "", limit: int = 100) -> list[Base]:
    """In the order of their names; of all tenants where none is named."""
    mine = "" if tenant is None else "tenant = :tenant AND "
    rows = await reads.read(
        (
            f"SELECT {_BASE} FROM kb_bases WHERE {mine}id > :after AND leaving IS NULL AND run IS NOT NULL"
            " ORDER BY id, tenant LIMIT :limit",
            {"tenant": tenant, "after": after, "limit": limit} if tenant is not None
            else {"after": after, "limit": limit},
        )
    )  # fmt: skip
    return [_base(row) for row in rows]


async def find_run(reads: Reads, id: str, *, tenant: str | None = None) -> Run | None:
    """By its own id, or by that of a job that works on it, or did."""
    mine = "" if tenant is None else " AND tenant = :tenant"
    values = {"id": id} if tenant is None else {"id": id, "tenant": tenant}
    for column in ("id", "job"):
        rows = await reads.read((f"SELECT {_RUN} FROM kb_runs WHERE {column} = :id{mine}", values))
        if rows:
            return _run(rows[0])
    return None


async def runs(reads: Reads, tenant: str, base: str, *, before: str | None = None, limit: int = 50) -> list[Run]:
    """The newest first."""
    rows = await reads.read(
        (
            f"SELECT {_RUN} FROM kb_runs WHERE tenant = :tenant AND base = :base"
            f"{'' if before is None else ' AND id < :before'} ORDER BY id DESC LIMIT :limit",
            {"tenant": tenant, "base": base, "limit": limit} | ({} if before is None else {"before": before}),
        )
    )
    return [_run(row) for row in rows]


async def edition_of(reads: Reads, number: int) -> Edition | None:
    rows = await reads.read(
        (f"SELECT {_EDITION} FROM kb_editions WHERE number = :number AND gone = 0", {"number": number})
    )
    if not rows:
        return None
    number, chunker, embedder, model, dimension, opened_by, generation, documents, chunks = rows[0]
    pinned = EmbedderSpec(name=embedder, model=model, dimension=dimension)
    known = ChunkerSpec.model_validate_json(chunker)
    return Edition(number, known, pinned, opened_by, generation, documents, chunks)


async def next_edition(reads: Reads, run: str, attempt: int) -> int:
    """Many runs may ask at once, and one of them gets the number: the others ask again, each for one further on."""
    ((most,),) = await reads.read("SELECT COALESCE(MAX(number), 0) FROM kb_editions")
    return int(most) + 1 + (zlib.crc32(run.encode()) % _APART if attempt > 1 else 0)


def new_base(base: str, *, tenant: str, config: Configuration, run: str, now: float) -> Statement:
    return (
        "INSERT INTO kb_bases (tenant, id, config, run, created, updated)"
        " VALUES (:tenant, :id, :config, :run, :now, :now)",
        {"tenant": tenant, "id": base, "config": config.model_dump_json(), "run": run, "now": now},
    )


def next_run(base: Base, *, config: Configuration, run: str, now: float, planned: bool = False) -> Expect:
    """Of two who start at once, one. `planned`: it takes with it what was planned."""
    seen = "run IS NULL" if base.run is None else "run = :seen"
    return Expect(
        (
            f"UPDATE kb_bases SET config = :config, run = :run, updated = :now{', plan = NULL' if planned else ''}"
            f" WHERE tenant = :tenant AND id = :id AND leaving IS NULL AND {seen}",
            {
                "tenant": base.tenant, "id": base.id, "config": config.model_dump_json(), "run": run, "now": now,
            } | ({} if base.run is None else {"seen": base.run}),
        ),
        f"an ingestion of {base.id!r} was started in this moment by somebody else",
    )  # fmt: skip


OF_RUNS = {"kb_frontier": "run", "kb_staged": "run", "kb_retried": "taken_by"}
"""Tables with what a run needs only while it runs, and the column that names it."""


def left_by_others(base: str, *, tenant: str, run: str) -> list[Statement]:
    """What runs that failed have kept to go on with: nobody will, now that there is another."""
    others = "SELECT id FROM kb_runs WHERE tenant = :tenant AND base = :base AND id <> :run"
    values = {"tenant": tenant, "base": base, "run": run}
    return [(f"DELETE FROM {table} WHERE {column} IN ({others})", values) for table, column in OF_RUNS.items()]


def config_before(base: str, *, tenant: str, run: str) -> Statement:
    """A knowledge base keeps what it was last filled with, and not what a run that was cancelled had asked for."""
    return (
        "UPDATE kb_bases SET config = COALESCE((SELECT r.config FROM kb_runs r WHERE r.tenant = :tenant"
        " AND r.base = :id AND r.state = 'completed' ORDER BY r.id DESC LIMIT 1), config)"
        " WHERE tenant = :tenant AND id = :id AND run = :run",
        {"tenant": tenant, "id": base, "run": run},
    )


def new_run(
    run: str, base: str, *, tenant: str, config: Configuration, plan: dict[str, Any] | None, now: float
) -> Statement:
    return (
        "INSERT INTO kb_runs (id, tenant, base, job, config, began, plan)"
        " VALUES (:id, :tenant, :base, :id, :config, :now, :plan)",
        {
            "id": run, "tenant": tenant, "base": base, "config": config.model_dump_json(), "now": now,
            "plan": to_json(plan).decode() if plan else None,
        },
    )  # fmt: skip


def new_edition(
    number: int, base: str, *, tenant: str, chunker: ChunkerSpec, embedder: Any, run: str, now: float
) -> Expect:
    """Of two runs that open one at once, the second takes the next number."""
    return Expect(
        (
            "INSERT INTO kb_editions (number, tenant, base, chunker, embedder, model, dimension, opened_by, gone,"
            " generation, documents, chunks, created)"
            " VALUES (:number, :tenant, :base, :chunker, :embedder, :model, :dimension, :run, 0, 0, 0, 0, :now)"
            " ON CONFLICT DO NOTHING",
            {
                "number": number, "tenant": tenant, "base": base, "chunker": chunker.model_dump_json(),
                "embedder": embedder.name, "model": embedder.model, "dimension": embedder.dimension, "run": run,
                "now": now,
            },
        ),
        f"edition {number} was opened in this moment by another run",
    )  # fmt: skip


def searched_edition(base: str, *, tenant: str, number: int | None) -> Statement:
    return (
        "UPDATE kb_bases SET edition = :number WHERE tenant = :tenant AND id = :id",
        {"tenant": tenant, "id": base, "number": number},
    )


def edition_complete(number: int) -> Statement:
    return "UPDATE kb_editions SET opened_by = NULL WHERE number = :number", {"number": number}


def edition_gone(number: int) -> Statement:
    return "UPDATE kb_editions SET gone = 1, documents = 0, chunks = 0 WHERE number = :number", {"number": number}


def grown(number: int, *, documents: int, chunks: int, removed: bool = False) -> Expect:
    """What an edition has more, or less, after this commit."""
    return Expect(
        (
            "UPDATE kb_editions SET documents = documents + :documents, chunks = chunks + :chunks,"
            " generation = generation + :removed WHERE number = :number AND gone = 0",
            {"number": number, "documents": documents, "chunks": chunks, "removed": int(removed)},
        ),
        f"edition {number} is gone: the knowledge base was deleted",
    )


def run_works(run: str, *, job: str, edition: int) -> Statement:
    return (
        "UPDATE kb_runs SET job = :job, edition = :edition, finished = NULL, last_error = NULL WHERE id = :id",
        {"id": run, "job": job, "edition": edition},
    )


def run_ended(run: str, *, state: str, now: float, outcome: dict[str, Any] | None, error: str | None) -> Statement:
    return (
        "UPDATE kb_runs SET state = :state, finished = :now, outcome = :outcome, last_error = :error WHERE id = :id",
        {
            "id": run, "state": state, "now": now, "error": error,
            "outcome": to_json(outcome).decode() if outcome else None,
        },
    )  # fmt: skip
