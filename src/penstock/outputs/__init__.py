"""Files that steps write: each appears whole or not at all, and never goes back to an older content."""

from penstock.outputs.files import Stored, atomic_write, publish, store_version
from penstock.outputs.ledger import Outputs

__all__ = ["Outputs", "Stored", "atomic_write", "publish", "store_version"]
