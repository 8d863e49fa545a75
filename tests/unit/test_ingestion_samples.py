"""The samples of ingestion: what a question is answered with stands on its page, the website has what the files have,
and everything is the same every time."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pypdfium2 as pdfium
import pytest
import yaml

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.ingestion.samples import Site, make_corpus, make_pdfs, make_site, render_html
from penstock.pipelines.ingestion.samples.websites import PRIVATE

MOST = 73


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """All pages that there are."""
    return make_site(tmp_path_factory.mktemp("site"), pages=MOST)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def plain(text: str) -> str:
    return " ".join(text.split())


def words(text: str) -> list[str]:
    return re.findall(r"[\w-]+", text.lower())


def ranked(question: str, pages: Mapping[str, Counter[str]]) -> list[str]:
    """The pages, best first, by how seldom the words are that they share with the question (BM25)."""
    length = sum(page.total() for page in pages.values()) / len(pages)
    scores = dict.fromkeys(pages, 0.0)
    for word in set(words(question)):
        having = sum(word in page for page in pages.values())
        seldom = math.log(1 + (len(pages) - having + 0.5) / (having + 0.5))
        for path, page in pages.items():
            times = page[word]
            scores[path] += seldom * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * page.total() / length))
    return sorted(pages, key=lambda path: -scores[path])


class Reader(HTMLParser):
    """The words of the article, the links of the page, and whether the tags fit."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.article: list[str] = []
        self.links: list[str] = []
        self._open: list[str] = []
        self.feed(page.decode())
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "input", "li"):
            self._open.append(tag)
        self.links += [str(value) for name, value in attrs if name == "href"]

    def handle_endtag(self, tag: str) -> None:
        if tag != "li":
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "article" in self._open:
            self.article.append(data)


def test_the_same_seed_gives_the_same_files_and_another_gives_others(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        make_site(tmp_path / name / "site", pages=12, seed=seed)
        make_pdfs(tmp_path / name / "pdfs", count=2, seed=seed)
        make_corpus(tmp_path / name / "corpus", documents=5, seed=seed)
    one, two, other = (files(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two and one != other and len(one) == 12 + 2 + 5
    assert make_site(tmp_path / "one" / "site", pages=12, seed=3).pages, "made again over itself"


def test_a_larger_site_has_the_pages_of_a_smaller_one(tmp_path: Path, site: Site) -> None:
    small = make_site(tmp_path, pages=9)
    assert len(small.pages) == 9 and site.pages[:9] == small.pages
    assert site.questions[: len(small.questions)] == small.questions
    for wrong in (1, MOST + 1):
        with pytest.raises(InvalidRequest, match=f"pages must be from 2 to {MOST}, not {wrong}"):
            make_site(tmp_path, pages=wrong)


def test_every_answer_stands_on_its_page_and_the_question_leads_there(site: Site) -> None:
    texts = {page.path: (site.folder / page.path).read_text() for page in site.pages}
    counted = {path: Counter(words(text)) for path, text in texts.items()}
    firsts = 0
    for question in site.questions:
        assert question.answer in plain(texts[question.page]), question
        firsts += ranked(question.text, counted)[0] == question.page
    assert firsts >= 0.9 * len(site.questions)
    assert len(site.questions) == len({question.text for question in site.questions}) == 2 * (MOST - 1)


def test_pages_are_real_markdown_with_front_matter_and_links_that_lead_somewhere(site: Site) -> None:
    paths = {page.path for page in site.pages}
    linked: set[str] = set()
    for page in site.pages:
        text = (site.folder / page.path).read_text()
        _, front, body = text.split("---\n", 2)
        assert yaml.safe_load(front)["title"] == page.title and body.startswith(f"\n# {page.title}\n")
        assert "{" not in re.sub(r"```.*?```", "", body, flags=re.DOTALL), "a fact was not filled in"
        for target in re.findall(r"\]\(([^)]+)\)", body):
            linked.add(str(((site.folder / page.path).parent / target).resolve().relative_to(site.folder.resolve())))
    assert linked == paths - {"index.md"}
    whole = "".join((site.folder / path).read_text() for path in paths)
    assert all(mark in whole for mark in ("```console", "```yaml", "```python", "|---|", "\n> ", "\n1. ", "\n- "))


def test_the_website_says_what_the_files_say(site: Site) -> None:
    served = render_html(site, base="http://docs.example")
    assert set(served) == {*(page.url_path for page in site.pages), f"{PRIVATE}drafts/", "/sitemap.xml", "/robots.txt"}
    for page in site.pages:
        reader = Reader(served[page.url_path])
        assert set(reader.links) <= set(served)
        body = (site.folder / page.path).read_text().split("---\n", 2)[2]
        bare = re.sub(r"```\w*|\]\([^)]*\)|[-#*`|>\[\]]|^\d+\.", " ", body, flags=re.MULTILINE)
        said = re.sub(r"[-#*`|>\[\]]", " ", " ".join(reader.article))
        assert [word for word in words(bare) if not word.isdigit()] == [w for w in words(said) if not w.isdigit()]
    answers = {page.path: plain(" ".join(Reader(served[page.url_path]).article)) for page in site.pages}
    assert all(question.answer in answers[question.page] for question in site.questions)


def test_the_website_has_a_sitemap_a_robots_txt_and_follows_the_files(tmp_path: Path) -> None:
    small = make_site(tmp_path, pages=3)
    served = render_html(small, base="http://127.0.0.1:81")
    locations = [
        each.text for each in ElementTree.fromstring(served["/sitemap.xml"]).iter() if each.tag.endswith("loc")
    ]
    assert locations == [f"http://127.0.0.1:81{page.url_path}" for page in small.pages]
    assert served["/robots.txt"] == b"User-agent: *\nDisallow: /private/\nSitemap: http://127.0.0.1:81/sitemap.xml\n"
    (tmp_path / small.pages[1].path).write_text("# Changed\n\nBy <hand> & `code`.\n")
    again = render_html(small, base="http://127.0.0.1:81")
    assert [path for path in served if served[path] != again[path]] == [small.pages[1].url_path]
    assert b"<h1>Changed</h1>\n<p>By &lt;hand&gt; &amp; <code>code</code>.</p>" in again[small.pages[1].url_path]


def test_pdfs_have_their_answers_on_their_pages_and_one_scanned_page(tmp_path: Path) -> None:
    made = make_pdfs(tmp_path, count=4)
    assert [len(sample.scanned) for sample in made] == [0, 0, 1, 0] and len({sample.title for sample in made}) == 4
    for sample in made:
        with pdfium.PdfDocument(sample.path.read_bytes()) as document:
            assert len(document) == sample.pages and document.get_metadata_value("Title") == sample.title
            texts = [plain(document[number].get_textpage().get_text_range()) for number in range(sample.pages)]
        for question in sample.questions:
            there = question.answer in texts[question.page - 1]
            assert there == (question.page not in sample.scanned), question
        assert all(not texts[page - 1] for page in sample.scanned)
    assert make_pdfs(tmp_path / "one", count=1)[0].scanned
    for wrong in (0, 17):
        with pytest.raises(InvalidRequest, match="count must be from 1 to 16"):
            make_pdfs(tmp_path, count=wrong)


def test_a_corpus_is_as_many_different_files_as_were_asked_for(tmp_path: Path) -> None:
    paths = make_corpus(tmp_path / "many", documents=300, words=120)
    few = make_corpus(tmp_path / "few", documents=3, words=120)
    texts = [path.read_text() for path in paths]
    assert [path.read_text() for path in few] == texts[:3]
    assert len(set(texts)) == 300 and {path.parent.name for path in paths} == {"0000", "0001"}
    assert paths == sorted(paths) and all(path.stat().st_mtime < 1_800_000_000 for path in paths)
    assert 100 < sum(len(text.split()) for text in texts) / 300 < 180
    paragraphs = [part for text in texts for part in text.split("\n\n") if len(part) > 200]
    assert len(set(paragraphs)) == len(paragraphs)
    (long,) = make_corpus(tmp_path / "long", documents=1, words=5000)
    assert 4000 < len(long.read_text().split()) < 6000
    assert long.read_text().count("\n## ") > 5 and "\n- " in long.read_text()
    with pytest.raises(InvalidRequest, match="words at least 1"):
        make_corpus(tmp_path, documents=1, words=0)
