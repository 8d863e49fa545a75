"""What a transaction script asks its database for. Scripts decide, databases carry out; neither waits for the other's
I/O style."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar


class Ask(NamedTuple):
    """Run the named query; answered with a list of tuples. A list or tuple among `args` stands for a set of values."""

    name: str
    args: tuple[Any, ...] = ()


class AskMany(NamedTuple):
    """Run the named query for many rows of values at once; answered with a list of what is in its one column."""

    name: str
    rows: Sequence[tuple[Any, ...]]


class Tell(NamedTuple):
    """Run the named statement once for each row; answered with how many rows it touched."""

    name: str
    rows: Sequence[tuple[Any, ...]]


class Guarded(NamedTuple):
    """Run statements of the user's own in a savepoint; answered with None, or with the error that undid all of them."""

    statements: tuple[Any, ...]


class Opening(NamedTuple):
    """The first request of every script; answered with the store's time and its limits."""


class Contended(Exception):
    """Somebody else's transaction got in between: run the whole script again."""


Request = Ask | AskMany | Tell | Guarded | Opening
T = TypeVar("T")
Steps = Generator[Request, Any, T]
