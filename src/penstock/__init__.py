"""Penstock runs long, expensive AI work so that nothing is lost, nothing is paid for twice, and everything can be
watched.

What is exported here is stable; everything else is private.
"""

from penstock.app import FollowUp, Penstock
from penstock.delivery.embedded import Embedded
from penstock.engine.context import Context
from penstock.engine.engine import Retention, Wake
from penstock.engine.errors import (
    Ambiguous,
    CommitUnknown,
    Conflict,
    InvalidConfiguration,
    InvalidPayload,
    InvalidRequest,
    LostClaim,
    NotFound,
    PenstockError,
    Permanent,
    RateLimited,
    SchemaMismatch,
    StepError,
    StepTimeout,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    Transient,
)
from penstock.engine.model import Batch, Event, Job, Progress, Schedule
from penstock.engine.outcome import Again, Goto
from penstock.engine.priority import Priority
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.outputs.ledger import Outputs
from penstock.store.protocol import Submitted

__all__ = [
    "Again",
    "Ambiguous",
    "Batch",
    "CommitUnknown",
    "Conflict",
    "Context",
    "Embedded",
    "Event",
    "FollowUp",
    "Goto",
    "InvalidConfiguration",
    "InvalidPayload",
    "InvalidRequest",
    "Job",
    "LostClaim",
    "NotFound",
    "Outputs",
    "Penstock",
    "PenstockError",
    "Permanent",
    "Priority",
    "Progress",
    "RateLimited",
    "Retention",
    "Retry",
    "Schedule",
    "SchemaMismatch",
    "StepError",
    "StepTimeout",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "Submitted",
    "Transient",
    "Wake",
    "Workflow",
]

__version__ = "0.1.0"
