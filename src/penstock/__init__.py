"""Penstock runs long, expensive AI work so that nothing is lost, nothing is paid for twice, and everything can be watched.

What is exported here is stable; everything else is private.
"""

from penstock.app import FollowUp, Penstock
from penstock.engine.context import Context
from penstock.engine.engine import Retention, Wake
from penstock.engine.errors import (
    Ambiguous,
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
    StepTimeout,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    Transient,
)  # fmt: skip
from penstock.engine.model import Event, Job, Progress
from penstock.engine.outcome import Again, Goto
from penstock.engine.priority import Priority
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.store.protocol import Submitted

__all__ = [
    "Again", "Ambiguous", "Conflict", "Context", "Event", "FollowUp", "Goto", "InvalidConfiguration", "InvalidPayload",
    "InvalidRequest", "Job", "LostClaim", "NotFound", "Penstock", "PenstockError", "Permanent", "Priority", "Progress", "RateLimited",
    "Retention", "Retry", "SchemaMismatch", "StepTimeout", "StoreError", "StoreFull", "StoreReadOnly", "StoreUnavailable",
    "Submitted", "Transient", "Wake", "Workflow",
]  # fmt: skip

__version__ = "0.1.0"
