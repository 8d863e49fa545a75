"""Who answers for which response schema. A reader is found by the shape of the schema, or by its own say where there
is none; the reader registered last is asked first, so a plugin can take over from what ships here.

Plugins are entry points in the group `penstock.readers`: a `Reader`, several, or a function that returns them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from penstock.engine.errors import InvalidRequest
from penstock.gemini_local.backend import Answer, CannotAnswer, Prompt
from penstock.gemini_local.readers.page import Documents, attachments
from penstock.gemini_local.readers.schema import Schema, described, fingerprint

log = logging.getLogger(__name__)

GROUP = "penstock.readers"

BUILT_IN: tuple[str, ...] = (
    "penstock.gemini_local.readers.transcription:READERS",
    "penstock.pipelines.pages.reader:READERS",
    "penstock.pipelines.documents.reader:READERS",
)
"""Readers that ship with Penstock, as `module:name`; loaded before those of plugins, with the same care."""

WAY_OUT = (
    f"Register a reader for it (entry point group '{GROUP}'), serve a model of your own with the backend 'openai:URL', "
    "or set GEMINI_API_KEY to ask the real Gemini."
)

Read = Callable[[Prompt, Documents], Awaitable[Answer]]


@dataclass(slots=True, frozen=True)
class Reader:
    """Answers requests whose response schema has one of the shapes of `schemas`, or that `matches` says yes to.
    `read` raises `CannotAnswer` rather than make something up."""

    name: str
    read: Read
    schemas: tuple[Schema, ...] = ()
    matches: Callable[[Prompt], bool] | None = None


class Registry:
    """The readers of one backend."""

    def __init__(self, readers: Iterable[Reader] = ()) -> None:
        self._readers: dict[str, Reader] = {}
        self._shapes: dict[str, frozenset[str]] = {}
        self.broken: dict[str, str] = {}
        for reader in readers:
            self.register(reader)

    @property
    def readers(self) -> tuple[Reader, ...]:
        """In the order in which they are asked."""
        return tuple(reversed(self._readers.values()))

    def register(self, reader: Reader) -> None:
        """Add a reader, in the place of one with the same name."""
        if not isinstance(reader, Reader) or not (reader.schemas or reader.matches):
            raise InvalidRequest(f"a reader needs a name, `read`, and `schemas` or `matches`; this is {reader!r}")
        shapes = frozenset(fingerprint(schema) for schema in reader.schemas)
        self._readers.pop(reader.name, None)
        self._readers[reader.name] = reader
        self._shapes[reader.name] = shapes

    def find(self, prompt: Prompt) -> Reader:
        """The reader for a request; `CannotAnswer` where there is none."""
        asked = None if prompt.schema is None else fingerprint(prompt.schema)
        for reader in self.readers:
            if (asked is not None and asked in self._shapes[reader.name]) or _says_yes(reader, prompt):
                return reader
        raise CannotAnswer(self._no_reader(prompt), code=12)

    def load(self, name: str, thing: Callable[[], object]) -> None:
        """Register what `thing` loads. What breaks is written down and left out; the others are not its concern."""
        try:
            for reader in _readers_of(thing()):
                self.register(reader)
        except Exception as error:
            self.broken[name] = f"{type(error).__name__}: {error}"
            log.warning("reader %r could not be loaded and is left out: %s", name, self.broken[name])

    def _no_reader(self, prompt: Prompt) -> str:
        if prompt.schema is not None:
            what = f"The local backend has no reader for a response of {described(prompt.schema)}."
        elif attachments(prompt):
            what = "The local backend reads images and PDFs as plain text; it has no reader for this request."
        else:
            what = "The local backend has no language model: it cannot answer a request that is only text."
        known = ", ".join(sorted(self._readers)) or "none"
        left_out = f" Left out because they broke: {', '.join(sorted(self.broken))}." if self.broken else ""
        return f"{what} {WAY_OUT} Known readers: {known}.{left_out}"


def all_readers() -> Registry:
    """Those that ship with Penstock, then those of the installed plugins in the order of their names."""
    registry = Registry()
    for spec in BUILT_IN:
        registry.load(spec, EntryPoint(name=spec, value=spec, group=GROUP).load)
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        registry.load(point.name, point.load)
    return registry


def _readers_of(thing: Any) -> tuple[Reader, ...]:
    if callable(thing) and not isinstance(thing, Reader):
        thing = thing()
    return (thing,) if isinstance(thing, Reader) else tuple(thing)


def _says_yes(reader: Reader, prompt: Prompt) -> bool:
    if reader.matches is None:
        return False
    try:
        return bool(reader.matches(prompt))
    except Exception:
        log.exception("reader %r failed when it was asked whether it answers a request; it is passed over", reader.name)
        return False
