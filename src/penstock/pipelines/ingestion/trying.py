"""How often something is tried that does not answer: three times, 4 and 8 seconds apart, without holding a worker."""

from __future__ import annotations

from penstock.pipelines.ingestion.work import Work

ATTEMPTS = 3
BASE, CAP = 4.0, 60.0

STRIKES = 3
"""Groups in a row of which nothing could be embedded, after which the run fails rather than go on in vain."""


class NotYet(Exception):
    """The same again, a little later."""

    def __init__(self, attempt: int, why: str) -> None:
        super().__init__(why)
        self.after = min(BASE * 2.0 ** (attempt - 1), CAP)


def tried(work: Work, error: Exception) -> None:
    """Count one more attempt, which came to nothing. `NotYet` unless it was the last: then it is to be listed as an
    error."""
    work.error = str(error)
    work.attempt += 1
    if work.attempt < ATTEMPTS:
        raise NotYet(work.attempt, str(error)) from error
    work.attempt = 0
