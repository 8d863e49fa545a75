"""`python -m bench.ingestion_articles [--worst]`: how much of the article, and how little else, is kept of real pages.

Scored as the article extraction benchmark does: the words of a page in runs of four, counted; precision and recall of
each page, their means over the pages, and F1 of the means. The truth of `aeb` is what people marked, as plain text, so
that signs of Markdown that count as words (the numbers of a list) cost a little. The truth of `readability` is what
Firefox's reader view keeps. Beside ours stand what trafilatura gives by itself and all of the text of the page. The
sets are not part of the repository.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trafilatura import extract, html2txt

from bench.table import table
from penstock.pipelines.ingestion.sources.html_child import read_html

DATA = Path(os.environ.get("PENSTOCK_DATA", "../shared/data")) / "web_articles"

WANTED = 0.93
"""F1 on `aeb`."""

RUN = 4
NOWHERE = "http://fakehost/test/page.html"
"""The address that the cases of `readability` are said to have."""

_WORD = re.compile(r"\w+")


class Missing(Exception):
    """There is nothing to measure with; the message says what is not there."""


@dataclass(frozen=True)
class Page:
    name: str
    body: bytes
    url: str
    truth: str


@dataclass
class Score:
    """Precision and recall of each page, and the seconds that each took."""

    pages: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return statistics.mean(one for one, _ in self.pages.values() if one is not None)

    @property
    def recall(self) -> float:
        return statistics.mean(other for _, other in self.pages.values() if other is not None)

    @property
    def f1(self) -> float:
        return 2 * self.precision * self.recall / (self.precision + self.recall)


def labelled(data: Path = DATA) -> Iterator[Page]:
    """Pages of `aeb`."""
    for name, told in json.loads(_there(data / "aeb" / "ground-truth.json").read_text()).items():
        body = gzip.decompress((data / "aeb" / "html" / f"{name}.html.gz").read_bytes())
        yield Page(name, body, told["url"], told["articleBody"])


def reader_view(data: Path = DATA) -> Iterator[Page]:
    """Cases of `readability`."""
    for folder in sorted(_there(data / "readability").iterdir()):
        if (folder / "source.html").is_file():
            truth = html2txt(f"<html><body>{(folder / 'expected.html').read_text()}</body></html>", clean=False)
            yield Page(folder.name, (folder / "source.html").read_bytes(), NOWHERE, truth)


SETS: dict[str, Callable[[Path], Iterator[Page]]] = {"aeb": labelled, "readability": reader_view}


def ours(page: Page) -> str:
    _, (told,) = read_html({"url": page.url}, [page.body])
    return str(json.loads(told).get("text", ""))


def library(page: Page) -> str:
    return extract(page.body, url=page.url, include_comments=False, output_format="markdown") or ""


def everything(page: Page) -> str:
    return html2txt(page.body, clean=False)


READERS = {"penstock": ours, "trafilatura alone": library, "all text": everything}


def scored(pages: Iterator[Page], reader: Callable[[Page], str] = ours) -> Score:
    score = Score()
    for page in pages:
        begun = time.perf_counter()
        found = reader(page)
        score.seconds.append(time.perf_counter() - begun)
        score.pages[page.name] = compared(page.truth, found)
    return score


def compared(truth: str, found: str) -> tuple[float | None, float | None]:
    """Precision and recall; None where the one or the other says nothing at all."""
    wanted, given = _runs(truth), _runs(found)
    both = (wanted & given).total()
    precision = both / given.total() if given else None
    recall = both / wanted.total() if wanted else None
    return precision, recall


def _runs(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    return Counter(tuple(words[at : at + RUN]) for at in range(max(1, len(words) - RUN + 1)) if words)


def _there(path: Path) -> Path:
    if not path.exists():
        raise Missing(f"there is no {path}: set PENSTOCK_DATA to the folder that holds web_articles")
    return path


def main(arguments: list[str]) -> int:
    lines: list[list[str]] = []
    reached: list[float] = []
    for name, pages in SETS.items():
        for label, reader in READERS.items():
            try:
                score = scored(pages(DATA), reader)
            except Missing as why:
                print(f"{name}: {why}", file=sys.stderr)
                return 2
            figures = [f"{value:.3f}" for value in (score.precision, score.recall, score.f1)]
            speed = f"{1000 * statistics.median(score.seconds):.0f}"
            lines.append([f"{name}: {label}", str(len(score.pages)), *figures, speed])
            if label == "penstock":
                reached.append(score.f1)
                if "--worst" in arguments:
                    _print_worst(name, score)
    print(table(["set: reader", "pages", "precision", "recall", "F1", "ms a page"], lines))
    return 1 if reached[0] < WANTED else 0


def _print_worst(name: str, score: Score) -> None:
    for page, (precision, recall) in sorted(score.pages.items(), key=lambda each: sum(v or 0.0 for v in each[1]))[:10]:
        print(f"  {name} {page[:40]}: precision {precision or 0:.2f}, recall {recall or 0:.2f}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
