"""Pages of the web as articles: what is kept and how, what a page says of itself, and what hostile pages cannot do."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import ingestion_articles
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.paper.unreadable import Unreadable
from penstock.pipelines.ingestion.chunking import chunked
from penstock.pipelines.ingestion.model import ChunkerSpec, Document
from penstock.pipelines.ingestion.sources.html import LARGEST, Article, article
from penstock.pipelines.ingestion.sources.html_child import read_html
from penstock.remote.pool import PoolLimits, ProcessPool

URL = "http://site.test/docs/page.html"
SHARED = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data"))

PARAGRAPH = (
    "The committee met on Tuesday for the third time this month, and again it could not agree on how the river should"
    " be crossed, although everybody had read the report that the engineers had written in the spring, and nobody had"
    " anything to say against it."
)
OTHER = (
    "A bridge would be dearer than a ferry for the first nine years, the report says, and cheaper from then on; a"
    " tunnel was never looked at, since the ground is known to be sand for as deep as anybody has ever drilled there."
)


def read(page: str | bytes, *, url: str = URL, charset: str | None = None) -> Article:
    data = page if isinstance(page, bytes) else page.encode()
    _, (told,) = read_html({"url": url, "charset": charset}, [data])
    found: dict[str, Any] = json.loads(told)
    return Article(**{**found, "links": tuple(found.get("links", ()))})


def text_of(body: str) -> str:
    return read(f"<html><body><main>{body}</main></body></html>").text


def test_an_article_is_kept_and_what_is_around_it_is_not() -> None:
    found = read(
        f"""<!DOCTYPE html><html lang="en-GB"><head><title>No bridge yet | The Courier</title>
        <meta property="og:site_name" content="The Courier"><meta name="author" content="Ada Byron">
        <meta property="article:published_time" content="2024-03-05T08:00:00Z"></head><body>
        <nav><ul><li><a href="/">Home</a></li><li><a href="/sport">Sport</a></li></ul></nav>
        <article><h1>No bridge yet</h1><p>{PARAGRAPH}</p><h2>What it costs</h2><p>{OTHER}</p>
        <ul><li>a ferry takes nine minutes and forty cars</li><li>a bridge takes one minute</li></ul>
        <p>{PARAGRAPH[::-1]}</p></article>
        <aside><h3>Most read</h3><a href="/a">Dog bites man in the park, and man bites back</a></aside>
        <footer>Copyright The Courier, all rights reserved</footer></body></html>"""
    )
    assert found.text.startswith(f"# No bridge yet\n\n{PARAGRAPH}\n\n## What it costs\n\n{OTHER}")
    assert "- a ferry takes nine minutes and forty cars\n- a bridge takes one minute" in found.text
    assert not [word for word in ("Sport", "Most read", "Dog bites", "Copyright") if word in found.text]
    assert (found.title, found.language, found.published) == ("No bridge yet", "en-GB", "2024-03-05")
    assert (found.author, found.site) == ("Ada Byron", "The Courier")
    assert found.links == ("http://site.test/", "http://site.test/sport", "http://site.test/a")


API = """<html><head><title>river — Bridges 1.2</title></head><body>
<header><a href="/">Bridges</a><input type="search"></header>
<div class="sidebar"><ul><li><a href="a.html">ford</a></li><li><a href="b.html">ferry</a></li></ul></div>
<main><h1>river<a class="headerlink" href="#river">¶</a></h1>
<dl><dt><code>cross(bank, *, by="ferry")</code><a href="#cross">§</a></dt>
<dd>Goes over. <code>bank</code> is a side.</dd><dt><code>swim()</code></dt><dd>Only in summer.</dd></dl>
<div class="highlight-python"><pre><span class="linenos">1</span><span>def</span> f():
<span class="linenos">2</span>    # not a heading
<span class="linenos">3</span>    return <span>"<b>"</span></pre></div>
<table><thead><tr><th>option</th><th>means</th></tr></thead>
<tr><td><code>by</code></td><td>a|b</td></tr><tr><td>fast</td><td><p>in <em>a</em> hurry</p></td></tr></table>
<p>See <code>ford()</code>, <kbd>Ctrl</kbd>.</p>
<div class="breadcrumbs">Bridges / river</div></main>
<footer>Built with tools</footer></body></html>""".replace('"<b>"', "&quot;&lt;b&gt;&quot;")


def test_documentation_is_kept_whole() -> None:
    found = read(API)
    assert found.title == "river"
    assert found.text == (
        '# river\n\n`cross(bank, *, by="ferry")`\n\nGoes over. `bank` is a side.\n\n`swim()`\n\nOnly in summer.\n\n'
        '```python\ndef f():\n    # not a heading\n    return "<b>"\n```\n\n'
        "| option | means |\n| --- | --- |\n| `by` | a\\|b |\n| fast | in a hurry |\n\nSee `ford()`, `Ctrl`."
    )


def test_headings_are_what_the_chunker_goes_by() -> None:
    page = "<h1>River</h1><p>one</p><h2>Ford</h2><pre># no heading\nford()</pre><p># nor this</p><p>a<br>---</p>"
    text = text_of(page + "<pre>1</pre><pre>2</pre><pre>3</pre><pre>4</pre>" + f"<p>{PARAGRAPH}</p>" * 2)
    document = Document(uri="u", title="t", text=text, format="markdown")
    chunks = chunked(document, ChunkerSpec(size=60, overlap=0))
    assert {tuple(chunk.position["headings"]) for chunk in chunks} == {("River",), ("River", "Ford")}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Nothing but a line.", "Nothing but a line."),
        ("<p>a<br>b<br><br>c</p>", "a\nb\n\nc"),
        ("<ul><li>a<ul><li>b</li><li>c</li></ul></li><li><p>d</p><p>e</p></li></ul>", "- a\n  - b\n  - c\n- d\n\n  e"),
        ("<ol start=3><li>a<pre>x\n y</pre></li><li>b</li></ol>", "3. a\n\n   ```\n   x\n    y\n   ```\n4. b"),
        ("<ul><li><h3>A</h3><p>a</p></li><li><h3>B</h3><p>b</p></li></ul>", "### A\n\na\n\n### B\n\nb"),
        ("before<blockquote><p>a</p><p>b</p></blockquote>after", "before\n\n> a\n>\n> b\n\nafter"),
        ("<h2>a <div>b</div>\n c</h2>", "## a b c"),
        ("<h2>a<p>b</p>c", "## a\n\nb\n\nc"),
        ("<p># a</p><p>```</p><p>a<br>===</p><p>&lt;div&gt;</p>", "\\# a\n\n\\```\n\na\n\\===\n\n\\<div>"),
        ("<p>soft\u00adhy\u200bphen\u00a0and   blanks</p>", "softhyphen and blanks"),
        ("<p><code>a`b</code> <code> </code><code>c</code>d</p>", "`` a`b `` `c`d"),
        ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
        ("<pre><code class='language-rust'>a<br>b</code></pre>", "```rust\na\nb\n```"),
        ("<pre><div>a</div><div>b</div></pre>", "```\na\nb\n```"),
        ("<pre class='line-numbers'><span class=lineno>1</span>a <span class=lineno>x</span></pre>", "```\na x\n```"),
        ("<pre><h2>a</h2><p>b</p></pre>", "## a\n\nb"),
        ("<table><tr><td><pre>1\n2</pre></td><td><pre>a\nb</pre></td></tr></table>", "```\na\nb\n```"),
        ("<table><tr><td><h2>a</h2></td><td>b</td></tr></table>", "## a\n\nb"),
        ("<table><tr><td>a</td></tr><tr><td>b</td></tr></table>", "a\n\nb"),
        ("<table><caption>t</caption><tr><th>a<th>b<tr><td>c</table>", "t\n\n| a | b |\n| --- | --- |\n| c |  |"),
        (
            "<table><tr><td><table><tr><td>a<td>b<tr><td>c<td>d</table><td>e</table>",
            "| a | b |\n| --- | --- |\n| c | d |\n\ne",
        ),
        ("<details><summary>more</summary>a</details>", "more\n\na"),
        ("<figure><img alt=x><figcaption>a</figcaption></figure>", "a"),
        ("<p>a<script>b</script><style>c</style><noscript>d</noscript><svg><title>e</title></svg>f</p>", "af"),
        ("<p hidden>a</p><p style='display: none'>b</p><p aria-hidden=true>c</p><p>d</p>", "d"),
        ("<div role=tabpanel hidden>a</div><p>b</p>", "a\n\nb"),
        ("<section><header><h2>a</h2></header>b</section>c", "## a\n\nb\n\nc"),
        ("<aside>a note</aside><aside class=sidebar>b</aside>c", "a note\n\nc"),
        ("<div class='has-sidebar'><p>a b c</p><ul class=pagination><li>1</ul></div>", "a b c"),
    ],
)  # fmt: skip
def test_html_becomes_markdown(body: str, text: str) -> None:
    assert text_of(body) == text


def test_code_within_an_article_comes_back_as_it_was() -> None:
    code = "<figure><pre><code>if a &lt; b:\n    c()</code></pre><figcaption>Listing 1</figcaption></figure>"
    found = read(f"<html><body><div><h1>T</h1><p>{PARAGRAPH}</p>{code}<p>{OTHER}</p></div></body></html>").text
    assert f"{PARAGRAPH}\n\n```\nif a < b:\n    c()\n```\n\nListing 1\n\n{OTHER}" in found


def test_a_page_that_hides_everything_is_still_read() -> None:
    assert read("<body><main aria-hidden=true><p>Words.</p></main></body>").text == "Words."


@pytest.mark.parametrize(
    "page",
    [
        "",
        "  \n ",
        "<!-- nothing -->",
        "<html></html>",
        "<script>var a = 'b'</script>",
        "<body><noscript>Please enable JavaScript</noscript><div id=app></div></body>",
        "<?xml version='1.0' encoding='utf-8'?>",
        "<frameset><frame src=a></frameset>",
    ],
)
def test_a_page_without_text_is_empty(page: str) -> None:
    assert read(page).text == ""


def test_links_are_absolute_and_in_order() -> None:
    found = read(
        """<head><base href="/other/"><meta http-equiv="Refresh" content="0; URL='moved.html'"></head><body>
        <a href="b.html#part">b</a><a href=" a.html ">a</a><a href="b.html">again</a>
        <a href="//else.test/x?y=1&amp;z">e</a>
        <a href="#top">top</a><a href="c.html" rel="external NoFollow">c</a><a href="mailto:a@b.test">m</a>
        <a href="javascript:x()">j</a><a href="http://[bad">bad</a><a href="ftp://f.test/">f</a><a>none</a>
        <nav><a href="/nav">n</a></nav><map><area href="area"></map><iframe src="frame"></iframe>"""
    )
    assert found.links == (
        "http://site.test/other/moved.html",
        "http://site.test/other/b.html",
        "http://site.test/other/a.html",
        "http://else.test/x?y=1&z",
        "http://site.test/nav",
        "http://site.test/other/area",
        "http://site.test/other/frame",
    )


def test_a_page_that_only_leads_elsewhere_has_no_text() -> None:
    found = read(
        '<meta http-equiv="refresh" content="0;url=new.html#a"><p>Redirecting to <a href="new.html">new</a>...'
    )
    assert (found.text, found.links) == ("", ("http://site.test/docs/new.html",))


def test_links_have_an_end() -> None:
    found = read("".join(f"<a href=/{number}>x</a>" for number in range(6000)) + f"<a href=/{'x' * 3000}>y</a>")
    assert len(found.links) == 5000 and found.links[-1] == "http://site.test/4999"


@pytest.mark.parametrize(
    ("head", "canonical"),
    [
        ('<link rel="canonical" href="/a#b">', "http://site.test/a"),
        ('<link rel="alternate Canonical" href="https://site.test/b">', "https://site.test/b"),
        ('<base href="/x/"><link rel="canonical" href="c">', "http://site.test/x/c"),
        ('<link rel="canonical" href="javascript:a()">', None),
        ('<link rel="canonical" href="">', None),
        ('<link rel="next" href="/a">', None),
    ],
)
def test_the_canonical_address(head: str, canonical: str | None) -> None:
    assert read(f"<head>{head}</head><body>x</body>").canonical == canonical


@pytest.mark.parametrize(
    ("meta", "noindex", "nofollow"),
    [
        ("name=robots content=noindex", True, False),
        ('name="ROBOTS" content="NoArchive, NOFOLLOW"', False, True),
        ("name=robots content=none", True, True),
        ('name=penstock content="noindex,nofollow"', True, True),
        ("name=otherbot content=noindex", False, False),
        ("name=robots content=index", False, False),
    ],
)
def test_what_robots_are_asked(meta: str, noindex: bool, nofollow: bool) -> None:
    found = read(f"<head><meta {meta}></head><body>x</body>")
    assert (found.noindex, found.nofollow) == (noindex, nofollow)


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<title>A\n b</title><h1>C</h1>", "A b"),
        ("<title>Query | Docs</title><h1>Docs</h1><h1>Query<a href=#q>#</a></h1>", "Query"),
        ("<title>Query - Docs</title><meta property=og:title content=Query><h1>x</h1>", "Query"),
        ("<title>Queryable</title><h1>Query</h1>", "Queryable"),
        ("<h1>C <em>d</em></h1>", "C d"),
        ("<svg><title>icon</title></svg><p>x</p>", ""),
    ],
)
def test_the_title(page: str, title: str) -> None:
    assert read(page).title == title


@pytest.mark.parametrize(
    ("attributes", "head", "language"),
    [
        ("lang=de", "", "de"),
        ("lang=pt_BR", "", "pt-BR"),
        ("lang='not a language'", "", None),
        ("", "<meta http-equiv=Content-Language content='fr, en'>", "fr"),
        ("", "<meta property=og:locale content=en_US>", "en-US"),
        ("", "", None),
    ],
)
def test_the_language_that_a_page_declares(attributes: str, head: str, language: str | None) -> None:
    assert read(f"<html {attributes}><head>{head}</head><body>x</body></html>").language == language


SENTENCE = "Der Bär fraß süße Äpfel – für 5 €"
JAPANESE = (
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所でニャーニャー泣いていた事だけは記憶している。"
    "吾輩はここで始めて人間というものを見た。しかもあとで聞くとそれは書生という人間中で一番獰悪な種族であったそうだ。"
)


@pytest.mark.parametrize(
    ("text", "encoding", "meta", "charset"),
    [
        (SENTENCE, "utf-8", None, None),
        (SENTENCE, "utf-8", "utf-8", "iso-8859-1"),
        (SENTENCE, "utf-8", "latin1", "windows-1252"),
        (SENTENCE, "utf-8-sig", "latin1", None),
        (SENTENCE, "utf-16", None, None),
        (SENTENCE, "utf-16-be", "utf-8", None),
        (SENTENCE, "cp1252", "iso-8859-1", None),
        (SENTENCE, "cp1252", None, "ISO-8859-1"),
        (SENTENCE, "cp1252", "utf-8", "utf-8"),
        (SENTENCE, "cp1252", "no-such-thing", "rot13"),
        (JAPANESE, "shift_jis", "x-sjis", None),
        (JAPANESE, "euc_jp", "euc-jp", "iso-8859-1"),
        (JAPANESE, "iso2022_jp", "iso-2022-jp", None),
        (JAPANESE, "shift_jis", None, None),
        ("Было раннее утро, и город спал", "cp1251", "windows-1251", None),
        ("永和九年岁在癸丑暮春之初", "gbk", "gb2312", None),
    ],
)
def test_characters_are_read_whatever_is_declared(
    text: str, encoding: str, meta: str | None, charset: str | None
) -> None:
    declared = f'<meta charset="{meta}">' if meta else ""
    page = f"<html><head>{declared}</head><body><p>{text}</p></body></html>".encode(encoding)
    assert read(page, charset=charset).text == text


def test_a_page_with_a_few_bad_bytes_is_still_utf_8() -> None:
    page = f"<p>{SENTENCE} {SENTENCE}".encode() + b"\xff \xc3</p>"
    assert read(page).text == f"{SENTENCE} {SENTENCE}\ufffd \ufffd"


@pytest.mark.parametrize("data", [random.Random(7).randbytes(5000), b"%PDF-1.7\n" + random.Random(8).randbytes(5000)])
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match=f"{URL} is no HTML"):
        read(data)


SOUP = (
    "<a ", "href=x", "<p>", "</p>", "<table>", "<td>", "<tr>", "<pre>", "</pre>", "<li>", "<ul>", "</ul>", "<h1>",
    "</h1>", "<code>", "</code>", "<br>", "<blockquote>", "<dl>", "<dt>", "&", "<", ">", '"', "'", "x", "\0", "\n",
    "¶", "`",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(SOUP),
        max_size=60,
    )
)  # fmt: skip
def test_no_soup_of_tags_makes_an_error(parts: list[str]) -> None:
    found = read("".join(parts))
    assert "\0" not in found.text and "\ufdd0" not in found.text


HOSTILE = {
    "nested": b"<div>" * 100_000 + b"deep" + b"</div>" * 100_000 + b"<p>after</p>",
    "attributes": b"<p " + b" ".join(b'a%d="<"' % number for number in range(50_000)) + b">deep</p><p>after</p>",
    "one attribute": b'<p title="' + b"x" * 3_000_000 + b'">deep</p><p>after</p>',
    "tables": b"<table><tr><td>" * 20_000 + b"deep",
    "holes": b"<table><tr>" + b"<td>deep" * 1000 + b"<tr><td>after" * 4000,
    "spans": b"<table><tr><td colspan=100 rowspan=100>deep" + b"<tr><td colspan=100 rowspan=100>after" * 4000,
    "unclosed": b"<p><b>deep" * 3000 + b"after",
    "broken": b"<p><x:y <<>< = \"' >deep</z></p <p>after",
    "zeros": b"\0" * 100 + b"<p>de\0ep</p><p>aft\0er",
    "entities": b'<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><p>deep after &d;',
    "json": b'<script type="application/ld+json">' + b"[" * 100_000 + b"</script><p>deep after",
    "comments": b"deep after" + b"<!--" * 100_000,
    "brackets": b"<a<" * 100_000 + b">deep after",
}


def test_hostile_pages_end_in_time_and_do_not_harm_the_others() -> None:
    small = PoolLimits(seconds=60, memory_mb=512)

    async def scenario() -> None:
        async with ProcessPool(workers=1) as pool:
            for name, page in HOSTILE.items():
                found = await article(pool, page, url=URL, limits=small)
                assert name in ("tables", "brackets") or ("deep" in found.text and "after" in found.text), name
            with pytest.raises(Unreadable, match="is no HTML"):
                await article(pool, b"\x89PNG\r\n\x1a\n" + bytes(range(1, 32)) * 9, url=URL)
            with pytest.raises(Unreadable, match="at most 16 MB"):
                await article(pool, b"<p " + b"a " * (LARGEST // 2) + b">", url=URL)
            assert await article(pool, b"", url=URL) == Article()
            found = await article(pool, f"<title>a</title><a href=b>{SENTENCE}</a>".encode("cp1252"), url=URL)
            assert (found.title, found.text, found.links) == ("a", SENTENCE, ("http://site.test/docs/b",))
            with pytest.raises(Unreadable, match=r"takes longer to read than it may \(0.001 s\)"):
                await article(pool, HOSTILE["nested"], url=URL, limits=PoolLimits(seconds=0.001))

    asyncio.run(scenario())


def test_the_process_that_asks_does_not_load_the_parsers() -> None:
    code = (
        "import sys, penstock.pipelines.ingestion.sources.html\n"
        "print(sorted({'lxml', 'trafilatura', 'dateparser', 'charset_normalizer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("name", "least"), [("aeb", 0.93), ("readability", 0.92)])
def test_articles_of_real_pages(name: str, least: float) -> None:
    if not (SHARED / "web_articles").is_dir():
        pytest.skip("web_articles is not here: set PENSTOCK_DATA to the folder that holds it")
    score = ingestion_articles.scored(ingestion_articles.SETS[name](SHARED / "web_articles"))
    print(f"{name}: precision {score.precision:.3f}, recall {score.recall:.3f}, F1 {score.f1:.3f}")
    assert score.f1 >= least


def test_the_score_counts_runs_of_four_words() -> None:
    assert ingestion_articles.compared("a b c d e", "a b c d x") == (0.5, 0.5)
    assert ingestion_articles.compared("a b", "A, b!") == (0.0, 0.0)
    assert ingestion_articles.compared("a b c", "") == (None, 0.0)
