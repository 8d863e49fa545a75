"""Videos by id, by playlist and from subtitle files, through the real client library: what it asks is answered from
recordings, and nothing leaves the machine."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import urllib3
from requests.adapters import BaseAdapter, HTTPAdapter

from penstock.config import Settings
from penstock.engine.clock import SystemClock
from penstock.engine.errors import InvalidRequest, Permanent, RateLimited, Transient
from penstock.pipelines.ingestion.model import Document, Entry, SourceSpec
from penstock.pipelines.ingestion.plugins import Tools
from penstock.pipelines.ingestion.sources import make_source
from penstock.pipelines.ingestion.sources.folders import checked_options
from penstock.pipelines.ingestion.sources.youtube import (
    LARGEST_FILE,
    YouTubeOptions,
    YouTubeSource,
    playlist_id,
    video_id,
)
from penstock.pipelines.ingestion.sources.youtube_client import Client, Session

SHARED = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data")) / "transcripts_captions"
VIDEO, OTHER, THIRD = "abcdefghij-", "ABCDEFGHIJ_", "01234567890"
WATCH = "https://www.youtube.com/watch?v="
LIST = "PLabcdefghijklmnop"
CAPTIONS = "https://www.youtube.com/api/timedtext?v=x"
WATCH_PAGE = '<html>"INNERTUBE_API_KEY": "a-key"</html>'
TRANSCRIPT = """<?xml version="1.0" encoding="utf-8" ?><transcript>
<text start="0" dur="1.5">Open the &amp;lt;i&amp;gt;gate&amp;lt;/i&amp;gt;</text><text start="1.5" dur="2">slowly,
please.</text><text start="3.5" dur="1"></text><text start="9.25" dur="2">Now &amp;quot;close&amp;quot; it.</text>
</transcript>"""


@dataclass
class Answer:
    body: str | bytes | Exception
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Recorded(BaseAdapter):
    """Answers by the path that is asked for; several answers to one path come one after the other."""

    answers: dict[str, Answer | list[Answer]]
    asked: list[requests.PreparedRequest] = field(default_factory=list)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        self.asked.append(request)
        found = self.answers[urlsplit(str(request.url)).path]
        answer = found.pop(0) if isinstance(found, list) else found
        if isinstance(answer.body, Exception):
            raise answer.body
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        raw = urllib3.HTTPResponse(io.BytesIO(body), answer.headers, answer.status, preload_content=False)
        return HTTPAdapter().build_response(request, raw)

    def close(self) -> None: ...

    @property
    def paths(self) -> list[str]:
        return [urlsplit(str(request.url)).path for request in self.asked]


def track(language: str, *, generated: bool = False, url: str = CAPTIONS) -> dict[str, Any]:
    kind = {"kind": "asr"} if generated else {}
    name = {"runs": [{"text": language}]}
    return {"baseUrl": f"{url}&lang={language}&fmt=srv3", "name": name, "languageCode": language, **kind}


def player(*tracks: dict[str, Any], **more: Any) -> str:
    told = {"playabilityStatus": {"status": "OK"}, "videoDetails": {"title": "Gates \ud800 and\nlocks"}, **more}
    return json.dumps({**told, "captions": {"playerCaptionsTracklistRenderer": {"captionTracks": tracks}}})


def unplayable(status: str, reason: str) -> str:
    return json.dumps({"playabilityStatus": {"status": status, "reason": reason}})


def youtube(**paths: Answer | list[Answer] | str) -> Recorded:
    """A YouTube that has one video, but for what is said otherwise."""
    told = {"watch": WATCH_PAGE, "player": player(track("en")), "timedtext": TRANSCRIPT, **paths}
    where = {"player": "/youtubei/v1/player", "timedtext": "/api/timedtext"}
    return Recorded(
        {where.get(name, f"/{name}"): Answer(one) if isinstance(one, str) else one for name, one in told.items()}
    )


def source(recorded: Recorded | None, **options: Any) -> YouTubeSource:
    def connect() -> Client:
        assert recorded is not None, "nobody should ask YouTube"
        session = Session()
        session.mount("https://", recorded)
        session.mount("http://", recorded)
        return Client(session)

    return YouTubeSource(checked_options("youtube", YouTubeOptions, options), SystemClock(), connect=connect)


def done(recorded: Recorded | None, work: Callable[[YouTubeSource], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    async def whole() -> Any:
        opened = source(recorded, **options)
        try:
            return await work(opened)
        finally:
            await opened.close()

    return asyncio.run(whole())


def loaded(recorded: Recorded, video: str = VIDEO, **options: Any) -> Document:
    found = done(recorded, lambda one: one.load(Entry(WATCH + video, f"0:0:{video}"), None), ids=[video], **options)
    assert isinstance(found.document, Document)
    return found.document


def walked(recorded: Recorded | None, cursor: str | None = None, **options: Any) -> list[Entry]:
    async def walk(one: YouTubeSource) -> list[Entry]:
        return [entry async for entry in one.entries(cursor)]

    found: list[Entry] = done(recorded, walk, **options)
    return found


def test_a_video_is_what_is_said_in_it_with_times_and_its_title() -> None:
    details = {"title": "Gates \ud800 and\nlocks", "lengthSeconds": "316", "author": "Canal TV", "viewCount": "7"}
    document = loaded(youtube(player=player(track("en"), videoDetails=details)))
    assert document.uri == f"{WATCH}{VIDEO}" and document.title == "Gates \ufffd and locks"
    assert document.text == 'Open the gate slowly, please.\n\nNow "close" it.' and document.format == "plain"
    assert [(mark.offset, mark.position) for mark in document.marks] == [
        (0, {"start": 0.0}), (14, {"start": 1.5}), (31, {"start": 9.25}),
    ]  # fmt: skip
    assert document.metadata == {
        "video": VIDEO, "url": f"{WATCH}{VIDEO}", "language": "en", "generated": False, "duration": 316,
        "channel": "Canal TV",
    }  # fmt: skip
    assert document.fingerprint is None


def test_a_video_without_a_title_is_called_by_its_id() -> None:
    document = loaded(youtube(player=player(track("en"), videoDetails={"lengthSeconds": "many", "title": "  "})))
    assert document.title == VIDEO
    assert document.metadata.keys() == {"video", "url", "language", "generated"}


@pytest.mark.parametrize(
    ("wanted", "there", "taken"),
    [
        (["en"], [("de", False), ("en", True), ("en", False)], ("en", False)),
        (["en"], [("de", False), ("en", True)], ("en", True)),
        (["en"], [("de", False), ("en-GB", False), ("en", True)], ("en-GB", False)),
        (["fr", "de"], [("en", False), ("de", True)], ("de", True)),
        (["pt-BR"], [("pt", False), ("pt-BR", False)], ("pt-BR", False)),
        (["en"], [("ja", True), ("sv", False), ("fr", False)], ("sv", False)),
        (["en"], [("ja", True)], ("ja", True)),
    ],
)
def test_the_wanted_language_else_what_people_made_else_what_there_is(
    wanted: list[str], there: list[tuple[str, bool]], taken: tuple[str, bool]
) -> None:
    recorded = youtube(player=player(*(track(language, generated=made) for language, made in there)))
    metadata = loaded(recorded, languages=wanted).metadata
    assert (metadata["language"], metadata["generated"]) == taken
    assert f"lang={taken[0]}" in str(recorded.asked[-1].url)


INSTEAD = r"put a subtitle file \(\.vtt, \.srt or \.sbv\) into `files` instead"
CAPTCHA = '<form><div class="g-recaptcha"></div></form>'
BOMB = '<!DOCTYPE t [<!ENTITY a "aaaa">]><t><text start="0">&a;</text></t>'
GONE = [
    (Permanent, f"has no subtitles: {INSTEAD}", {"player": json.dumps({"playabilityStatus": {"status": "OK"}})}),
    (Permanent, f"has no subtitles: {INSTEAD}", {"player": player()}),
    (Permanent, "not available", {"player": unplayable("ERROR", "This video is unavailable")}),
    (Permanent, "is age-restricted", {
        "player": unplayable("LOGIN_REQUIRED", "This video may be inappropriate for some users.")}),
    (RateLimited, "HTTPS_PROXY", {"player": unplayable("LOGIN_REQUIRED", "Sign in to confirm you’re not a bot")}),
    (Permanent, "cannot be played: Premieres soon$", {"player": unplayable("UNPLAYABLE", "Premieres\nsoon")}),
    (Permanent, f"own players only: {INSTEAD}", {"player": player(track("en", url=f"{CAPTIONS}&exp=xpe"))}),
    (RateLimited, "no more requests", {"watch": CAPTCHA}),
    (RateLimited, "no more requests", {"timedtext": Answer("", 429, {"Retry-After": "7"})}),
    (Transient, "status 503", {"timedtext": Answer("", 503)}),
    (Transient, "status 403", {"timedtext": Answer("", 403)}),
    (Permanent, "status 404", {"watch": Answer("", 404)}),
    (Transient, "cannot be reached", {"watch": Answer(requests.ConnectionError("no route"))}),
    (Transient, "cannot be reached", {"player": "{not json"}),
    (Transient, "no transcript", {"timedtext": ""}),
    (Transient, "no transcript", {"watch": "<html>something else</html>"}),
    (Permanent, "not as it used to be", {"timedtext": BOMB}),
    (Permanent, "not as it used to be", {"player": player({"languageCode": "en"})}),
    (Permanent, "is empty", {"timedtext": "<transcript><text start='0' dur='1'> </text></transcript>"}),
    (Permanent, "is empty", {"timedtext": "<transcript><text start='nan' dur='1'>x</text></transcript>"}),
    (Permanent, "more than 16,000 bytes", {
        "timedtext": f"<transcript><text start='0'>{'&lt;' * 5000}</text></transcript>"}),
    (Permanent, "larger than 16 MB", {"watch": "x" * 16_000_001}),
    (Permanent, "sends us to '127.0.0.1'", {"watch": Answer("", 302, {"Location": "https://127.0.0.1/"})}),
    (Permanent, "sends us to 'www.youtube.com'", {"watch": Answer("", 302, {"Location": "http://www.youtube.com/"})}),
    (Permanent, "sends us to 'notyoutube.com'", {"player": player(track("en", url="https://notyoutube.com/x?"))}),
    (Permanent, "question about cookies", {"watch": '<form action="https://consent.youtube.com/s"></form>'}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "why", "paths"), GONE)
def test_what_youtube_does_not_give_is_one_error_with_the_way_out(
    kind: type[Exception], why: str, paths: dict[str, Any]
) -> None:
    with pytest.raises(kind, match=why) as caught:
        loaded(youtube(**paths))
    assert type(caught.value) is kind and f"video {VIDEO}" in str(caught.value) and "\n" not in str(caught.value)
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_after == (7 if "timedtext" in paths else 60)


def legacy(*videos: str) -> list[dict[str, Any]]:
    items = [{"playlistVideoRenderer": {"videoId": video, "title": {"runs": []}}} for video in videos]
    return [{"playlistVideoListRenderer": {"contents": items}}]


def modern(*videos: str, kind: str = "VIDEO") -> list[dict[str, Any]]:
    return [{"lockupViewModel": {"contentId": video, "contentType": f"LOCKUP_CONTENT_TYPE_{kind}"}} for video in videos]


def playlist_page(*items: dict[str, Any], name: str = "var ytInitialData = ", **more: Any) -> str:
    recommended = {"itemSectionRenderer": {"contents": modern(THIRD)}}
    sections = [{"itemSectionRenderer": {"contents": list(items)}}, recommended, {"continuationItemRenderer": {}}]
    tab = {"tabRenderer": {"content": {"sectionListRenderer": {"contents": sections}}}}
    data = {"contents": {"twoColumnBrowseResultsRenderer": {"tabs": [tab]}}, **more}
    return f"<html><script>{name}{json.dumps(data)};</script>"


@pytest.mark.parametrize(
    "page",
    [
        playlist_page(*legacy(OTHER, VIDEO), name='window["ytInitialData"] = '),
        playlist_page(*modern(OTHER, VIDEO, OTHER), *modern(LIST, kind="PLAYLIST")),
    ],
)
def test_a_playlist_is_the_videos_on_its_page_in_their_order(page: str) -> None:
    recorded = youtube(playlist=page)
    address = f"https://www.youtube.com/watch?v={VIDEO}&list={LIST}"
    assert [entry.uri for entry in walked(recorded, playlists=[address])] == [WATCH + OTHER, WATCH + VIDEO]
    assert [str(request.url) for request in recorded.asked] == [f"https://www.youtube.com/playlist?list={LIST}&hl=en"]


def test_the_question_about_cookies_is_answered() -> None:
    ask = '<form action="https://consent.youtube.com/s"><input type="hidden" name="v" value="cb-5">'
    recorded = youtube(playlist=[Answer(ask), Answer(playlist_page(*modern(VIDEO)))])
    assert [entry.uri for entry in walked(recorded, playlists=LIST)] == [WATCH + VIDEO]
    assert recorded.asked[1].headers["Cookie"] == "CONSENT=YES+cb-5"


ALERT = {"alerts": [{"alertRenderer": {"text": {"runs": [{"text": "The playlist does not exist."}]}}}]}


@pytest.mark.parametrize(
    ("page", "why", "videos"),
    [
        ("<html>nothing</html>", "no videos were found on its page; name its videos in `ids`", []),
        ("<script>var ytInitialData = {oh no", "no videos were found", []),
        ("<script>var ytInitialData = " + '{"a":' * 100_000, "no videos were found", []),
        (f"<script>var ytInitialData = {json.dumps(ALERT)}", "'The playlist does not exist.'", []),
        (Answer("", 404), "status 404", []),
        (
            playlist_page(*modern(OTHER), {"continuationItemViewModel": {}}),
            "more videos than the 1 on its page",
            [OTHER],
        ),
    ],
)
def test_a_playlist_that_cannot_be_read_to_its_end_is_an_entry_that_says_so(
    page: str | Answer, why: str, videos: list[str]
) -> None:
    async def whole(one: YouTubeSource) -> list[str]:
        entries = [entry async for entry in one.entries(None)]
        assert await one.count() == len(entries)
        with pytest.raises(Permanent, match=why):
            await one.load(entries[-1], None)
        return [entry.uri for entry in entries]

    found = done(youtube(playlist=page), whole, ids=VIDEO, playlists=LIST)
    assert found == [*(WATCH + video for video in [VIDEO, *videos]), f"https://www.youtube.com/playlist?list={LIST}"]


@pytest.mark.parametrize("page", [Answer("", 429), Answer(CAPTCHA), Answer(requests.Timeout()), Answer("", 500)])
def test_a_playlist_that_is_out_of_reach_is_waited_for(page: Answer) -> None:
    with pytest.raises(Transient):
        walked(youtube(playlist=page), playlists=LIST)
    assert done(youtube(playlist=page), lambda one: one.count(), playlists=LIST) is None


def test_after_every_cursor_the_rest_comes_in_the_same_order(tmp_path: Path) -> None:
    for name in ("b.vtt", "a/x.srt", "a/y.SBV", "c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    options = {"ids": [VIDEO, f"https://youtu.be/{OTHER}?t=3", VIDEO], "playlists": [LIST, "PLanother"]}
    pages = [playlist_page(*modern(OTHER, THIRD, "x2345678901")), "<html>", *[""] * 9]

    def recorded() -> Recorded:
        return youtube(playlist=[Answer(page) for page in pages])

    entries = walked(recorded(), files=str(tmp_path), **options)
    assert [entry.uri for entry in entries] == [
        WATCH + VIDEO, WATCH + OTHER, WATCH + THIRD, f"{WATCH}x2345678901",
        "https://www.youtube.com/playlist?list=PLanother",
        "subtitles:a/x.srt", "subtitles:a/y.SBV", "subtitles:b.vtt",
    ]  # fmt: skip
    assert [entry.fingerprint is None for entry in entries] == [True] * 5 + [False] * 3
    for place, entry in enumerate(entries, 1):
        rest = walked(recorded(), entry.cursor, files=str(tmp_path), **options)
        assert rest == entries[place:], f"after {entry.cursor}"


def test_a_playlist_that_changes_on_the_way_loses_and_repeats_nothing() -> None:
    at = walked(youtube(playlist=playlist_page(*modern(VIDEO, OTHER, THIRD))), playlists=LIST)[1].cursor

    def rest(*videos: str) -> list[str]:
        page = playlist_page(*modern(*videos))
        return [entry.uri.removeprefix(WATCH) for entry in walked(youtube(playlist=page), at, playlists=LIST)]

    new = "new45678901"
    assert rest(new, VIDEO, OTHER, THIRD) == [THIRD], "one was put before"
    assert rest(OTHER, THIRD, new) == [THIRD, new], "one before was taken away"
    assert rest(VIDEO, THIRD, new) == [THIRD, new], "the very one was taken away"
    assert rest(VIDEO) == [], "all that follow are gone"


def test_a_strange_cursor_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="is no place in a source of videos"):
        walked(None, "17", ids=VIDEO)


@pytest.mark.parametrize(
    "text",
    [
        VIDEO,
        f" {VIDEO}\n",
        f"https://www.youtube.com/watch?v={VIDEO}&t=12s",
        f"http://m.youtube.com/watch?app=m&v={VIDEO}",
        f"youtu.be/{VIDEO}?si=x",
        f"https://youtube.com/shorts/{VIDEO}",
        f"https://www.youtube-nocookie.com/embed/{VIDEO}?start=1",
        f"https://www.youtube.com/live/{VIDEO}",
        f"https://music.youtube.com/watch?v={VIDEO}&list={LIST}",
    ],
)
def test_a_video_is_known_by_any_of_its_addresses(text: str) -> None:
    assert video_id(text) == VIDEO


@pytest.mark.parametrize(
    "text",
    ["", "short", f"{VIDEO}x", "abcdefghij\n-", "https://[", f"https://youtube.com.evil.test/watch?v={VIDEO}", "é" * 11,
     f"ftp://youtube.com/watch?v={VIDEO}", "https://www.youtube.com/@canal", f"https://youtu.be/{VIDEO}x", "../../etc"],
)  # fmt: skip
def test_what_is_no_video_is_none(text: str) -> None:
    assert video_id(text) is None


def test_playlists_are_known_by_id_or_address() -> None:
    assert playlist_id(LIST) == playlist_id(f"https://www.youtube.com/playlist?list={LIST}") == LIST
    assert playlist_id(f"youtu.be/{VIDEO}?list={LIST}") == LIST
    assert [playlist_id(text) for text in (VIDEO, "x/y", f"{WATCH}{VIDEO}", "https://[?list=PL")] == [None] * 4


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "nothing to read: give `ids`, `playlists` or `files`"),
        ({"ids": []}, "nothing to read"),
        ({"ids": ["oops"]}, "ids: 'oops' is no video"),
        ({"ids": [LIST]}, "put a playlist into `playlists`"),
        ({"playlists": [VIDEO]}, "put a video into `ids`"),
        ({"playlists": "a b"}, "is no playlist"),
        ({"ids": 7}, "ids: "),
        ({"ids": VIDEO, "languages": ["English please"]}, "is no language: give codes such as en"),
        ({"ids": VIDEO, "languages": []}, "languages: "),
        ({"ids": VIDEO, "url": "x"}, "url: .*takes ids, playlists, languages, files"),
        ({"files": "/no/such/folder"}, "cannot be read"),
        ({"files": "a\x00b"}, "is no path"),
        ({"files": ["a.vtt", "b.txt"]}, r"b.txt is none of .vtt, .srt, .sbv; a folder must be given alone"),
        ({"files": ["x/a.vtt", "y/a.vtt"]}, "two are called a.vtt: give the folder above both"),
    ],
)
def test_wrong_options_are_refused_with_what_is_wrong(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        source(None, **options)


def test_the_registry_knows_the_source(tmp_path: Path) -> None:
    async def none() -> Any:
        raise AssertionError("subtitles need no process of their own")

    tools = Tools(pool=none, clock=SystemClock(), settings=Settings(), frontier=NotImplemented)
    (tmp_path / "a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHello\n")

    async def whole() -> Any:
        found = make_source(SourceSpec.model_validate({"type": "youtube", "files": str(tmp_path)}), tools)
        loaded = [await found.load(entry, None) async for entry in found.entries(None)]
        await found.close()
        return [one.document.text for one in loaded if isinstance(one.document, Document)]

    assert asyncio.run(whole()) == ["Hello"]
    with pytest.raises(InvalidRequest, match="source youtube: ids: 'x' is no video"):
        make_source(SourceSpec.model_validate({"type": "youtube", "ids": ["x"]}), tools)


def of_file(folder: Path, name: str, data: bytes | str) -> Document:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    os.utime(path, (1_000_000_000, 1_000_000_000))

    async def only(one: YouTubeSource) -> Document:
        (entry,) = [each async for each in one.entries(None) if each.uri == f"subtitles:{name}"]
        document = (await one.load(entry, None)).document
        assert isinstance(document, Document) and document.fingerprint == entry.fingerprint
        return document

    found: Document = done(None, only, files=str(folder))
    return found


def test_subtitle_files_are_documents_without_any_network(tmp_path: Path) -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.500\n<v Ann>Hello\n\n00:01:7x.000 --> 00:03.000\nlost\n"
    document = of_file(tmp_path, "A talk.de.vtt", text)
    assert (document.uri, document.title, document.text) == ("subtitles:A talk.de.vtt", "A talk.de", "Ann: Hello")
    assert document.metadata == {"file": "A talk.de.vtt", "duration": 2.5, "language": "de", "skipped_cues": 1}
    assert document.marks[0].position == {"start": 1.0} and document.fingerprint
    two = {"one.srt": "1\n00:00:01,000 --> 00:00:02,000\nEins\n", "two.sbv": "0:00:01.000,0:00:02.000\nTwo\n"}
    for name, said in two.items():
        assert of_file(tmp_path, name, said).metadata == {"file": name, "duration": 2.0}
    named = walked(None, files=[str(tmp_path / "two.sbv"), str(tmp_path / "gone.srt"), str(tmp_path / "one.srt")])
    assert [entry.uri for entry in named] == ["subtitles:gone.srt", "subtitles:one.srt", "subtitles:two.sbv"]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("empty.vtt", "", "empty.vtt has no subtitles: there is no cue in it"),
        ("none.srt", "just text", "there is no cue in it"),
        ("bad.vtt", "WEBVTT\n\n0x:00.000 --> 00:01.000\na", "the times of its 1 cues cannot be read"),
        ("binary.sbv", bytes(range(256)) * 40, "there is no cue in it"),
        ("large.vtt", b"", f"large.vtt has {LARGEST_FILE * 2.5 / 1e6:.1f} MB; at most 20 MB are read"),
    ],
)
def test_a_file_that_is_no_use_says_why(tmp_path: Path, name: str, data: bytes | str, why: str) -> None:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    if name == "large.vtt":
        os.truncate(path, int(LARGEST_FILE * 2.5))
    with pytest.raises(Permanent, match=why):
        done(None, lambda one: one.load(Entry(f"subtitles:{name}", f"subtitles:{name}"), None), files=str(tmp_path))


def test_a_file_that_is_gone_is_nothing_and_no_path_leads_out(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nsecret\n")

    async def load(one: YouTubeSource, name: str) -> Any:
        return (await one.load(Entry(f"subtitles:{name}", name), None)).document

    assert done(None, lambda one: load(one, "gone.vtt"), files=str(tmp_path / "in")) is None
    with pytest.raises(Permanent, match="is no path within"):
        done(None, lambda one: load(one, "../out.vtt"), files=str(tmp_path / "in"))


def recording(name: str) -> bytes:
    path = SHARED / "youtube" / name
    if not path.is_file():
        pytest.skip(f"transcripts_captions/youtube/{name} is not here: set PENSTOCK_DATA to the folder that holds it")
    return path.read_bytes()


def test_a_recorded_video_is_read() -> None:
    answer = Answer(recording("youtube.innertube.json.static"))
    recorded = youtube(player=answer, timedtext=Answer(recording("transcript.xml.static")))
    consent = Answer(recording("youtube_consent_page.html.static"))
    recorded.answers["/watch"] = [consent, Answer(WATCH_PAGE)]
    document = loaded(recorded, "GJLlxj_dtq8")
    assert document.text == (
        "Hey, this is just a test this is not the original transcript just something shorter, I made up for testing"
    )
    assert [mark.position["start"] for mark in document.marks] == [0, 1.54, 5.7]
    assert document.title and document.title != "GJLlxj_dtq8" and document.metadata["duration"] == 316
    assert (document.metadata["language"], document.metadata["generated"]) == ("en", False)
    assert recorded.paths == ["/watch", "/watch", "/youtubei/v1/player", "/api/timedtext"]
    assert recorded.asked[1].headers["Cookie"].startswith("CONSENT=YES+")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("youtube_transcripts_disabled.innertube.json.static", f"has no subtitles: {INSTEAD}"),
        ("youtube_video_unavailable.innertube.json.static", "is not available"),
    ],
)
def test_recorded_refusals_are_told(name: str, why: str) -> None:
    with pytest.raises(Permanent, match=why):
        loaded(youtube(player=Answer(recording(name))))
