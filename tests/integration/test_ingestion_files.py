"""Folders of Markdown and PDFs as sources: what is listed and in which order, what a file becomes, and that a hostile
or unreadable one is an error of its own and harms nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.errors import InvalidRequest, Permanent, Transient
from penstock.paper.text import as_prose, read_text
from penstock.pipelines.ingestion.model import Document, Entry, Known, SourceSpec, Unchanged
from penstock.pipelines.ingestion.plugins import Source
from penstock.pipelines.ingestion.samples import make_corpus, make_pdfs, make_site
from penstock.pipelines.ingestion.sources import front_matter, make_source
from penstock.pipelines.ingestion.sources.folders import FIRST, MOST_NAMED, NEXT, Folder, NamedFiles
from penstock.pipelines.ingestion.sources.markdown import MarkdownSource, decoded, first_heading
from penstock.pipelines.ingestion.sources.patterns import ending, matching
from penstock.pipelines.ingestion.sources.pdf import PdfReader, PdfSource, title_of
from penstock.remote.pool import PoolLimits, ProcessPool
from tests.support import hostile
from tests.support.house import START, HandClock
from tests.support.website import Reply, Site, tools

SHARED = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data"))
NOBODY = 65534


def source(type: str, pool: ProcessPool | None = None, **options: Any) -> Source:
    return make_source(SourceSpec(type=type, **options), tools(pool, clock=HandClock()))


async def listed(files: Source | Folder | NamedFiles, cursor: str | None = None) -> list[Entry]:
    return [entry async for entry in files.entries(cursor)]


async def document(source: Source, uri: str, known: Known | None = None) -> Document:
    found = (await source.load(Entry(uri, uri), known)).document
    assert isinstance(found, Document), found
    return found


def uris(folder: Path, **options: Any) -> list[str]:
    async def main() -> list[str]:
        return [entry.uri for entry in await listed(source("markdown", path=str(folder), **options))]

    return asyncio.run(main())


def one(folder: Path, name: str, content: bytes | str) -> Document:
    """What a file of this content becomes."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return asyncio.run(document(source("markdown", path=str(folder)), name))


def planted(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


# What is listed


def test_files_come_in_the_order_of_their_paths_parts_with_what_tells_a_change(tmp_path: Path) -> None:
    root = planted(tmp_path, "b.md", "a/z.md", "a.md", "a/b/c.markdown", "A.MD", "a/b.mdx", "notes.txt", "a-b/x.md")
    planted(root, "picture.png", ".hidden.md", ".git/x.md", "a/.cache/x.md")
    (root / "empty").mkdir()
    os.mkfifo(root / "pipe.md")
    os.utime(root / "b.md", ns=(1, 1_700_000_000_123_456_789))

    async def main() -> None:
        files = source("markdown", path=str(root))
        entries = await listed(files)
        order = ["A.MD", "a/b/c.markdown", "a/b.mdx", "a/z.md", "a-b/x.md", "a.md", "b.md", "notes.txt"]
        assert [entry.uri for entry in entries] == order
        assert [entry.fingerprint for entry in entries if entry.uri == "b.md"] == ["4:1700000000123456789"]
        assert await files.count() == 9, "about: a pipe has an ending, too"
        assert [entry.uri for entry in await listed(source("markdown", path=str(root), recursive=False))] == [
            "A.MD", "a.md", "b.md", "notes.txt",
        ]  # fmt: skip

    asyncio.run(main())


names = st.text(st.sampled_from("aB-.é/"), min_size=1, max_size=6).filter(
    lambda name: not any(part in ("", ".", "..") or part.startswith(".") for part in name.split("/"))
)


@settings(max_examples=40, deadline=None)
@given(tree=st.sets(names, max_size=12), cursor=names)
def test_any_cursor_goes_on_where_it_says(tree: set[str], cursor: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in tree:
            try:
                planted(root, name + ".md")
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
        files = Folder(root, ending((".md",)))
        every = [str(path.relative_to(root)) for path in root.rglob("*.md") if path.is_file()]
        order = sorted(every, key=lambda path: path.split("/"))
        for start in (None, cursor, f"{cursor}.md", *order):
            told = [entry.uri for entry in files.walk(start) if isinstance(entry, Entry)]
            assert told == [path for path in order if start is None or path.split("/") > start.split("/")]


def test_many_files_come_in_slices_and_a_start_in_the_middle_looks_at_little(tmp_path: Path) -> None:
    paths = make_corpus(tmp_path, documents=FIRST + NEXT + 30, words=5)
    flat = planted(tmp_path / "flat", *(f"{number:04}.md" for number in range(700)))

    async def main() -> None:
        files = source("markdown", path=str(tmp_path))
        entries = await listed(files)
        assert [tmp_path / entry.uri for entry in entries] == [*paths, *sorted(flat.iterdir())]
        assert len({entry.fingerprint for entry in entries[: len(paths)]}) >= len(paths) - 1
        for at in (0, FIRST - 1, FIRST, 600, len(entries) - 1):
            assert await listed(files, entries[at].cursor) == entries[at + 1 :]
        (tmp_path / "0000").rename(tmp_path / ".gone")
        assert await listed(files, entries[400].cursor) == entries[401:], "folders before it are not needed"

    asyncio.run(main())


def test_what_changes_while_it_is_walked_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    planted(tmp_path, *(f"a/{number:03}.md" for number in range(FIRST)), "b/1.md", "c/1.md", "d.md")

    async def main() -> None:
        files = source("markdown", path=str(tmp_path))
        walk = files.entries(None)
        assert (await anext(walk)).uri == "a/000.md"
        (tmp_path / "b" / "1.md").unlink()
        (tmp_path / "b").rmdir()
        (tmp_path / "d.md").unlink()
        assert [entry.uri async for entry in walk][-1] == "c/1.md"
        assert (await files.load(Entry("d.md", "d.md"), None)).document is None, "gone, and no error"

    asyncio.run(main())


def test_links_are_followed_within_the_folder_only_and_the_others_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = planted(tmp_path / "root", "a/x.md", "m.md", ".store/kept.md")
    planted(tmp_path, "out/secret.md", "rooted/x.md")
    for name, target in {
        "inside.md": "a/x.md", "to-hidden.md": ".store/kept.md", "folder": "a", "up": "..", "n-out": "../out",
        "out.md": "../out/secret.md", "beside": "../rooted", "loop.md": "loop.md", "dead.md": "nowhere.md",
        "picture.png": "../out/secret.md",
    }.items():  # fmt: skip
        (root / name).symlink_to(target)

    async def main() -> None:
        files = source("markdown", path=str(root))
        entries = await listed(files)
        assert [entry.uri for entry in entries] == ["a/x.md", "inside.md", "m.md", "to-hidden.md"]
        named = sorted(record.args[0] for record in caplog.records)  # type: ignore[index]
        assert named == ["beside", "n-out", "out.md", "up"]
        caplog.clear()
        assert len(await listed(files, "n")) == 1
        assert sorted(record.args[0] for record in caplog.records) == ["n-out", "out.md", "up"]  # type: ignore[index]
        assert (await document(files, "inside.md")).text == "a/x.md"
        for uri in ("out.md", "n-out/secret.md", "../out/secret.md", "a/../../out/secret.md"):
            with pytest.raises(Permanent, match=r"leads out|no path within"):
                await files.load(Entry(uri, uri), None)

        (root / "via").symlink_to(root)
        for number in range(MOST_NAMED + 10):
            (root / f"z{number}.md").symlink_to("/dev/null")
        caplog.clear()
        linked = source("markdown", path=str(root / "via"))
        assert [entry.uri for entry in await listed(linked)] == [entry.uri for entry in entries]
        assert len(caplog.records) == MOST_NAMED

    asyncio.run(main())


def test_a_name_that_is_not_utf_8_is_an_error_of_its_own(tmp_path: Path) -> None:
    planted(tmp_path, "a.md", "ü.md", "z.md")
    odd = os.fsencode(tmp_path) + b"/caf\xe9"
    planted(Path(os.fsdecode(odd)), "m%.md")

    async def main() -> None:
        files = source("markdown", path=str(tmp_path))
        entries = await listed(files)
        assert [entry.uri for entry in entries] == ["a.md", "/caf%E9/m%25.md", "z.md", "ü.md"]
        json.dumps([entry.cursor for entry in entries]).encode()
        for at, entry in enumerate(entries):
            assert await listed(files, entry.cursor) == entries[at + 1 :]
        with pytest.raises(Permanent, match=r"not UTF-8: 'caf%E9/m%25.md': rename it"):
            await files.load(entries[1], None)

    asyncio.run(main())


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder of somebody who may not read everything, as whom the test runs."""
    with tempfile.TemporaryDirectory() as folder:
        root = os.geteuid() == 0
        if root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)


def test_what_may_not_be_read_is_an_error_of_its_own_and_never_seems_to_be_gone(common: Path) -> None:
    planted(common, "a.md", "b/1.md", "c.md", "d/1.md")
    (common / "a.md").chmod(0)
    (common / "b").chmod(0)
    (common / "d").chmod(0o600)

    async def main() -> None:
        files = source("markdown", path=str(common))
        entries = await listed(files)
        assert [entry.uri for entry in entries] == ["a.md", "b/", "c.md", "d/1.md"]
        assert await listed(files, "b/") == entries[2:], "told of once"
        assert await listed(files, "b/0.md") == entries[1:], "it could be read when the cursor was made"
        for uri in ("a.md", "b/", "d/1.md"):
            with pytest.raises(Permanent, match="let the user that does the work read it"):
                await files.load(Entry(uri, uri), None)
        assert (await document(files, "c.md")).text == "c.md"
        assert await files.count() >= 2
        (common / "b").chmod(0o700)
        (common / "d").chmod(0o700)
        assert (await files.load(Entry("b/", "b/"), None)).document is None, "what is in it comes with the next walk"

    asyncio.run(main())


def test_a_folder_that_is_gone_is_not_an_empty_one(tmp_path: Path) -> None:
    root = planted(tmp_path / "root", "a.md")

    async def main() -> None:
        files = source("markdown", path=str(root))
        root.rename(tmp_path / "moved")
        for asked in (listed(files), listed(files, "a.md"), files.count()):
            with pytest.raises(Transient, match="is a disk not mounted"):
                await asked
        moved = source("markdown", path=str(tmp_path / "moved"))
        assert [entry.uri for entry in await listed(moved)] == ["a.md"], "the name does not depend on the root's"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("pattern", "fits", "not_these"),
    [
        ("*.md", ["a.md", "x/y/a.md"], ["a.mdx", "a.md/b"]),
        ("guides/*.md", ["guides/a.md"], ["guides/x/a.md", "a.md"]),
        ("guides/**/*.md", ["guides/a.md", "guides/x/y/a.md"], ["other/a.md"]),
        ("**/draft-?.txt", ["draft-1.txt", "x/draft-2.txt"], ["draft-12.txt"]),
        ("./x/[ab]*.md", ["x/a1.md", "x/b.md"], ["x/c.md"]),
        ("x/[!ab].md", ["x/c.md"], ["x/a.md", "x/b.md"]),
        ("x[!]a].md", ["xb.md"], ["xa.md", "x].md", "x/.md"]),
        ("[^&&[]", ["^", "&", "["], ["a"]),
        ("a[]b", ["a[]b"], ["ab"]),
        ("x/**", ["x/a", "x/y/z"], ["y/x"]),
        ("**/**/**/a", ["a", "x/y/z/a"], ["b"]),
        ("a(b|.md", ["a(b|.md"], ["a.md"]),
        ("é\n*", ["é\nx"], ["éx"]),
    ],
)
def test_patterns_choose_files(pattern: str, fits: list[str], not_these: list[str]) -> None:
    wanted = matching([pattern, "never"])
    assert [path for path in [*fits, *not_these] if wanted(path)] == fits


def test_a_pattern_instead_of_the_usual_endings(tmp_path: Path) -> None:
    planted(tmp_path, "a.md", "x/b.rst", "x/c.rst", ".x/d.rst")
    assert uris(tmp_path, pattern="*.rst") == ["x/b.rst", "x/c.rst"]
    assert uris(tmp_path, pattern=["a.*", "x/c*"]) == ["a.md", "x/c.rst"]


def test_one_file_and_files_that_are_named(tmp_path: Path) -> None:
    planted(tmp_path, "notes/a.text", "b.pdf", "c.pdf")
    (tmp_path / "link.pdf").symlink_to("c.pdf")

    async def main() -> None:
        single = source("markdown", path=str(tmp_path / "notes" / "a.text"))
        (entry,) = await listed(single)
        assert (entry.uri, await single.count(), await listed(single, entry.cursor)) == ("a.text", 1, [])
        assert (await document(single, "a.text")).text == "notes/a.text"

        paths = [str(tmp_path / name) for name in ("link.pdf", "b.pdf", "gone.pdf", "b.pdf")]
        named = source("pdf", paths=paths)
        assert [entry.uri for entry in await listed(named)] == sorted(set(paths))
        assert await listed(named, paths[1]) == (await listed(named))[1:]
        for uri, why in ((paths[2], "there is no file"), (str(tmp_path / "c.pdf"), "none of the files")):
            with pytest.raises(Permanent, match=why):
                await named.load(Entry(uri, uri), None)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("type", "options", "why"),
    [
        ("markdown", {}, r"path: Field required \(it takes path, pattern, recursive\)"),
        ("markdown", {"path": "/nowhere/at/all"}, "cannot be read: No such file"),
        ("markdown", {"path": "a\0b"}, "is no path"),
        ("markdown", {"path": ".", "patern": "*"}, "patern: Extra inputs"),
        ("markdown", {"path": ".", "pattern": "../*.md"}, "must be relative to the folder"),
        ("markdown", {"path": ".", "pattern": "[z-a].md"}, "is no pattern"),
        ("markdown", {"path": __file__, "pattern": "*.md"}, "is a file; a pattern chooses"),
        ("pdf", {"path": "a\0b"}, "path: is no path"),
        ("pdf", {}, "give one of path"),
        ("pdf", {"path": ".", "urls": ["http://example.com/a.pdf"]}, "give one of path"),
        ("pdf", {"urls": ["ftp://example.com/a.pdf"]}, r"urls.0: does not begin with http"),
        ("pdf", {"paths": ["x"], "pattern": "*"}, "pattern chooses files of a folder"),
    ],
)
def test_wrong_options_are_refused_with_what_there_is(type: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        source(type, **options)


# Markdown


def test_a_page_with_front_matter(tmp_path: Path) -> None:
    page = one(
        tmp_path,
        "frost.md",
        "---\ntitle: 'Frost:  guard'\ntags: [climate, 7, {no: way}]\ndate: 2025-03-01\nat: 2025-03-01 10:00:00\n"
        "draft: false\norder: 3\nauthor: {name: x}\nempty:\nhuge: 99999999999999999999\nratio: .nan\n"
        'odd: "a\\0b"\n1: x\n---\n\n# Another title\n\nText.\n',
    )
    assert (page.title, page.format, page.text) == ("Frost: guard", "markdown", "\n# Another title\n\nText.\n")
    assert page.metadata == {
        "tags": ["climate", 7], "date": "2025-03-01", "at": "2025-03-01T10:00:00", "draft": False, "order": 3,
        "odd": "ab",
    }  # fmt: skip
    json.dumps(page.metadata).encode()


@pytest.mark.parametrize(
    ("text", "metadata", "body"),
    [
        ("+++\ntitle = 'T'\nday = 2025-01-02\n[x]\ny = 1\n+++\nBody", {"title": "T", "day": "2025-01-02"}, "Body"),
        ("---\ntitle: One: two\ntags: [a\n---\nBody", {"title": "One: two"}, "Body"),
        ("---\ntitle: x\n...\nBody", {"title": "x"}, "Body"),
        ("---\n---\nBody", {}, "Body"),
        ("---\n# only a comment\n---\nBody", {}, "Body"),
        ("---\nwhen: !!timestamp x\n---\nBody", {}, "Body"),
        ("---\na: &x [1]\nb: *x\n---\nBody", {}, "Body"),
        ("---\na: " + "[" * 5000 + "\n---\nBody", {}, "Body"),
        ("+++\na = " + "[" * 5000 + "\n+++\nBody", {}, "Body"),
        ("---\na: 0x" + "f" * 9999 + "\n---\nBody", {}, "Body"),
        ("---\na: " + "9" * 9999 + "\n---\nBody", {}, "Body"),
        ("---\nsome text\n\n---\nmore", {}, None),
        ("---\n- a list\n---\nmore", {}, None),
        ("---\nno end: true\n", {}, None),
        ("---\nlate: " + "x" * 70_000 + "\n---\n", {}, None),
        ("----\ntitle: x\n----\n", {}, None),
        (" ---\ntitle: x\n---\n", {}, None),
        ("+++\nplus signs\n+++\n", {}, None),
    ],
)
def test_what_is_front_matter_and_what_only_looks_like_it(text: str, metadata: Any, body: str | None) -> None:
    assert front_matter.split(text) == (metadata, text if body is None else body)


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("ab:-[]{}&*!|>'\"\n #?,0.%@`<\t"), max_size=60), st.sampled_from(["---", "+++"]))
def test_no_front_matter_is_a_crash(block: str, mark: str) -> None:
    text = f"{mark}\n{block}\n{mark}\nBody\n"
    metadata, body = front_matter.split(text)
    assert text.endswith(body) and body.endswith("Body\n")
    json.dumps(metadata, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## The `first` *one* ##\n# Second", "The first one"),
        ("```\n# code\n```\n\n~~~~\n# more\n~~~\n# code\n~~~~\n# Real", "Real"),
        ("Under\nlined\n------\n", "lined"),
        ("- item\n---\n# After", "After"),
        ("# [A link](x.md) {#anchor}", "A link"),
        ("# C#\n", "C#"),
        ("#\n#hash\n####### seven\n# ok", "ok"),
        ("# " + "x" * 5000, "x" * 300),
        ("no heading", ""),
        ("```\nopen\n# code", ""),
    ],
)
def test_the_first_heading(text: str, title: str) -> None:
    assert first_heading(text) == title


def test_titles_of_files_without_any(tmp_path: Path) -> None:
    assert one(tmp_path, "no-heading.md", "text").title == "no-heading"
    plain = one(tmp_path, "plain.txt", "# a comment\nin a script")
    assert (plain.title, plain.format, plain.text) == ("plain", "plain", "# a comment\nin a script")
    assert one(tmp_path, "year.md", "---\ntitle: 2025\n---\n").title == "2025"
    assert one(tmp_path, "list.md", "---\ntitle: [a]\n---\n# H").title == "H"


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"\xef\xbb\xbfa\r\nb\rc", "a\nb\nc", None),
        ("Grüße".encode(), "Grüße", None),
        ("Grüße".encode("cp1252") + b"\x81", "Grüße\ufffd", "windows-1252"),
        ("\ufeffGrüße".encode("utf-16-le"), "Grüße", "utf-16-le"),
        ("\ufeffGrüße".encode("utf-16-be"), "Grüße", "utf-16-be"),
        (b"", "", None),
    ],
)
def test_text_in_any_encoding(data: bytes, text: str, encoding: str | None) -> None:
    assert decoded("x", data) == (text, encoding)


def test_what_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="no text: there are zero bytes"):
        one(tmp_path, "binary.md", b"\x7fELF\x00\x00")
    assert one(tmp_path, "old.md", b"caf\xe9").metadata == {"encoding": "windows-1252"}
    small = MarkdownSource(Folder(tmp_path, ending((".md",))), HandClock(), largest=3)
    with pytest.raises(Permanent, match=r"has 0.0 MB; at most 3e-06 MB are read: split it"):
        asyncio.run(document(small, "old.md"))
    (tmp_path / "pipe.md").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(Permanent, match="is no file"):
        asyncio.run(document(small, "pipe.md"))


@pytest.mark.parametrize(("ago", "kept"), [(10, True), (2, True), (1.5, False), (0, False), (-5, False)])
def test_a_file_that_was_just_written_is_read_again_next_time(tmp_path: Path, ago: float, kept: bool) -> None:
    path = tmp_path / "a.md"
    path.write_text("text")
    changed = int((START - ago) * 1e9)
    os.utime(path, ns=(changed, changed))

    async def main() -> None:
        files = source("markdown", path=str(tmp_path))
        (entry,) = await listed(files)
        assert entry.fingerprint == f"4:{changed}"
        assert (await document(files, "a.md")).fingerprint == (entry.fingerprint if kept else None)

    asyncio.run(main())


def test_the_sample_site_is_read_whole(tmp_path: Path) -> None:
    site = make_site(tmp_path, pages=24)

    async def main() -> None:
        files = source("markdown", path=str(tmp_path))
        entries = await listed(files)
        assert {entry.uri for entry in entries} == {page.path for page in site.pages}
        for page in site.pages:
            read = await document(files, page.path)
            assert (read.title, read.format) == (page.title, "markdown")
            assert read.fingerprint == next(entry.fingerprint for entry in entries if entry.uri == page.path)
            assert "---\ntitle" not in read.text
        for question in site.questions:
            read = await document(files, question.page)
            assert question.answer in " ".join(read.text.split())
            assert set(read.metadata) == {"tags", "date", "order"}

    asyncio.run(main())


# PDFs


class Desk:
    """A pool of processes and its event loop, for all tests of PDFs: starting them takes longer than reading."""

    def __init__(self, runner: asyncio.Runner, pool: ProcessPool) -> None:
        self.run = runner.run
        self.pool = pool

    async def opened(self) -> ProcessPool:
        return self.pool

    def files(self, folder: Path, *, largest: int = 10**9, **options: Any) -> PdfSource:
        reader = PdfReader(self.opened, HandClock(), **options)
        return PdfSource(Folder(folder, ending((".pdf",))), reader, HandClock(), largest=largest)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with asyncio.Runner() as runner:
        desk = Desk(runner, ProcessPool(2))
        yield desk
        runner.run(desk.pool.close())


def test_the_sample_pdfs_are_read_page_by_page_and_the_scan_too(tmp_path: Path, desk: Desk) -> None:
    made = make_pdfs(tmp_path)

    async def main() -> None:
        files = source("pdf", desk.pool, path=str(tmp_path))
        entries = {entry.uri: entry for entry in await listed(files)}
        assert set(entries) == {sample.path.name for sample in made}
        for sample in made:
            read = await document(files, sample.path.name)
            assert (read.title, read.format, read.metadata) == (sample.title, "plain", {"pages": sample.pages})
            assert read.fingerprint == entries[read.uri].fingerprint
            assert [mark.position for mark in read.marks] == [{"page": n} for n in range(1, sample.pages + 1)]
            starts = [mark.offset for mark in read.marks]
            ends = [*(start - 2 for start in starts[1:]), len(read.text)]
            for question in sample.questions:
                page = read.text[starts[question.page - 1] : ends[question.page - 1]]
                assert question.answer in " ".join(page.split())
                assert page == page.strip(), "pages are joined by an empty line"
        await files.close()

    desk.run(main())


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "locked": (lambda: hostile.text_pdf("x", password="secret"), "password: put an unlocked copy in its place"),
    "empty": (lambda: b"", "bad.pdf is empty"),
    "no pdf": (lambda: b"<html>Please log in</html>", "damaged and cannot be opened: put a sound copy"),
    "page loop": (hostile.page_loop, "no page of it can be read"),
    "many": (lambda: hostile.text_pdf(*["x"] * 21), "21 pages or more; at most 20 are read: split it"),
    "long": (lambda: hostile.text_pdf(*["many words"] * 12), "more than 100 characters: split it"),
    "bomb": (lambda: hostile.content_bomb(150 * 2**20), "more than the 96 megabytes it may"),
}


def test_bad_pdfs_are_errors_of_their_own_and_good_ones_between_them_are_read(tmp_path: Path, desk: Desk) -> None:
    limits = PoolLimits(seconds=20, memory_mb=96)
    files = desk.files(tmp_path, most_pages=20, most_text=100, limits=limits)
    bad, good = tmp_path / "bad.pdf", tmp_path / "good.pdf"
    good.write_bytes(hostile.text_pdf("Good words", password=""))

    async def main() -> None:
        for name, (make, why) in BAD.items():
            bad.write_bytes(make())
            with pytest.raises(Permanent) as error:
                await document(files, "bad.pdf")
            assert why in str(error.value) and "penstock" not in str(error.value), name
            assert (await document(files, "good.pdf")).text == "Good words"
        with pytest.raises(Permanent, match=r"has 0.0 MB; at most"):
            await document(desk.files(tmp_path, largest=5), "good.pdf")

    desk.run(main())


def test_a_page_that_cannot_be_read_is_left_out_and_tried_again_next_time(
    tmp_path: Path, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "half.pdf").write_bytes(half_torn())
    read = desk.run(document(desk.files(tmp_path), "half.pdf"))
    assert read.metadata == {"pages": 2, "unread_pages": [2]} and read.fingerprint is None
    assert read.text == "Whole" and [mark.position for mark in read.marks] == [{"page": 1}]
    assert "1 of 2 pages of half.pdf are left out: page 2 of the PDF is damaged" in caplog.text


def half_torn() -> bytes:
    """Two pages, the second of which leads nowhere."""
    font = b"/Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"
    first = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Resources<<%b>>/Contents 4 0 R>>" % font
    words = hostile.stream(b"BT /F 12 Tf 20 100 Td (Whole) Tj ET")
    return hostile.raw_pdf(
        [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R 9 0 R]/Count 2>>", first, words]
    )


def test_a_pdf_that_is_changed_while_it_is_read_is_read_again(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(hostile.text_pdf("old"))
    contents = [hostile.text_pdf("new and longer"), b"half"]

    async def opened() -> ProcessPool:
        path.write_bytes(contents.pop())
        return desk.pool

    files = PdfSource(Folder(tmp_path, ending((".pdf",))), PdfReader(opened, HandClock()), HandClock())
    while contents:
        with pytest.raises(Transient, match="changed while it was read"):
            desk.run(document(files, "a.pdf"))


def test_reading_that_takes_long_is_handed_in_piece_by_piece_and_has_an_end(
    tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no time at all a process hands in every page by itself."""
    monkeypatch.setattr("penstock.pipelines.ingestion.sources.pdf.AT_ONCE", 0.0)
    (tmp_path / "a.pdf").write_bytes(hostile.text_pdf("one", "two", "three"))
    assert desk.run(document(desk.files(tmp_path), "a.pdf")).text == "one\n\ntwo\n\nthree"
    with pytest.raises(Permanent, match="takes longer to read than -1 s: split it"):
        desk.run(document(desk.files(tmp_path, in_all=-1), "a.pdf"))


def test_pdfs_from_the_web_are_asked_for_again_only_if_they_changed(tmp_path: Path, desk: Desk) -> None:
    (sample, *_) = make_pdfs(tmp_path, count=2)
    answers = [
        Reply(sample.path.read_bytes(), type="application/pdf", headers={"ETag": '"7"'}),
        Reply(status=304, type=None),
    ]

    async def main() -> None:
        async with Site({"/a%20b.pdf": answers, "/page": "<p>x", "/no": Reply("x", 404)}) as site:
            url, page, no = (f"{site.url}/{path}" for path in ("a%20b.pdf", "page", "no"))
            files = source("pdf", desk.pool, urls=[page, url, no, url])
            assert await files.count() == 3
            entries = await listed(files)
            assert [entry.uri for entry in entries] == [url, no, page]
            assert await listed(files, url) == entries[1:]
            read = await document(files, url)
            assert read.title == sample.title and len(read.marks) == sample.pages and read.fingerprint
            known = Known(url, read.fingerprint, read.content_hash)
            same = (await files.load(entries[0], known)).document
            assert same == Unchanged(url, read.fingerprint)
            assert site.asked[-1].headers["if-none-match"] == '"7"'
            for uri, why in ((page, "is no PDF but text/html"), (no, "404")):
                with pytest.raises(Permanent, match=why):
                    await document(files, uri)
            await files.close()

    desk.run(main())


@pytest.mark.parametrize(
    ("told", "title"),
    [
        ("Annual  report\n2025", "Annual report 2025"), ("", "stem"), ("untitled", "stem"), ("Document1", "stem"),
        ("Microsoft Word - Staff handbook", "Staff handbook"), ("Microsoft Word - report_v2.doc", "stem"),
        ("handbook.indd", "stem"), ("\x00\x01", "stem"), ("12345", "stem"), ("905_Precinct_NoOU", "stem"),
        ("PowerPoint Presentation", "stem"), ("Losing the Cabin", "Losing the Cabin"), ("Handbook", "Handbook"),
        ("x" * 400, "stem"), ("Überblick", "Überblick"),
    ],
)  # fmt: skip
def test_a_title_is_what_the_pdf_says_unless_that_is_nonsense(told: str, title: str) -> None:
    assert title_of(told, "stem") == title


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("an exam\ufffeple and inter-\nnational", "an example and international"),
        ("well-known, well\x02known, Anglo\ufffeSaxon", "well-known, well-known, Anglo-Saxon"),
        ("12-\n34 and - \n x", "12-\n34 and -\nx"),
        ("oﬃce  ﬁle \n\n\n\n next\x07", "office file\n\nnext"),
        ("", ""),
    ],
)
def test_words_that_were_broken_at_the_end_of_a_line_are_whole(text: str, prose: str) -> None:
    assert as_prose(text) == prose


def test_paragraphs_and_columns_are_apart() -> None:
    lines = ["Heading", "", "first line of a", "paragraph", "", "another", "one here"]
    value, (told,) = read_text({"first": 0, "pages": 9, "seconds": 9.0}, [hostile.text_pdf("\n".join(lines), "")])
    assert json.loads(told) == ["Heading\n\nfirst line of a\nparagraph\n\nanother\none here", ""]
    assert value == {"pages": 2, "title": "untitled", "next": None}


def test_foreign_pdfs_end_as_text_or_as_one_clear_error(desk: Desk) -> None:
    folder = SHARED / "pdf_robust"
    if not folder.is_dir():
        pytest.skip(f"needs {folder}: set PENSTOCK_DATA to where the data are")

    async def main() -> None:
        files = source(
            "pdf", desk.pool, path=str(folder), pattern=["encrypted/*.pdf", "malformed/qpdf*.pdf", "normal/pdf*.pdf"]
        )
        read: dict[str, Document] = {}
        errors: dict[str, str] = {}
        for entry in await listed(files):
            try:
                read[entry.uri] = await document(files, entry.uri)
            except Permanent as error:
                errors[entry.uri] = str(error)
        assert len(read) + len(errors) > 60 and all(uri in why for uri, why in errors.items())
        assert not any("Error" in why or "penstock" in why for why in errors.values())
        assert not [uri for uri in errors if uri.startswith("normal/")]
        locked = [uri for uri, why in errors.items() if "unlocked copy" in why]
        assert locked and all(uri.startswith("encrypted/") for uri in locked)

    desk.run(main())
