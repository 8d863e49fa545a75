"""How often something is tried that does not answer: three times, 4 and 8 seconds apart, without holding a worker."""

from __future__ import annotations

from typing import Literal

from penstock.engine.errors import Permanent
from penstock.pipelines.ingestion.work import Work

ATTEMPTS = 3
BASE, CAP = 4.0, 60.0

LONGEST = 2000
"""Characters of an error."""

STRIKES = 3
"""Groups in a row of which nothing could be embedded, after which the run fails rather than go on in vain."""


class NotYet(Exception):
    """The same again, a little later."""

    def __init__(self, attempt: int, why: str) -> None:
        super().__init__(why)
        self.after = min(BASE * 2.0 ** (attempt - 1), CAP)


def tried(work: Work, error: Exception, counter: Literal["attempt", "loading"] = "attempt") -> None:
    """Count one more attempt, which came to nothing. `NotYet` unless it was the last: then it is to be listed as an
    error."""
    work.error = said(error)
    attempt = getattr(work, counter) + 1
    setattr(work, counter, attempt if attempt < ATTEMPTS else 0)
    if attempt < ATTEMPTS:
        raise NotYet(attempt, str(error)) from error


def struck(work: Work, embedder: str) -> None:
    """An embedder that is away for all of a group may be away for all of the others."""
    work.strikes += 1
    if work.strikes >= STRIKES:
        raise Permanent(
            f"nothing could be embedded {STRIKES} times in a row ({work.error}): see that {embedder} answers, then"
            f" `penstock ingest resume {work.ask.base}`; it goes on where it was"
        )


def said(error: object) -> str:
    """An error as a run carries it along: somebody may have answered with a whole page."""
    return str(error)[:LONGEST]
