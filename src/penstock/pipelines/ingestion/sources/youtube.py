"""Videos of YouTube as what is said in them, with the second at which it is said: by id, by playlist, and from subtitle
files, which need no network and are the way out where YouTube gives nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from penstock.engine.clock import Clock
from penstock.engine.errors import InvalidRequest, Permanent, Transient
from penstock.pipelines.ingestion.model import Document, Entry, Known, Loaded
from penstock.pipelines.ingestion.plugins import Tools
from penstock.pipelines.ingestion.sources.folders import (
    Files,
    FolderOptions,
    NamedFiles,
    Place,
    checked_options,
    checked_path,
    files_at,
    read,
    storable,
    unchanged,
)
from penstock.pipelines.ingestion.sources.subtitles import Kind, decode, parse, readable

if TYPE_CHECKING:
    from penstock.pipelines.ingestion.sources.youtube_client import Client, Listing

KINDS: dict[str, Kind] = {".vtt": "vtt", ".srt": "srt", ".sbv": "sbv"}

LARGEST_FILE = 20_000_000
"""Bytes of one subtitle file: a day of captions with a time for every word."""

FILE = "subtitles:"
WATCH = "https://www.youtube.com/watch?v="
PLAYLIST = "https://www.youtube.com/playlist?list="

_HOSTS = frozenset(("youtube.com", "m.youtube.com", "music.youtube.com", "youtube-nocookie.com"))
_VIDEO = re.compile(r"[A-Za-z0-9_-]{11}")
_LIST = re.compile(r"[A-Za-z0-9_-]{2,64}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}")
_NAMED_LANGUAGE = re.compile(r"[a-z]{2}(?:-[A-Z]{2})?")

_T = TypeVar("_T")


def video_id(text: str) -> str | None:
    """The id of a video, given as such or within any of its addresses."""
    text = text.strip()
    if _VIDEO.fullmatch(text):
        return text
    url = _address(text)
    if url is None:
        return None
    parts = url.path.strip("/").split("/")
    if url.hostname == "youtu.be":
        found = parts[0]
    elif parts[0] in ("shorts", "embed", "live", "v") and len(parts) > 1:
        found = parts[1]
    else:
        found = parse_qs(url.query).get("v", [""])[0]
    return found if _VIDEO.fullmatch(found) else None


def playlist_id(text: str) -> str | None:
    """The id of a playlist, given as such or within an address."""
    text = text.strip()
    if _LIST.fullmatch(text):
        return None if _VIDEO.fullmatch(text) else text
    url = _address(text)
    found = parse_qs(url.query).get("list", [""])[0] if url else ""
    return found if _LIST.fullmatch(found) else None


def _address(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text if "://" in text else f"https://{text}")
        host = (url.hostname or "").removeprefix("www.")
        return url if url.scheme in ("http", "https") and (host in _HOSTS or host == "youtu.be") else None
    except ValueError:
        return None


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


_Text = Annotated[str, Field(min_length=1, max_length=4096)]
_Texts = Annotated[tuple[_Text, ...], BeforeValidator(_several)]


class YouTubeOptions(BaseModel):
    """`files` is a folder of subtitle files, or such files. Of `languages` the first that a video has is taken, else
    what it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ids: _Texts = Field(default=(), max_length=10_000)
    playlists: _Texts = Field(default=(), max_length=100)
    languages: _Texts = Field(default=("en",), min_length=1, max_length=20)
    files: _Texts = Field(default=(), max_length=10_000)

    @field_validator("ids")
    @classmethod
    def _videos(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for text in texts:
            video = video_id(text)
            if video is None:
                hint = "put a playlist into `playlists`" if playlist_id(text) else "an id has 11 characters"
                raise ValueError(f"{text[:100]!r} is no video: give its id or its address; {hint}")
            found[video] = None
        return tuple(found)

    @field_validator("playlists")
    @classmethod
    def _playlists(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for text in texts:
            playlist = playlist_id(text)
            if playlist is None:
                hint = "put a video into `ids`" if video_id(text) else "an address has `list=` in it"
                raise ValueError(f"{text[:100]!r} is no playlist: give its id or its address; {hint}")
            found[playlist] = None
        return tuple(found)

    @field_validator("languages")
    @classmethod
    def _languages(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        for code in codes:
            if not _LANGUAGE.fullmatch(code):
                raise ValueError(f"{code[:100]!r} is no language: give codes such as en, de or pt-BR")
        return codes

    @field_validator("files")
    @classmethod
    def _files(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            checked_path(path)
            if len(paths) > 1 and Path(path).suffix.lower() not in KINDS:
                raise ValueError(f"{path[:200]} is none of {', '.join(KINDS)}; a folder must be given alone")
        return paths

    @model_validator(mode="after")
    def _something(self) -> YouTubeOptions:
        if not (self.ids or self.playlists or self.files):
            raise ValueError("there is nothing to read: give `ids`, `playlists` or `files`")
        return self


def youtube(options: Mapping[str, Any], tools: Tools) -> YouTubeSource:
    """See `YouTubeOptions`."""
    return YouTubeSource(checked_options("youtube", YouTubeOptions, options), tools.clock, resolved=tools.resolved)


def _connected() -> Client:
    # Imported when YouTube is first asked: subtitle files do without.
    from penstock.pipelines.ingestion.sources.youtube_client import Client

    return Client()


class YouTubeSource:
    """First the videos that are named, then those of each playlist, then the files; what comes twice is there once. A
    playlist that cannot be read, or not to its end, is an entry of its own, which fails when it is loaded."""

    def __init__(
        self,
        options: YouTubeOptions,
        clock: Clock,
        *,
        connect: Callable[[], Client] = _connected,
        resolved: bool = False,
    ) -> None:
        self._options = options
        self._clock = clock
        self._files = _files(options.files, resolved)
        self._connect = connect
        self._client: Client | None = None
        self._opening = asyncio.Lock()
        self._listings: dict[str, Listing] = {}

    async def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        group, ordinal, name = _place(cursor)
        if group is not None:
            seen: set[str] = set()
            for number, playlist in enumerate((None, *self._options.playlists)):
                uris = await self._uris(playlist)
                first = 0 if number > group else len(uris) if number < group else _after(list(uris), ordinal, name)
                for place, (each, uri) in enumerate(uris.items()):
                    if place >= first and each not in seen:
                        yield Entry(uri, f"{number}:{place}:{each}")
                seen.update(uris)
        if self._files is not None:
            async for entry in self._files.entries(name if group is None else None):
                yield Entry(FILE + entry.uri, FILE + entry.cursor, entry.fingerprint)

    async def load(self, entry: Entry, known: Known | None) -> Loaded:
        if entry.uri.startswith(FILE):
            return await asyncio.to_thread(self._file, entry.uri.removeprefix(FILE))
        if entry.uri.startswith(PLAYLIST):
            playlist = entry.uri.removeprefix(PLAYLIST)
            trouble = (await self._listing(playlist)).trouble
            raise Permanent(trouble or f"playlist {playlist} could not be read, and now can: run again")
        video = video_id(entry.uri)
        if video is None:
            raise Permanent(f"{entry.uri[:200]!r} is no video")
        return Loaded(await self._ask(lambda client: self._video(client, video)))

    async def count(self) -> int | None:
        found = await self._files.count() if self._files else 0
        videos: set[str] = set()
        try:
            for playlist in (None, *self._options.playlists):
                videos.update(await self._uris(playlist))
        except Transient:
            # Whoever walks there hears of it, and waits.
            return None
        return found + len(videos)

    async def close(self) -> None:
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    async def _uris(self, playlist: str | None) -> dict[str, str]:
        """What is in a playlist, or named one by one: ids and addresses. Trouble comes last, by the playlist's id."""
        if playlist is None:
            return {video: WATCH + video for video in self._options.ids}
        listing = await self._listing(playlist)
        uris = {video: WATCH + video for video in listing.videos}
        return {**uris, playlist: PLAYLIST + playlist} if listing.trouble else uris

    async def _listing(self, playlist: str) -> Listing:
        """Asked for once, so that the order holds while this source lives."""
        if playlist not in self._listings:
            self._listings[playlist] = await self._ask(lambda client: _listed(client, playlist))
        return self._listings[playlist]

    async def _ask(self, question: Callable[[Client], _T]) -> _T:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
        return await asyncio.to_thread(question, self._client)

    def _video(self, client: Client, video: str) -> Document:
        found = client.transcript(video, self._options.languages)
        text, marks = readable(found.cues)
        if not text:
            raise Permanent(f"video {video}: its transcript is empty")
        told = {
            "video": video,
            "url": WATCH + video,
            "language": found.language,
            "generated": found.generated,
            "duration": found.duration,
            "channel": found.channel,
        }
        metadata = {name: value for name, value in told.items() if value is not None}
        return Document(WATCH + video, found.title or video, text, marks=marks, metadata=metadata)

    def _file(self, uri: str) -> Loaded:
        place = self._files.find(uri) if self._files else None
        if place is None:
            return Loaded(None)
        if place.size > LARGEST_FILE:
            raise Permanent(
                f"{uri} has {place.size / 1e6:.1f} MB; at most {LARGEST_FILE / 1e6:g} MB are read: split it, or use "
                "subtitles without a time for every word"
            )
        now = self._clock.now()
        data = read(place)
        return Loaded(document_of(place, data, place.settled(now) if unchanged(place) else None))


def document_of(place: Place, data: bytes, fingerprint: str | None) -> Document:
    """A subtitle file as a document; `Permanent` where it is none."""
    name = PurePosixPath(place.uri)
    kind = KINDS.get(name.suffix.lower())
    if kind is None:
        raise Permanent(f"{place.uri} is no subtitle file: its name must end with {', '.join(KINDS)}")
    try:
        found = parse(decode(data), kind)
    except Permanent as error:
        raise Permanent(f"{place.uri}: {error}") from error
    text, marks = readable(found.cues)
    if not text:
        why = f"the times of its {found.skipped} cues cannot be read" if found.skipped else "there is no cue in it"
        raise Permanent(f"{place.uri} has no subtitles: {why}")
    metadata: dict[str, Any] = {"file": name.name, "duration": round(max(cue.end for cue in found.cues), 3)}
    language = found.language or _language(name.stem)
    if language:
        metadata["language"] = language
    if found.skipped:
        metadata["skipped_cues"] = found.skipped
    return Document(FILE + place.uri, name.stem, text, marks=marks, metadata=metadata, fingerprint=fingerprint)


def _files(paths: tuple[str, ...], resolved: bool) -> Files | None:
    if not paths:
        return None
    if len(paths) == 1:
        return files_at("youtube", FolderOptions(path=paths[0]), tuple(KINDS), resolved=resolved)
    named: dict[str, Path] = {}
    for path in map(Path, paths):
        name = storable(path.name)
        if named.setdefault(name, path) != path:
            raise InvalidRequest(f"source youtube: files: two are called {name}: give the folder above both instead")
    return NamedFiles(named, resolved=resolved)


def _listed(client: Client, playlist: str) -> Listing:
    from penstock.pipelines.ingestion.sources.youtube_client import Listing

    try:
        return client.playlist(playlist)
    except Permanent as error:
        return Listing((), str(error))


def _place(cursor: str | None) -> tuple[int | None, int, str]:
    """The group of videos, the number in it and the name there; no group within the files."""
    if cursor is None:
        return 0, 0, ""
    if cursor.startswith(FILE):
        return None, 0, cursor.removeprefix(FILE)
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9}):([A-Za-z0-9_-]{1,64})", cursor)
    if found is None:
        raise InvalidRequest(f"{cursor[:200]!r} is no place in a source of videos")
    return int(found[1]), int(found[2]), found[3]


def _after(names: list[str], ordinal: int, name: str) -> int:
    """Where to go on after a name. A playlist changes: what is gone had its place taken by the next one."""
    if name in names:
        return names.index(name) + 1
    return min(ordinal, len(names))


def _language(stem: str) -> str | None:
    """What people and programs put into a name, as in `talk.en.vtt`."""
    _, dot, code = stem.rpartition(".")
    return code if dot and _NAMED_LANGUAGE.fullmatch(code) else None
