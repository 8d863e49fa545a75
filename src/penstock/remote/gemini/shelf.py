"""The files one call has at Gemini: uploaded once, several at a time, remembered on the disk, deleted when it ends.

What was uploaded is written down in the call's folder, so that preparing again after a crash, or while waiting for
room, uploads nothing twice. A file that Google would delete before the batch can have read it, or that is older than
the batch wants, is uploaded anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from penstock.engine.errors import InvalidRequest, PenstockError, Permanent, Transient
from penstock.outputs.files import fingerprint
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.errors import Refused
from penstock.remote.gemini.lines import decoded, encoded, lines
from penstock.remote.gemini.settings import Transfers
from penstock.remote.gemini.upload import Uploaded, read_file, upload

log = logging.getLogger("penstock.remote.gemini")

JOURNAL = "uploads.jsonl"
_PROCESSING_LOOKS = 600
_MOST_PAGES = 10_000

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Wanted:
    """A local file that a request names. `shared`: other calls of the tenant use it too, so it stays until Google
    deletes it."""

    path: Path
    mime: str
    shared: bool = False


class Shelf:
    def __init__(self, client: GeminiClient, folder: Path, *, tenant: str, transfers: Transfers | None = None) -> None:
        self._client = client
        self._transfers = transfers or Transfers()
        self._parallel = self._transfers.parallel or client.settings.upload_parallel
        self._journal = folder / JOURNAL
        self._tenant = hashlib.sha256(tenant.encode()).hexdigest()[:8]
        self._known: dict[str, Uploaded] = {}
        self._at_gemini: dict[str, Uploaded] | None = None
        self._own: set[str] = set()
        self._replaced: set[str] = set()

    async def open(self) -> None:
        """Read what was uploaded before. One look tells whether it was deleted since."""
        entries = await self._client.in_thread(_read_journal, self._journal)
        if entries and await self._is_there(entries[-1][1].name):
            self._known = {mark: file for mark, file, _ in entries}
            self._own = {file.name for _, file, shared in entries if not shared}

    @property
    def stocked(self) -> bool:
        return bool(self._known)

    def fresh(self, file: Uploaded) -> bool:
        """Whether it outlives the batch, and is as young as the batch wants."""
        now = self._client.clock.now()
        return file.expires - now >= self._client.settings.files_live_for and self.young(file.uploaded)

    def young(self, uploaded: float) -> bool:
        max_age = self._transfers.max_age
        return max_age is None or self._client.clock.now() - uploaded <= max_age

    async def have(self, wanted: Wanted, *, title: str | None = None) -> Uploaded:
        """The file at Gemini, uploaded if it is not there, would not live long enough or is too old."""
        try:
            digest, size = await self._client.in_thread(fingerprint, wanted.path)
        except OSError as error:
            raise InvalidRequest(f"{wanted.path} cannot be read: {error.strerror}") from error
        if size == 0:
            raise InvalidRequest(f"{wanted.path} is empty")
        mark = f"{digest}:{wanted.mime}"
        known = self._known.get(mark)
        if known is not None and self.fresh(known):
            return known
        label = title or f"penstock-{digest[:16]}-{self._tenant}"
        found = (await self._listed()).get(label) if wanted.shared else None
        if found is None or found.size != size or not self.fresh(found):
            found = await upload(self._client, wanted.path, label=label, mime=wanted.mime, transfers=self._transfers)
            if found.state == "PROCESSING":
                found = await self._processed(found)
        if known is not None and known.name in self._own:
            self._replaced.add(known.name)
        self._known[mark] = found
        await self._client.in_thread(_append, self._journal, {"mark": mark, "shared": wanted.shared, **found.as_json()})
        return found

    async def have_all(self, wanted: Iterable[tuple[str, Wanted]]) -> dict[str, Uploaded]:
        """Several at once. The first failure stops the rest."""

        async def one(name: str, file: Wanted) -> tuple[str, Uploaded]:
            return name, await self.have(file)

        jobs = [partial(one, name, file) for name, file in wanted]
        return dict(await in_parallel(self._parallel, jobs))

    async def drop_replaced(self, used: Iterable[Uploaded]) -> None:
        """Delete what was uploaded anew, now that nothing names it: a batch that waits for days would fill the storage
        of the project."""
        dropped = self._replaced - {file.name for file in used}
        self._replaced.clear()
        await in_parallel(self._parallel, [partial(delete_file, self._client, name) for name in sorted(dropped)])

    async def clear(self) -> None:
        """Delete what was uploaded for this call alone. What cannot be deleted goes by itself within two days."""
        entries = await self._client.in_thread(_read_journal, self._journal)
        own = [partial(delete_file, self._client, file.name) for _, file, shared in entries if not shared]
        await in_parallel(self._parallel, own)

    async def _is_there(self, name: str) -> bool:
        try:
            await self._client.ask("GET", name, f"look at {name}")
        except Refused as error:
            if error.code in (403, 404):
                return False
            raise
        return True

    async def _processed(self, file: Uploaded) -> Uploaded:
        """Video and long documents are readable some time after they were uploaded."""
        for _ in range(_PROCESSING_LOOKS):
            raw = await self._client.ask("GET", file.name, f"look at {file.name}")
            seen = read_file(raw, self._client.clock.now())
            if seen.state == "FAILED":
                raise Permanent(f"Gemini could not read {file.name}: {raw.get('error')}")
            if seen.state != "PROCESSING":
                return replace(seen, uploaded=file.uploaded)
            await self._client.clock.sleep(2.0)
        raise Transient(f"Gemini is still reading {file.name}")

    async def _listed(self) -> dict[str, Uploaded]:
        """Our files at Gemini by display name, the longest-lived of each."""
        if self._at_gemini is not None:
            return self._at_gemini
        found: dict[str, Uploaded] = {}
        token = ""
        for _ in range(_MOST_PAGES):
            params = {"pageSize": "100"} | ({"pageToken": token} if token else {})
            page = await self._client.ask("GET", "files", "list files", params=params)
            for raw in page.get("files") or ():
                file, title = read_file(raw, self._client.clock.now()), str(raw.get("displayName") or "")
                if file.state == "ACTIVE" and (title not in found or found[title].expires < file.expires):
                    found[title] = file
            token = str(page.get("nextPageToken") or "")
            if not token:
                break
        self._at_gemini = found
        return found


async def delete_file(client: GeminiClient, name: str) -> None:
    """Best effort. Gone already (403, 404) is as good; the names of results are too long to be deleted (400)."""
    try:
        await client.ask("DELETE", name, f"delete {name}")
    except Refused as error:
        if error.code not in (400, 403, 404):
            log.warning("%s", error)
    except PenstockError as error:
        log.warning("%s", error)


async def in_parallel(most: int, jobs: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Their results in order, at most so many at a time; the first failure stops the rest, and is raised."""
    waiting = list(enumerate(jobs))[::-1]
    results: dict[int, T] = {}

    async def work() -> None:
        while waiting:
            number, job = waiting.pop()
            results[number] = await job()

    workers = [asyncio.ensure_future(work()) for _ in range(min(most, len(waiting)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[number] for number in sorted(results)]


def _read_journal(journal: Path) -> list[tuple[str, Uploaded, bool]]:
    """What was uploaded, oldest first: its mark (what is in it), the file, whether it is shared."""
    if not journal.exists():
        return []
    entries = []
    with journal.open("rb") as file:
        for line in lines(file):
            entry, damage = decoded(line or b"")
            if damage is None:
                entries.append((str(entry["mark"]), Uploaded.from_json(entry), bool(entry["shared"])))
    return entries


def _append(journal: Path, entry: dict[str, Any]) -> None:
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("ab") as file:
        file.write(encoded(entry))
