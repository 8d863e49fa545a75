"""A small documentation site as a folder of Markdown, with questions whose answers stand on one page each. The same
arguments give the same files."""

from __future__ import annotations

import os
import posixpath
import random
import re
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import yaml

from penstock.engine.errors import InvalidRequest
from penstock.outputs.files import quick_write
from penstock.pipelines.ingestion.samples.families import families
from penstock.pipelines.ingestion.samples.guides import GUIDES
from penstock.pipelines.ingestion.samples.manual import MANUAL
from penstock.pipelines.ingestion.samples.topics import Topic

PRODUCT = "Larkmill"

MADE = 1_735_725_600
"""When the samples say they were written (2025): long enough ago for a file's time to be trusted."""

_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+\.md)\)")


@dataclass(frozen=True, slots=True)
class SitePage:
    """`path` is relative to the site's folder, `url_path` where the page is on the website."""

    path: str
    title: str
    url_path: str


@dataclass(frozen=True, slots=True)
class Question:
    """`answer` stands word for word on the page, and on no other page beside what is asked for."""

    text: str
    answer: str
    page: str


@dataclass(frozen=True, slots=True)
class Site:
    folder: Path
    pages: tuple[SitePage, ...]
    questions: tuple[Question, ...]


def make_site(folder: Path, *, pages: int = 24, seed: int = 7) -> Site:
    """So many pages, the first of which leads to all others."""
    rng = random.Random(f"site:{seed}")
    topics = _chosen(rng, pages - 1)
    there = {topic.path for topic in topics}
    made, questions = [SitePage("index.md", f"{PRODUCT} documentation", "/")], []
    written(folder / "index.md", _index(topics))
    for place, topic in enumerate(topics):
        facts = {name: rng.choice(choices) for name, choices in topic.facts.items()}
        body = topic.body.format(**facts) if facts else topic.body
        day = date(2025, 1, 6) + timedelta(days=rng.randrange(300))
        head = {"title": topic.title, "tags": list(topic.tags), "date": day, "order": place + 1}
        told = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
        text = f"---\n{told}---\n\n# {topic.title}\n\n{_with_links(topic.path, body, there)}"
        written(folder / topic.path, text.encode())
        made.append(SitePage(topic.path, topic.title, url_path(topic.path)))
        questions += [
            Question(asked.format(**facts), answer.format(**facts), topic.path) for asked, answer in topic.asks
        ]
    return Site(folder, tuple(made), tuple(questions))


def url_path(path: str) -> str:
    """Where a page is on the website: `guides/alarms.md` is `/guides/alarms/`."""
    stem = "/" + path.removesuffix(".md")
    return stem.removesuffix("index") if stem.endswith("/index") else f"{stem}/"


def written(path: Path, content: bytes) -> None:
    """A file that is as old as all samples."""
    quick_write(path, content)
    os.utime(path, (MADE, MADE))


def _chosen(rng: random.Random, count: int) -> list[Topic]:
    """Two pages of their own kind, then one of a family, as long as there are any."""
    own, many = [*GUIDES, *MANUAL], families(rng)
    if not 1 <= count <= len(own) + len(many):
        raise InvalidRequest(f"pages must be from 2 to {len(own) + len(many) + 1}, not {count + 1}")
    chosen: list[Topic] = []
    while len(chosen) < count:
        chosen += [*own[:2], *many[:1]]
        del own[:2], many[:1]
    return chosen[:count]


def _index(topics: list[Topic]) -> bytes:
    lines = [
        "---",
        f"title: {PRODUCT} documentation",
        "---",
        "",
        f"# {PRODUCT} documentation",
        "",
        f"{PRODUCT} is a controller for greenhouses: it waters, airs, shades and warns, and writes down why.",
    ]
    for section in sorted({topic.path.split("/")[0] for topic in topics}):
        lines += ["", f"## {section.capitalize()}", ""]
        lines += [f"- [{topic.title}]({topic.path})" for topic in topics if topic.path.startswith(f"{section}/")]
    return ("\n".join(lines) + "\n").encode()


def _with_links(path: str, body: str, there: set[str]) -> str:
    """A small site does not have every page that is spoken of: then the words stay, without the link."""

    def kept(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[2]))
        return found[0] if target in there else found[1]

    return _LINK.sub(kept, body)
