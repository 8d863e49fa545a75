"""Which trace a job belongs to, and what a log line is about.

All ticks of a job are one trace, in whatever process they run: its id, and that of the span above all others, are
derived from the job's id, so nobody has to pass them on. `about` says what the code that runs now works on; log lines
written anywhere below it carry that. `Tracer` is what the engine tells of its work where traces are wanted
(`penstock.telemetry`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.engine.call import CallRow
    from penstock.engine.model import JobRow

about: ContextVar[Callable[[], Mapping[str, Any]] | None] = ContextVar("penstock_about", default=None)
"""Tells what the work that is done here is about; None: nothing in particular."""


def trace_id_of(job: str) -> str:
    """32 hexadecimal digits."""
    return blake2b(job.encode(errors="replace"), digest_size=16, person=b"penstock-trace").hexdigest()


def root_span_of(job: str) -> str:
    """16 hexadecimal digits: the span of the whole job, the parent of its ticks."""
    return blake2b(job.encode(errors="replace"), digest_size=8, person=b"penstock-span").hexdigest()


class Span(Protocol):
    """A tick under way. Ended more than once, the first counts."""

    @property
    def id(self) -> str: ...

    def end(self, outcome: str, *, error: str | None = None, after: JobRow | None = None) -> None: ...


class RequestSpan(Protocol):
    """A request to the service. `ids` are for its log lines."""

    @property
    def ids(self) -> Mapping[str, str]: ...

    def answered(self, route: str, status: int) -> None: ...


class Tracer(Protocol):
    def tick(self, row: JobRow) -> Span: ...

    def call(self, row: CallRow, what: str) -> AbstractContextManager[None]:
        """Something is asked of the other side for a call: below the tick that does so, or below the job."""
        ...

    def submitted(self, jobs: Iterable[str]) -> None:
        """Whatever runs now has started these jobs."""
        ...

    def request(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> AbstractContextManager[RequestSpan]: ...

    async def stop(self) -> None:
        """Send what is left."""
        ...
