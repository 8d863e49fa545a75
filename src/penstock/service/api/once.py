"""`Idempotency-Key`: a create that is sent twice is done once, and answered twice."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

from fastapi import Header, Request

from penstock.store.protocol import Once

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x20-\x7e]+$",
        description="Your name for this request: sent again under it, nothing is done twice. With another body: 422.",
        examples=["9f2c7c1e-upload-17"],
    ),
]


async def once_for(request: Request, key: str | None, tenant: str, operation: str) -> Once | None:
    """None without a key. What was asked is told apart by the path and the bytes of the body."""
    if key is None:
        return None
    asked = blake2b(request.url.path.encode() + b"\n" + await request.body(), digest_size=16)
    return Once(f"{tenant}/{operation}", key, asked.hexdigest())
