"""Google's limits, as data. Read on 2026-11-15 from copies of the documentation of January 2026; numbers for newer
models are shown only in AI Studio, and go into `gemini.enqueued_tokens`."""

from __future__ import annotations

from penstock.remote.prices import plain_name

INLINE_BYTES = 20_000_000
"""A whole inline request must be smaller."""

FILE_BYTES = 2_000_000_000
"""An uploaded file must not be larger."""

FILES_LIVE_FOR = 48 * 3600.0
"""Seconds after which Google deletes an uploaded file."""

BATCHES_LIVE_FOR = 48 * 3600.0
"""Seconds after which Google gives up a batch that has not ended."""

EMBEDDINGS_AT_ONCE = 100
"""Texts in one interactive request."""

_MILLION = 1_000_000

ENQUEUED_TOKENS: dict[str, tuple[int, int, int]] = {
    "gemini-2.5-pro": (5 * _MILLION, 500 * _MILLION, 1000 * _MILLION),
    "gemini-2.5-flash": (3 * _MILLION, 400 * _MILLION, 1000 * _MILLION),
    "gemini-2.5-flash-lite": (10 * _MILLION, 500 * _MILLION, 1000 * _MILLION),
    "gemini-3-flash-preview": (3 * _MILLION, 400 * _MILLION, 500 * _MILLION),
    "gemini-3-pro-preview": (5 * _MILLION, 500 * _MILLION, 1000 * _MILLION),
    "gemini-embedding-001": (500_000, 5 * _MILLION, 10 * _MILLION),
}
"""Input tokens that all unfinished batches of one model may have together, for tiers 1, 2 and 3. Where two copies of
the documentation differ, the smaller number stands."""


def enqueued_tokens(model: str, tier: int, own: dict[str, int]) -> int | None:
    """The cap for a model; None where none is known."""
    name = plain_name(model)
    if name in own:
        return own[name]
    tiers = ENQUEUED_TOKENS.get(name)
    return None if tiers is None else tiers[tier - 1]
