"""Names and ids: how jobs are told apart, and which names are allowed."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable

from penstock.engine.clock import Clock
from penstock.engine.errors import InvalidRequest

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_NAME = re.compile(r"[A-Za-z0-9_.@:+-]{1,120}\Z")
_KEY_LIMIT = 500

type_of_name = "letters, digits and _ . @ : + - (at most 120)"


def checked_name(kind: str, name: str) -> str:
    """A queue, workflow, step, tenant or resource name, or `InvalidRequest`: they are joined by '/' into lanes."""
    if not _NAME.match(name):
        raise InvalidRequest(f"{kind} {name!r} is not a valid name: use {type_of_name}")
    return name


def checked_key(key: str) -> str:
    """A job or batch key: any text that a database index holds."""
    if not key or len(key) > _KEY_LIMIT or not storable(key):
        raise InvalidRequest(f"key {key[:40]!r} must be 1 to {_KEY_LIMIT} characters of valid Unicode without NUL")
    return key


def storable(text: str) -> bool:
    """Whether every database can hold the text: no NUL, no half of a surrogate pair."""
    return ("\x00" not in text and text.isascii()) or ("\x00" not in text and _encodes(text))


def made_storable(text: str | None) -> str | None:
    """What a person wrote or another side said, as it can be kept."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\x00", "?")


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def digest(payload: str) -> str:
    """What two payloads are compared by when the same key is submitted twice."""
    return hashlib.blake2b(payload.encode(), digest_size=16).hexdigest()


def id_source(clock: Clock, rng: random.Random) -> Callable[[], str]:
    """Makes 20-character ids that sort by the time they were made: 50 bits of milliseconds, 50 random ones.

    Ids made in the same millisecond count up from a random start, so one process's ids keep their order.
    """
    last_ms = 0
    tail = 0
    bits = rng.getrandbits
    pairs = _PAIRS

    def new_id() -> str:
        nonlocal last_ms, tail
        ms = int(clock.now() * 1000)
        if ms > last_ms:
            last_ms, tail = ms, bits(49)
        else:
            tail += 1
        t, r = last_ms, tail
        return (
            pairs[t >> 40 & 1023] + pairs[t >> 30 & 1023] + pairs[t >> 20 & 1023] + pairs[t >> 10 & 1023]
            + pairs[t & 1023] + pairs[r >> 40 & 1023] + pairs[r >> 30 & 1023] + pairs[r >> 20 & 1023]
            + pairs[r >> 10 & 1023] + pairs[r & 1023]
        )  # fmt: skip

    return new_id


def first_id(moment: float) -> str:
    """What sorts before every id that is made at this moment, to the millisecond, and after those made before it."""
    t = max(0, int(moment * 1000))
    return "".join(_PAIRS[t >> shift & 1023] for shift in (40, 30, 20, 10, 0))


def made_at(job_id: str) -> float:
    """When an id was made, by the clock of the process that made it."""
    ms = 0
    for letter in job_id[:10]:
        ms = ms << 5 | _ALPHABET.index(letter)
    return ms / 1000
