"""What is asked of YouTube, through the library that people use for transcripts, and the one place where its errors
become ours. Blocking: the source calls it in a thread. Imported when a video is first asked for."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from xml.etree.ElementTree import ParseError

import requests
import youtube_transcript_api as library

from penstock.engine.errors import Permanent, RateLimited, StepError, Transient
from penstock.pipelines.ingestion.sources.subtitles import MOST_CUES, Cue, clean

LARGEST_ANSWER = 16_000_000
LARGEST_CUE = 16_000
"""Bytes of one cue. What the library does with a cue takes the square of its length in the worst case."""

MOST_VIDEOS = 5000
"""Of one playlist: YouTube has no longer ones."""

TIMEOUT = (10.0, 30.0)
WAIT = 60.0
LONGEST_WAIT = 3600.0

_PLAYLIST = "https://www.youtube.com/playlist"
_HOSTS = ("youtube.com", "google.com")
_INITIAL_DATA = re.compile(r'ytInitialData"?\]?[ ]?=[ ]?(?=\{)')
_MORE = ("continuationItemRenderer", "continuationItemViewModel")
_CONSENT = re.compile(r'name="v" value="([^"]{1,200})"')
_VIDEO = re.compile(r"[A-Za-z0-9_-]{11}")
_INSTEAD = "put a subtitle file (.vtt, .srt or .sbv) into `files` instead"

_PERMANENT: tuple[tuple[type[Exception], str], ...] = (
    (library.TranscriptsDisabled, f"has no subtitles: {_INSTEAD}"),
    (library.NoTranscriptFound, f"has no subtitles: {_INSTEAD}"),
    (library.VideoUnavailable, "is not available: it was removed, is private, or the id is wrong"),
    (library.InvalidVideoId, "is not available: the id is wrong"),
    (library.AgeRestricted, f"is age-restricted, and shown only to people who are signed in: {_INSTEAD}"),
    (library.PoTokenRequired, f"gives its transcript to YouTube's own players only: {_INSTEAD}"),
    (library.FailedToCreateConsentCookie, f"is behind YouTube's question about cookies, which is new here: {_INSTEAD}"),
)


@dataclass(slots=True, frozen=True)
class Transcript:
    """What a video says. Without a title it is called by its id."""

    title: str | None
    channel: str | None
    duration: int | None
    language: str
    generated: bool
    cues: tuple[Cue, ...]


@dataclass(slots=True, frozen=True)
class Listing:
    """The videos that a playlist's page shows. `trouble`: why they are not all, or none."""

    videos: tuple[str, ...]
    trouble: str | None = None


class Session(requests.Session):
    """Asks YouTube only, waits and reads no longer than it may, and remembers what the library does not tell: what the
    player was told, the last status, and how long to stay away."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks["response"].append(self._heard)
        self.forget()

    def forget(self) -> None:
        self.player: bytes | None = None
        self.status: int | None = None
        self.wait = WAIT

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        asked = urlsplit(request.url or "")
        host = asked.hostname or ""
        if asked.scheme != "https" or not any(host == one or host.endswith(f".{one}") for one in _HOSTS):
            raise Permanent(f"YouTube sends us to {host!r}, where nothing is asked")
        return super().send(request, **{**kwargs, "timeout": TIMEOUT, "stream": True})

    def _heard(self, response: requests.Response, *args: Any, **kwargs: Any) -> None:
        body = bytearray()
        for part in response.iter_content(65536):
            body += part
            if len(body) > LARGEST_ANSWER:
                response.close()
                raise Permanent(f"YouTube's answer is larger than {LARGEST_ANSWER // 1_000_000} MB")
        response._content = bytes(body)
        # Otherwise it may be guessed from the text, at length.
        response.encoding = "utf-8"
        self.status = response.status_code
        told = response.headers.get("Retry-After", "")
        if told.isdecimal() and len(told) < 10:
            self.wait = min(max(float(told), 1.0), LONGEST_WAIT)
        path = urlsplit(response.url).path
        if path == "/youtubei/v1/player":
            self.player = bytes(body)
        elif path == "/api/timedtext":
            _check(bytes(body))


class Client:
    """One conversation with YouTube at a time."""

    def __init__(self, session: Session | None = None) -> None:
        self._session = session or Session()
        self._api = library.YouTubeTranscriptApi(http_client=self._session)
        self._busy = threading.Lock()

    def transcript(self, video: str, languages: Sequence[str]) -> Transcript:
        """In the first of these languages that there is, else in any; rather made by people than by a machine."""
        with self._busy:
            self._session.forget()
            try:
                chosen = _chosen(list(self._api.list(video)), languages)
                if chosen is None:
                    raise library.TranscriptsDisabled(video)
                fetched = chosen.fetch()
                details = _details(self._session.player)
            except Exception as error:
                raise self._told(error, f"video {video}") from error
            return Transcript(
                title=_text(details.get("title")),
                channel=_text(details.get("author")),
                duration=_length(details.get("lengthSeconds")),
                language=fetched.language_code,
                generated=fetched.is_generated,
                cues=tuple(_cues(fetched.snippets)),
            )

    def playlist(self, playlist: str) -> Listing:
        """From the page that people see: the library knows no playlists."""
        with self._busy:
            self._session.forget()
            try:
                page = self._page(playlist)
            except Exception as error:
                raise self._told(error, f"playlist {playlist}") from error
        if 'class="g-recaptcha"' in page:
            raise RateLimited(_blocked(f"playlist {playlist}"), retry_after=WAIT)
        return listed(page, playlist)

    def close(self) -> None:
        self._session.close()

    def _page(self, playlist: str) -> str:
        for _ in range(2):
            answer = self._session.get(_PLAYLIST, params={"list": playlist, "hl": "en"})
            answer.raise_for_status()
            page = answer.text
            asked = _CONSENT.search(page) if 'action="https://consent.youtube.com/s"' in page else None
            if asked is None:
                break
            self._session.cookies.set("CONSENT", f"YES+{asked[1]}", domain=".youtube.com")
        return page

    def _told(self, error: Exception, what: str) -> StepError:
        """Our error for one of the library's, or of the network's."""
        if isinstance(error, Permanent):
            return Permanent(f"{what}: {error}")
        status = self._session.status
        if isinstance(error, library.RequestBlocked) or status == 429:
            return RateLimited(_blocked(what), retry_after=self._session.wait)
        if isinstance(error, library.YouTubeRequestFailed | requests.HTTPError):
            if status is not None and 400 <= status < 500 and status not in (403, 408):
                return Permanent(f"{what}: YouTube refuses it with status {status}; is the id right?")
            return Transient(f"{what}: YouTube answers with status {status}")
        if isinstance(error, requests.RequestException):
            return Transient(f"{what}: YouTube cannot be reached ({type(error).__name__})")
        if isinstance(error, library.VideoUnplayable):
            return Permanent(f"{what} cannot be played: {clean(error.reason or 'YouTube does not say why')[:300]}")
        for kind, why in _PERMANENT:
            if isinstance(error, kind):
                return Permanent(f"{what} {why}")
        if isinstance(error, ParseError | library.YouTubeDataUnparsable):
            # Most often an empty answer, which is how YouTube turns programs away; it may pass.
            return Transient(f"{what}: YouTube's answer is no transcript; if that stays so, {_INSTEAD}")
        return Permanent(
            f"{what}: YouTube's answer is not as it used to be ({type(error).__name__}): update "
            f"youtube-transcript-api, or {_INSTEAD}"
        )


def listed(page: str, playlist: str) -> Listing:
    """The videos in the data that a playlist's page is made from."""
    found = _INITIAL_DATA.search(page)
    try:
        data = json.JSONDecoder().raw_decode(page, found.end())[0] if found else {}
    except (ValueError, RecursionError):
        data = {}
    for section in _under(data.get("contents"), "itemSectionRenderer"):
        # Only the first section with videos is the playlist; what else is there is recommended.
        videos = dict.fromkeys(_videos(section))
        if videos:
            more = any(True for name in _MORE for _ in _under(section, name)) or len(videos) > MOST_VIDEOS
            shown = tuple(videos)[:MOST_VIDEOS]
            why = f"playlist {playlist} has more videos than the {len(shown)} on its page: name the others in `ids`"
            return Listing(shown, why if more else None)
    said = next((words for alert in _under(data, "alertRenderer") for words in _words(alert)), None)
    why = f"YouTube says {said!r}" if said else "no videos were found on its page"
    return Listing((), f"playlist {playlist} cannot be read: {why}; name its videos in `ids` instead")


def _videos(section: Any) -> Iterator[str]:
    for name, item in _items(section):
        video = None
        if name == "playlistVideoRenderer":
            video = item.get("videoId")
        elif name == "lockupViewModel" and str(item.get("contentType")).endswith(("_VIDEO", "_SHORT", "_SHORTS")):
            video = item.get("contentId")
        if isinstance(video, str) and _VIDEO.fullmatch(video):
            yield video


def _under(data: Any, wanted: str) -> Iterator[dict[str, Any]]:
    return (item for name, item in _items(data) if name == wanted)


def _items(data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """All that has a name, at any depth, in the order of the page."""
    waiting: list[tuple[str, Any]] = [("", data)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            if name:
                yield name, value
            waiting.extend(reversed(value.items()))
        elif isinstance(value, list):
            waiting.extend(("", one) for one in reversed(value))


def _words(alert: dict[str, Any]) -> Iterator[str]:
    told = alert.get("text")
    runs = told.get("runs") if isinstance(told, dict) else None
    for one in (told, *(runs if isinstance(runs, list) else ())):
        words = _text(one.get("simpleText") or one.get("text")) if isinstance(one, dict) else None
        if words:
            yield words


def _chosen(there: Sequence[library.Transcript], languages: Sequence[str]) -> library.Transcript | None:
    """Exactly the language, then the same with another country; among equals what people made, then the first."""

    def rank(one: library.Transcript) -> tuple[int, bool, bool]:
        code = one.language_code.lower()
        for place, wanted in enumerate(languages):
            if code.split("-")[0] == wanted.lower().split("-")[0]:
                return place, one.is_generated, code != wanted.lower()
        return len(languages), one.is_generated, False

    return min(there, key=rank, default=None)


def _cues(snippets: Sequence[library.FetchedTranscriptSnippet]) -> Iterator[Cue]:
    for one in snippets:
        lines = tuple(line for line in map(clean, one.text.split("\n")) if line)
        if lines and math.isfinite(one.start) and math.isfinite(one.duration):
            start = max(one.start, 0.0)
            yield Cue(start, start + max(one.duration, 0.0), lines)


def _check(body: bytes) -> None:
    cues = body.split(b"<text")
    if len(cues) > MOST_CUES or max(map(len, cues)) > LARGEST_CUE:
        raise Permanent(f"the transcript has more than {MOST_CUES:,} cues, or one of more than {LARGEST_CUE:,} bytes")


def _details(player: bytes | None) -> dict[str, Any]:
    """Of the video, as the player is told; the library has read it as JSON already."""
    told = json.loads(player) if player else {}
    details = told.get("videoDetails") if isinstance(told, dict) else None
    return details if isinstance(details, dict) else {}


def _text(value: Any) -> str | None:
    return (clean(value)[:300] or None) if isinstance(value, str) else None


def _length(value: Any) -> int | None:
    seconds = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else 0
    return seconds or None


def _blocked(what: str) -> str:
    return (
        f"{what}: YouTube wants no more requests from this address for now; if that stays so, go through another one "
        f"(HTTPS_PROXY), or {_INSTEAD}"
    )
