"""Knowledge bases as a person sees them: a handbook, papers of which one cannot be read, what was said in a film, and a
large one in the middle of its work. Everything is really ingested by the service that shows it, with the local
embedder, which can be told to wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.pipelines.ingestion.samples import make_corpus, make_pdfs, make_site
from tests.support.ingestion_hold import HOLD
from tests.support.served import Served

APP = "tests.support.ingestion_patient:app"

ENVIRON = {"PENSTOCK_INGESTION__GROUP": "4"}

FILM = (
    (0, "Welcome to the pump house. Today we open the valve that nobody has opened in forty years."),
    (64, "The wheel turns to the left. If it does not, put oil on the spindle and wait for an hour."),
    (131, "Now you hear the water. The gauge should rise to four bar and stay there."),
    (3725, "That is all for today. Close the hatch, and write the reading into the book."),
)


@contextmanager
def held(up: Served, name: str, texts: int) -> Iterator[None]:
    """While this lasts, so many texts are embedded and no more."""
    up.write(HOLD, f"{name} {texts}")
    try:
        yield
    finally:
        (up.folder / HOLD).unlink()


def fill(up: Served, *, pages: int = 24, papers: int = 0, corpus: int = 160) -> None:
    """When this returns, all but `archive` are complete; that one is paused in the middle. Reading PDFs takes seconds:
    without `papers` they are texts."""
    folder = up.folder
    make_site(folder / "docs", pages=pages)
    (folder / "papers").mkdir()
    if papers:
        make_pdfs(folder / "papers", count=papers)
    else:
        (folder / "papers" / "water-rights-1908.md").write_text("# Water rights\n\nThe mill has the first right.")
    cut_off = "water-rights-1911.pdf" if papers else "water-rights-1911.md"
    (folder / "papers" / cut_off).write_bytes(b"%PDF-1.4\n\0\1\2\3 this file was cut off")
    make_corpus(folder / "archive", documents=corpus, words=120)
    subtitles(folder / "films" / "the-old-valve.en.vtt")
    begun(up, "archive", corpus)
    start(up, "handbook", {"type": "markdown", "path": "docs"}, prune=True)
    kind = "pdf" if papers else "markdown"
    start(up, "papers", {"type": kind, "path": "papers"}, chunker={"name": "sentence", "size": 200, "overlap": 40})
    start(up, "films", {"type": "youtube", "files": ["films"]}, chunker={"size": 32, "overlap": 0})
    for name in ("handbook", "papers", "films"):
        until(up, name, "completed")


def begun(up: Served, name: str, texts: int) -> None:
    """A run over the archive that is paused after so many of its chunks."""
    with held(up, name, texts):
        start(up, name, {"type": "markdown", "path": "archive"}, chunker={"size": 60, "overlap": 10})
        up.until(lambda: status(up, name)["counters"]["docs_seen"] > 0, f"documents of {name}")
        up.post(f"/jobs/{name}/pause")
    until(up, name, "paused")


def subtitles(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cues = [f"{_clock(at)} --> {_clock(at + 9)}\n{said}\n" for at, said in FILM]
    path.write_text("WEBVTT\n\n" + "\n".join(cues))


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.000"


def start(up: Served, name: str, source: dict[str, Any], **more: Any) -> None:
    up.post(f"/jobs/{name}/start", {"sources": [source], **more})


def status(up: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = up.get(f"/ingestion/jobs/{name}/status")
    return found


def until(up: Served, name: str, *wanted: str) -> None:
    up.until(lambda: status(up, name)["status"] in wanted, f"{name} to be {' or '.join(wanted)}")
