"""Penstock runs long, expensive AI work so that nothing is lost, nothing is paid for twice, and everything can be
watched.

What is exported here is stable; everything else is private.
"""

from penstock.app import FollowUp, Penstock
from penstock.delivery.embedded import Embedded
from penstock.engine.call import Call, Usage
from penstock.engine.context import Context
from penstock.engine.engine import Retention, Wake
from penstock.engine.errors import (
    Ambiguous,
    Blocked,
    CommitUnknown,
    Conflict,
    Halted,
    InvalidConfiguration,
    InvalidPayload,
    InvalidRequest,
    KeyReused,
    LostClaim,
    NotFound,
    OverBudget,
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
from penstock.engine.staging import Report
from penstock.engine.workflow import Workflow
from penstock.outputs.ledger import Outputs
from penstock.remote.protocol import Remote
from penstock.store.protocol import Budget, Cost, Submitted

__all__ = [
    "Again",
    "Ambiguous",
    "Batch",
    "Blocked",
    "Budget",
    "Call",
    "CommitUnknown",
    "Conflict",
    "Context",
    "Cost",
    "Embedded",
    "Event",
    "FollowUp",
    "Goto",
    "Halted",
    "InvalidConfiguration",
    "InvalidPayload",
    "InvalidRequest",
    "Job",
    "KeyReused",
    "LostClaim",
    "NotFound",
    "Outputs",
    "OverBudget",
    "Penstock",
    "PenstockError",
    "Permanent",
    "Priority",
    "Progress",
    "RateLimited",
    "Remote",
    "Report",
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
    "Usage",
    "Wake",
    "Workflow",
]

__version__ = "0.1.0"
