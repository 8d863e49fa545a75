"""Documents that are the very same file: uploaded again, perhaps under another name."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.engine import Engine
from penstock.pipelines.documents.reading import DocumentView

MOST = 20
"""How many of the others are named."""


@dataclass(slots=True, frozen=True)
class Copy:
    id: str
    filename: str
    created: float
    review_item: str | None
    review_status: str | None


@dataclass(slots=True, frozen=True)
class SameContent:
    """`times`: how often the file was uploaded, this time included. `others` are the newest of the other times."""

    times: int = 1
    others: tuple[Copy, ...] = ()


async def same_content(engine: Engine, found: DocumentView) -> SameContent:
    told = {"tenant": found.tenant, "content": found.content_hash, "id": found.id}
    where = "FROM documents WHERE tenant = :tenant AND content_hash = :content AND id <> :id"
    rows = await engine.read(
        (
            f"SELECT id, filename, created, review_item, review_status, COUNT(*) OVER () {where}"
            f" ORDER BY id DESC LIMIT {MOST}",
            told,
        )
    )
    if not rows:
        return SameContent()
    return SameContent(int(rows[0][5]) + 1, tuple(Copy(*row[:5]) for row in rows))
