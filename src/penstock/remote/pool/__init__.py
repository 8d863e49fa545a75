"""A pool of processes for everything that parses foreign files or burns CPU, with limits on time, memory and pages.
`pool.py` says how to use it, `errors.py` what can go wrong; `remote.py` makes a remote of it."""

from penstock.remote.pool.errors import (
    ChildDied,
    Deadly,
    NoSuchFunction,
    PoolClosed,
    TooLarge,
    TooLong,
    TooManyPages,
)
from penstock.remote.pool.limits import PoolLimits
from penstock.remote.pool.pages import page_done, pages_left
from penstock.remote.pool.pool import PoolState, ProcessPool
from penstock.remote.pool.remote import PoolRemote, PoolRequest

__all__ = [
    "ChildDied",
    "Deadly",
    "NoSuchFunction",
    "PoolClosed",
    "PoolLimits",
    "PoolRemote",
    "PoolRequest",
    "PoolState",
    "ProcessPool",
    "TooLarge",
    "TooLong",
    "TooManyPages",
    "page_done",
    "pages_left",
]
