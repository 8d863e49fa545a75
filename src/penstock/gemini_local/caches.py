"""Cached contents: the beginning of a prompt, kept for a while under a name."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from random import Random

from pydantic_core import from_json, to_json

from penstock.gemini_local import tokens
from penstock.gemini_local.errors import ApiError, bad_request
from penstock.gemini_local.paging import encode_token
from penstock.gemini_local.prompts import FindFile, read_system, read_turns
from penstock.gemini_local.settings import Settings
from penstock.gemini_local.state import State
from penstock.gemini_local.timepiece import Timepiece
from penstock.gemini_local.wire import Json, field, new_id, read_duration, read_rfc3339, rfc3339


@dataclass(slots=True, frozen=True)
class Cache:
    number: int
    name: str
    title: str | None
    model: str
    created: float
    updated: float
    expires: float
    tokens: int
    content: str

    def view(self) -> Json:
        view: Json = {
            "name": self.name,
            "model": f"models/{self.model}",
            "createTime": rfc3339(self.created),
            "updateTime": rfc3339(self.updated),
            "expireTime": rfc3339(self.expires),
            "usageMetadata": {"totalTokenCount": self.tokens},
        }
        if self.title:
            view["displayName"] = self.title
        return view

    @property
    def request(self) -> Json:
        content: Json = from_json(self.content)
        return content


class Caches:
    def __init__(self, state: State, settings: Settings, clock: Timepiece, rng: Random) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock
        self._rng = rng

    def create(self, model: str, body: Json, find_file: FindFile) -> Cache:
        turns = read_turns(field(body, "contents", default=[]), find_file)
        system = read_system(body, find_file)
        if not turns and not system:
            raise bad_request("* CreateCachedContentRequest.cached_content: nothing to cache")
        now = self._clock.now()
        content = {
            "contents": field(body, "contents", default=[]),
            "systemInstruction": field(body, "systemInstruction"),
        }
        name = f"cachedContents/{new_id(self._rng, 20)}"
        self._state.db.execute("DELETE FROM caches WHERE expires <= ?", (now,))
        self._state.db.execute(
            "INSERT INTO caches (name, title, model, created, updated, expires, tokens, content)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                name,
                field(body, "displayName", str),
                model,
                now,
                now,
                self._expiry(body) or now + self._settings.pace.caches_last,
                sum(tokens.of_turns(turns, system).values()),
                to_json(content).decode(),
            ),
        )
        return self.get(name)

    def get(self, name: str) -> Cache:
        row = self._state.db.execute("SELECT * FROM caches WHERE name = ?", (name,)).fetchone()
        if row is None or row["expires"] <= self._clock.now():
            raise ApiError(7, "CachedContent not found (or permission denied)")
        return _cache(row)

    def page(self, before: int, size: int) -> Json:
        rows = self._state.db.execute(
            "SELECT * FROM caches WHERE number < ? AND expires > ? ORDER BY number DESC LIMIT ?",
            (before, self._clock.now(), size + 1),
        ).fetchall()
        view: Json = {"cachedContents": [_cache(row).view() for row in rows[:size]]} if rows else {}
        if len(rows) > size:
            view["nextPageToken"] = encode_token(rows[size - 1]["number"])
        return view

    def prolong(self, name: str, body: Json) -> Cache:
        """Only the time of expiry can be changed."""
        self.get(name)
        expires = self._expiry(body)
        if expires is None:
            raise bad_request("* UpdateCachedContentRequest: only ttl and expire_time can be updated")
        self._state.db.execute(
            "UPDATE caches SET expires = ?, updated = ? WHERE name = ?", (expires, self._clock.now(), name)
        )
        return self.get(name)

    def delete(self, name: str) -> None:
        self.get(name)
        self._state.db.execute("DELETE FROM caches WHERE name = ?", (name,))

    def _expiry(self, body: Json) -> float | None:
        if (ttl := field(body, "ttl", str)) is not None:
            return self._clock.now() + read_duration(ttl)
        if (moment := field(body, "expireTime", str)) is not None:
            return read_rfc3339(moment)
        return None


def _cache(row: sqlite3.Row) -> Cache:
    return Cache(**dict(row))
