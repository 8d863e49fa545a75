"""Where documents come from, as people name it: each folder, file and address a source of its own, so that what is
known of it stays known whatever else is named beside it. Paths are made absolute: a worker may stand elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from penstock.cli.ingest_options import Given
from penstock.engine.errors import InvalidRequest
from penstock.pipelines.ingestion.sources import OTHER_PATHS, PATHS

_ADDRESS = re.compile(r"https?://", re.I)
_PLAYLIST = re.compile(r"(?:PL|UU|FL|OL|LL|RD|TL|EC|UL)[\w-]{8,}\Z")
"""How the ids of playlists begin: any other word is a mistake."""


def sources_of(said: Given) -> list[dict[str, Any]]:
    """Empty where none was named. What is not there, or makes no sense together, is refused."""
    _check_together(said)
    return [*_files(said), *_web(said), *(_own(text) for text in said.source)]


def _check_together(said: Given) -> None:
    for name, value in (("--prefix", said.prefix), ("--max-pages", said.max_pages), ("--delay", said.delay)):
        if value is not None and not said.website:
            raise click.UsageError(f"{name} is for --website")
    if said.language and not said.youtube:
        raise click.UsageError("--language is for --youtube")


def _files(said: Given) -> Iterator[dict[str, Any]]:
    from penstock.pipelines.ingestion.sources import markdown, pdf

    for path in said.markdown:
        yield {"type": "markdown", "path": _filled("--markdown", path, markdown.ENDINGS)}
    for path in said.pdf:
        if _ADDRESS.match(path):
            yield {"type": "pdf", "urls": [path]}
        else:
            yield {"type": "pdf", "path": _filled("--pdf", path, pdf.ENDINGS)}


def _web(said: Given) -> Iterator[dict[str, Any]]:
    wishes = {"prefix": said.prefix, "max_pages": said.max_pages, "delay": said.delay}
    for url in said.website:
        if not _ADDRESS.match(url):
            raise click.UsageError(f"--website: {url!r} is no address: it begins with https:// or http://")
        yield {"type": "website", "url": url, **{name: value for name, value in wishes.items() if value is not None}}
    from penstock.pipelines.ingestion.sources.youtube import KINDS

    languages = {"languages": list(said.language)} if said.language else {}
    for text in said.youtube:
        yield {"type": "youtube", **_video_or_playlist(text), **languages}
    for path in said.subtitles:
        yield {"type": "youtube", "files": [_filled("--subtitles", path, tuple(KINDS))]}


def _video_or_playlist(text: str) -> dict[str, list[str]]:
    from penstock.pipelines.ingestion.sources.youtube import playlist_id, video_id

    if (video := video_id(text)) is not None:
        return {"ids": [video]}
    if (playlist := playlist_id(text)) is not None and _PLAYLIST.match(playlist):
        return {"playlists": [playlist]}
    raise click.UsageError(
        f"--youtube: {text!r} is neither a video nor a playlist: give an id, or an address at youtube.com or youtu.be"
    )


def there(option: str, path: str) -> str:
    """The absolute path; refused where nothing is there."""
    if _ADDRESS.match(path):
        raise click.UsageError(f"{option}: {path} is an address, not a folder or a file: --website reads sites")
    if not Path(path).exists():
        raise InvalidRequest(f"{option}: there is no folder or file {path}")
    # A link keeps its name: what it leads to may be another folder tomorrow. But `link/..` is not where it seems to be.
    whole = Path(path).absolute()
    return str(whole.resolve() if ".." in whole.parts else whole)


def _filled(option: str, path: str, endings: Sequence[str]) -> str:
    """The absolute path; refused where it is a folder without a single file of that kind. What cannot be looked at is
    left to the run, which says why."""
    from penstock.engine.errors import StepError
    from penstock.pipelines.ingestion.sources.folders import Folder
    from penstock.pipelines.ingestion.sources.patterns import ending

    whole = there(option, path)
    if not Path(whole).is_dir():
        return whole
    try:
        first = next(Folder(Path(whole), ending(endings)).walk(None), None)
    except StepError:
        return whole
    if first is None:
        *some, last = endings
        names = f"{', '.join(some)} or {last}" if some else last
        raise InvalidRequest(f"{option}: there is no {names} file in {path} or below it (what is hidden is left out)")
    return whole


def _own(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise click.UsageError(f"--source is not JSON: {error.msg.lower()} at column {error.colno}") from error
    except RecursionError as error:
        raise click.UsageError("--source is nested too deeply") from error
    if not isinstance(found, dict) or not isinstance(found.get("type"), str):
        raise click.UsageError("""--source must be an object with a type: '{"type": "markdown", "path": "docs"}'""")
    for name in PATHS.get(found["type"], OTHER_PATHS):
        value = found.get(name)
        if isinstance(value, str):
            found[name] = _named(found["type"], name, value)
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            found[name] = [_named(found["type"], name, each) for each in value]
    return found


def _named(kind: str, name: str, path: str) -> str:
    """What a type of somebody else calls a path need not be one of this machine."""
    return there(f"--source: {name}", path) if kind in PATHS or Path(path).exists() else path
