"""Every error Penstock raises, in one tree. The type says what to do, the message what happened and the way out.

PenstockError
├── StepError               raised by steps
│   ├── Transient           try again, with backoff
│   │   ├── RateLimited     try again when the other side says so
│   │   │   └── Blocked     something scarce is all in use: try again when there is room
│   │   └── StepTimeout     the step took longer than it may
│   ├── Permanent           trying again cannot help: fail now
│   ├── Ambiguous           nobody knows what happened outside: a person decides
│   ├── OverBudget          it would cost more than it may: a person decides
│   └── Halted              somebody asked to pause or cancel the job: nothing new is begun
├── InvalidRequest          the caller asked for something that cannot be; nothing was changed
│   ├── InvalidConfiguration
│   ├── InvalidPayload
│   ├── NotFound            an unknown workflow, job, batch or schedule
│   └── Conflict            the thing exists, in another state or with another content
│       ├── KeyReused       the same idempotency key came with another request
│       └── Outdated        rows have changed since they were looked at: look again
├── StoreError              the database did not do what it was asked
│   ├── StoreUnavailable    try again: busy, restarting, out of reach
│   ├── CommitUnknown       the connection broke inside COMMIT: read back, then decide
│   ├── StoreFull           no space left
│   ├── StoreReadOnly       the file or folder cannot be written
│   └── SchemaMismatch      a database that another version made
└── LostClaim               this worker no longer holds the job; what it decided does not count
"""

from __future__ import annotations


class PenstockError(Exception):
    """Base of everything Penstock raises on purpose."""


class StepError(PenstockError):
    """Base of what a step raises to say how its failure is to be treated."""


class Transient(StepError):
    """The step failed in a way that may pass: retry by the step's policy."""


class RateLimited(Transient):
    """The other side asked to come back later. Counted apart from other failures, so a busy hour kills no job."""

    def __init__(self, message: str = "rate limited", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Blocked(RateLimited):
    """Something scarce (a quota, a GPU, money that is reserved) is all in use. Waited for, for as long as the step's
    deadline allows."""


class StepTimeout(Transient):
    """The step ran past its soft or hard time limit."""


class Permanent(StepError):
    """The step cannot succeed, however often it is tried: the job fails now."""


class Ambiguous(StepError):
    """What happened outside cannot be decided by a program: the job is parked until a person decides."""


class OverBudget(StepError):
    """The work would cost more than its budget has left: the job is parked until a person raises it."""


class Halted(StepError):
    """Somebody asked to pause or cancel the job: nothing new is begun, and the step is run again when it goes on."""


class InvalidRequest(PenstockError):
    """The request was refused and nothing was changed."""


class InvalidConfiguration(InvalidRequest):
    """A setting is wrong; the message names the field and where the value came from."""


class InvalidPayload(InvalidRequest):
    """The payload does not fit the workflow's model."""


class NotFound(InvalidRequest):
    """No such workflow, job, batch or schedule."""


class Conflict(InvalidRequest):
    """The thing exists already, or is in a state that does not allow the request. `job` or `batch`: the id of what
    stands in the way of a submit."""

    def __init__(self, *args: object, job: str | None = None, batch: str | None = None) -> None:
        super().__init__(*args)
        self.job = job
        self.batch = batch


class KeyReused(Conflict):
    """An idempotency key belongs to the request that it first came with."""


class Outdated(Conflict):
    """A statement with `Expect` did not find what it was made for. A step that is refused so is tried again, soon: it
    will look at what there is now."""


class StoreError(PenstockError):
    """The database did not do what it was asked."""


class StoreUnavailable(StoreError):
    """The database is busy, restarting or out of reach. Nothing of the request was stored."""


class CommitUnknown(StoreError):
    """The connection broke inside COMMIT, so the transaction may or may not have happened."""


class StoreFull(StoreError):
    """The disk or the quota is full. Nothing of the request was stored."""


class StoreReadOnly(StoreError):
    """The database cannot be written: a read-only file, folder or server."""


class SchemaMismatch(StoreError):
    """The database was made by another version of Penstock."""


class LostClaim(PenstockError):
    """The job moved on without this worker (its lease ran out, or somebody else holds it)."""
