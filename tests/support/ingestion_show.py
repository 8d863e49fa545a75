"""Knowledge bases as a person sees them: a handbook, papers of which one cannot be read, what was said in a film, and a
large one in the middle of its work. Everything is really ingested by the service that shows it, with the local
embedder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock import Penstock
from penstock.pipelines.ingestion.samples import make_corpus, make_pdfs, make_site
from tests.support.served import Served

ENVIRON = {"PENSTOCK_INGESTION__GROUP": "4", "PENSTOCK_LOG__LEVEL": "warning"}
"""Small groups: a run that is watched takes its time."""

FILM = (
    (0, "Welcome to the pump house. Today we open the valve that nobody has opened in forty years."),
    (64, "The wheel turns to the left. If it does not, put oil on the spindle and wait for an hour."),
    (131, "Now you hear the water. The gauge should rise to four bar and stay there."),
    (3725, "That is all for today. Close the hatch, and write the reading into the book."),
)

app = Penstock()
"""What such a service runs: nothing but the pipelines that come with Penstock."""


def fill(up: Served, *, pages: int = 24, papers: int = 1, corpus: int = 240) -> None:
    """When this returns, all but `archive` are complete; that one is paused in the middle."""
    folder = up.folder
    make_site(folder / "docs", pages=pages)
    make_pdfs(folder / "papers", count=papers)
    (folder / "papers" / "water-rights-1911.pdf").write_bytes(b"%PDF-1.4\nthis file was cut off")
    make_corpus(folder / "archive", documents=corpus, words=120)
    subtitles(folder / "films" / "the-old-valve.en.vtt")
    start(up, "archive", {"type": "markdown", "path": "archive"}, chunker={"size": 60, "overlap": 10})
    start(up, "handbook", {"type": "markdown", "path": "docs"}, prune=True)
    start(up, "papers", {"type": "pdf", "path": "papers"}, chunker={"name": "sentence", "size": 200, "overlap": 40})
    start(up, "films", {"type": "youtube", "files": ["films"]}, chunker={"size": 32, "overlap": 0})
    up.until(lambda: status(up, "archive")["counters"]["docs_seen"] > corpus // 3, "a third of the archive")
    up.post("/jobs/archive/pause")
    until(up, "archive", "paused")
    for name in ("handbook", "papers", "films"):
        until(up, name, "completed")


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
