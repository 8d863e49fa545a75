"""Where in the author's code a step failed, for people who read the job and not the worker's terminal."""

from __future__ import annotations

import concurrent.futures.thread
import traceback
from itertools import islice
from pathlib import Path
from types import TracebackType

from penstock.engine.identity import made_storable

MOST_FRAMES = 8
MOST_ERRORS = 3
LONGEST_LINE = 300
LONGEST_MESSAGE = 600
LONGEST = 4000
"""Frames of each error, errors that led to one another, and characters: of a line of code, a message, in all."""

_DEEPEST = 10_000
_ENGINE = f"{Path(__file__).parent}/"
_THREAD = concurrent.futures.thread.__file__


def told_error(error: BaseException, most: int = LONGEST_MESSAGE) -> str:
    """One line: the type and the message."""
    try:
        message = " ".join(str(error).split()) or "(no message)"
    except Exception:
        message = "(its message cannot be shown)"
    return f"{type(error).__name__}: {message}"[:most]


def place_of(error: BaseException) -> str | None:
    """The last frames and the message of an error, below those that led to it; None where no frame is the author's.
    Lines of code are shown, values are not."""
    try:
        told = [_told(one) for one in _chain(error)]
    except Exception:  # whatever an exception of somebody else's does when it is looked at, the failure is stored
        return None
    if not any(frames for frames, _ in told):
        return None
    text = "\nwhich led to\n".join(frames + message for frames, message in reversed(told))
    if len(text) > LONGEST:
        text = "…\n" + text[-LONGEST + 2 :].partition("\n")[2]
    return made_storable(text)


def _chain(error: BaseException) -> list[BaseException]:
    """The error, what it came from, and so on."""
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and len(found) < MOST_ERRORS:
        found.append(following)
        following = _origin(following)
    return found


def _origin(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


def _told(error: BaseException) -> tuple[str, str]:
    return "".join(_frames(error.__traceback__)), told_error(error)


def _frames(trace: TracebackType | None) -> list[str]:
    theirs = [
        (frame, number)
        for frame, number in islice(traceback.walk_tb(trace), _DEEPEST)
        if not frame.f_code.co_filename.startswith(_ENGINE) and frame.f_code.co_filename != _THREAD
    ]
    found = traceback.StackSummary.extract(iter(theirs[-MOST_FRAMES:]))
    return [
        f'File "{one.filename}", line {one.lineno}, in {one.name}\n    {(one.line or "")[:LONGEST_LINE]}\n'
        for one in found
    ]
