"""What must hold of documents once all work is over, whatever happened on the way: rows, files, locks and reviews
agree, and nothing lies about."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq

from penstock.app import Penstock
from penstock.outputs.files import fingerprint
from penstock.pipelines.documents import ledger, rules
from penstock.pipelines.documents.contents import content_path
from penstock.pipelines.documents.files import json_name, parquet_name
from penstock.pipelines.documents.sweeping import ORPHANED_AFTER, sweep_orphans


async def books_wrong(app: Penstock) -> list[str]:
    engine = app.engine
    found = [f"lock {lock} is held" for lock in await engine.store.locks()]
    held = await engine.read("SELECT id FROM jobs WHERE phase = 'held' OR worker IS NOT NULL OR batch_slot IS NOT NULL")
    found += [f"job {job} is held" for (job,) in held]
    rows = await engine.read(
        "SELECT id, folder, data, review_status, review_item, revision, exported, content_hash, extraction"
        " FROM documents WHERE done = 1 ORDER BY id"
    )
    for document, folder, data, status, item, revision, exported, content, extraction in rows:
        locked = await ledger.locks(engine, "default", content)
        counts = rules.effective(ledger.parsed(extraction).invoice_data, locked)
        if ledger.parsed_data(data) != counts:
            found.append(f"{document}: its row is not the extraction with what is locked")
        if exported != revision:
            found.append(f"{document}: revision {revision}, but {exported} is in its files")
        found += await _files_wrong(app, document, folder, (counts.model_dump(mode="json"), status, list(locked)))
        items = dict(await engine.read(("SELECT id, status FROM review_items WHERE document = :id", {"id": document})))
        if [each for each, state in items.items() if state in rules.OPEN] not in ([], [item]):
            found.append(f"{document} has the review items {items}, and {item} in its row")
        if items.get(item) not in (status, "in_review" if status == "pending" else status):
            found.append(f"{document} is {status}, and its review item {items.get(item)}")
        if fingerprint(content_path(engine.home, "default", document))[0] != content:
            found.append(f"{document}: its bytes are not what came in")
    return found


async def _files_wrong(app: Penstock, document: str, folder: str, expected: tuple[Any, ...]) -> list[str]:
    names = (json_name(folder, document), parquet_name(folder, document))
    found = [f"{name} is not what its row says" for name in names if not await app.outputs.check(name)]
    told = json.loads(app.outputs.path(names[0]).read_bytes())
    (row,) = pq.read_table(app.outputs.path(names[1])).to_pylist()
    if (told["invoice_data"], told["review_status"], told["locked_fields"]) != expected:
        found.append(f"{document}: its JSON shows {told['invoice_data']}, {told['review_status']}")
    total = expected[0]["total"]
    if (row["review_status"], row["total"] is None) != (expected[1], total is None):
        found.append(f"{document}: its Parquet shows {row}")
    return found


async def leftovers(app: Penstock) -> list[str]:
    """Files that nobody knows, once a day has passed and they were looked for."""
    engine, home = app.engine, app.engine.home
    there = [path for place in ("outputs", "documents") for path in (home / place).rglob("*") if path.is_file()]
    newest = max((path.stat().st_mtime for path in there), default=0.0)
    await sweep_orphans(engine, home, now=newest + ORPHANED_AFTER + 60)
    known = {f"outputs/{each}" for row in await engine.read("SELECT name, version FROM outputs") for each in row}
    for tenant, document in await engine.read("SELECT tenant, id FROM documents"):
        known.add(content_path(home, tenant, document).relative_to(home).as_posix())
    names = [path.relative_to(home).as_posix() for path in there if path.exists() and path.name != ".publishing"]
    lost = [name for name in known if not (home / name).exists()]
    return [name for name in names if name not in known] + [f"{name} is gone" for name in lost]
