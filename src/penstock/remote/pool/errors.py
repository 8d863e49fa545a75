"""What can go wrong with a call in the pool, and how an error crosses from a child: as text, never as an object.

StepError
├── Transient
│   ├── ChildDied        the process ended before it answered: a crash, or the kernel was out of memory
│   └── PoolClosed       this pool does not work any more; another worker's does
└── Permanent
    ├── TooLong          more seconds than it may
    ├── TooLarge         more memory, or a larger answer, than it may
    ├── TooManyPages     more pages than it may
    └── Deadly           this very call has ended one process too many
InvalidRequest
└── NoSuchFunction       the module or the function is not there

Any other exception of a function is `Permanent`: the same file parsed again fails again. Only an `OSError` that speaks
of the machine (a full disk, too many open files) is `Transient`.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Mapping
from typing import Any

from penstock.engine import errors
from penstock.engine.errors import InvalidRequest, PenstockError, Permanent, RateLimited, Transient

LONGEST_MESSAGE = 2_000
LONGEST_TRACEBACK = 8_000

_PASSING = frozenset(
    (
        errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EINTR, errno.EIO, errno.EBUSY,
        errno.ENOMEM, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE, errno.ESTALE,
    )
)  # fmt: skip


class TooLong(Permanent):
    """The call took more seconds than it may, and was stopped."""


class TooLarge(Permanent):
    """The call needed more memory than it may, or its answer is larger than it may be."""


class TooManyPages(Permanent):
    """The call went past the pages it may process."""


class Deadly(Permanent):
    """The call ended its process each time it was tried."""


class NoSuchFunction(InvalidRequest):
    """There is no such module, or no such function in it."""


class PoolClosed(Transient):
    """The pool is closed, or was closed while the call ran."""


class ChildDied(Transient):
    """The process ended before it answered. `code` is its exit code, or the negative number of the signal."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


_OURS: dict[str, type[PenstockError]] = {
    kind.__name__: kind
    for kind in (
        *(kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PenstockError)),
        *(TooLong, TooLarge, TooManyPages, Deadly, NoSuchFunction, PoolClosed, ChildDied),
    )
}


def described(error: BaseException, function: str) -> dict[str, Any]:
    """An exception as the child tells it."""
    kind = _kind(error)
    message = _text(error) if kind is not None else f"{function}: {type(error).__name__}: {_text(error)}"
    return {
        "kind": kind or _judged(error).__name__,
        "message": message[:LONGEST_MESSAGE],
        "retry_after": error.retry_after if isinstance(error, RateLimited) else None,
        "traceback": _clean("".join(traceback.format_exception(error)))[-LONGEST_TRACEBACK:],
    }


def rebuilt(told: Mapping[str, Any]) -> PenstockError:
    """The exception that a child told of. What it told is not believed beyond its shape."""
    kind = _OURS.get(str(told.get("kind")), Permanent)
    message = str(told.get("message", ""))[:LONGEST_MESSAGE]
    if kind is RateLimited:
        after = told.get("retry_after")
        return RateLimited(message, retry_after=after if isinstance(after, (int, float)) else None)
    return kind(message)


def _kind(error: BaseException) -> str | None:
    """The nearest of our types that the other side knows; a function's own subclass counts as its base."""
    for kind in type(error).__mro__:
        if _OURS.get(kind.__name__) is kind:
            return kind.__name__
    return None


def _judged(error: BaseException) -> type[PenstockError]:
    if isinstance(error, MemoryError):
        return TooLarge
    if isinstance(error, OSError) and error.errno in _PASSING:
        return Transient
    return Permanent


def _text(error: BaseException) -> str:
    try:
        return _clean(str(error))
    except Exception:
        return "(no message)"


def _clean(text: str) -> str:
    """Without halves of characters, which no JSON can carry."""
    return text.encode(errors="replace").decode()
