"""The local backend reads pages that are made here, in processes of their own, and refuses what it cannot read."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import math
import os
import struct
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from penstock.engine.errors import InvalidRequest
from penstock.gemini_local.backend import Answer, CannotAnswer, Part, Prompt, Turn
from penstock.gemini_local.backends import make_backend
from penstock.gemini_local.backends.documents import PooledDocuments
from penstock.gemini_local.backends.embedder import DIMENSIONS, LONGEST, Embedder
from penstock.gemini_local.backends.local import LocalBackend
from penstock.gemini_local.readers import Documents, Page, Reader
from penstock.paper.images import frames
from penstock.paper.page import from_json
from penstock.paper.reading import read_document
from penstock.paper.unreadable import Unreadable
from penstock.remote.pool import PoolLimits, ProcessPool

LEFT = ["The quick brown fox", "jumps over the dog", "and runs into town"]
RIGHT = ["Meanwhile the cat", "sleeps in the barn", "until the evening"]


def drawn(*columns: Sequence[str], size: tuple[int, int] = (1000, 600)) -> Image.Image:
    """A page with a column of lines each, in Pillow's own font."""
    page = Image.new("L", size, 255)
    pen = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=32)
    for number, lines in enumerate(columns):
        for row, line in enumerate(lines):
            pen.text((60 + number * 520, 60 + row * 52), line, fill=0, font=font)
    return page


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def written_pdf(*pages: Sequence[str], rotate: int = 0) -> bytes:
    """A PDF with a text layer, one line under the other."""
    things = [b"", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids: list[int] = []
    for lines in pages:
        text = b"BT /F1 14 Tf 18 TL 60 700 Td " + b" ".join(b"(%s) Tj T*" % line.encode() for line in lines) + b" ET"
        things.append(b"<< /Length %d >> stream\n%s\nendstream" % (len(text), text))
        things.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Rotate %d /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (rotate, len(things))
        )
        kids.append(len(things))
    things[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    things[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    out, places = b"%PDF-1.4\n", []
    for number, thing in enumerate(things, 1):
        places.append(len(out))
        out += b"%d 0 obj %s endobj\n" % (number, thing)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(things) + 1)
    table += b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(things) + 1, len(out))
    return out + table + trailer


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it is huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


def asking(*data: bytes | Part, schema: dict[str, Any] | None = None) -> Prompt:
    parts = tuple(one if isinstance(one, Part) else Part(mime="image/png", data=one) for one in data)
    return Prompt("gemini-2.5-flash", (Turn("user", (Part(text="Transcribe this."), *parts)),), schema=schema)


def with_backend(work: Callable[[LocalBackend], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        backend = LocalBackend(workers=1)
        try:
            return await work(backend)
        finally:
            await backend.close()

    return asyncio.run(run())


def answers(*prompts: Prompt) -> list[str]:
    async def work(backend: LocalBackend) -> list[str]:
        return [(await backend.generate(prompt)).text for prompt in prompts]

    texts: list[str] = with_backend(work)
    return texts


def pages_of(data: bytes, most: int = 10) -> list[Page]:
    """Read here, without a pool."""
    _, (told,) = read_document({"pages": most}, [data])
    return [from_json(page) for page in json.loads(told)]


def test_pages_are_read_in_order_and_columns_one_after_the_other(tmp_path: Path) -> None:
    tall = drawn(LEFT * 5, RIGHT * 5, size=(1060, 920))
    columns, one, on_disk = encoded(tall), encoded(drawn(LEFT), "JPEG"), tmp_path / "page"
    on_disk.write_bytes(encoded(drawn(RIGHT), "WEBP", lossless=True))
    two = asking(Part(mime="image/jpeg", data=one), Part(mime="image/webp", file=on_disk))
    first, second = answers(asking(columns), two)
    assert first.split() == " ".join(LEFT * 5 + RIGHT * 5).split(), first
    assert first.startswith("\n".join(LEFT)), "lines are not kept"
    assert second == "\n".join(LEFT) + "\n\n" + "\n".join(RIGHT)


def test_a_pdf_is_read_by_its_text_or_by_its_picture() -> None:
    scan = drawn(LEFT, size=(1240, 1754))
    texted = written_pdf(LEFT, RIGHT)
    scanned = encoded(scan, "PDF", resolution=150.0, save_all=True, append_images=[drawn(RIGHT, size=(1240, 1754))])
    pdf = "application/pdf"
    first, second = answers(asking(Part(mime=pdf, data=texted)), asking(Part(mime=pdf, data=scanned)))
    assert first == second == "\n".join(LEFT) + "\n\n" + "\n".join(RIGHT)


def test_a_transcription_may_be_asked_for_as_json() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {"text": {"type": "STRING"}, "language": {"type": "STRING", "nullable": True}},
        "required": ["text"],
    }
    (text,) = answers(asking(encoded(drawn(["The end of the", "story is in the", "house"])), schema=schema))
    assert json.loads(text) == {"text": "The end of the\nstory is in the\nhouse", "language": "en"}


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_page_that_is_not_upright_is_read_all_the_same(turn: int) -> None:
    (page,) = pages_of(encoded(drawn(LEFT + RIGHT).rotate(turn, expand=True)))
    assert page.text.split() == " ".join(LEFT + RIGHT).split()


def test_words_of_a_pdf_have_boxes_and_paragraphs() -> None:
    (page,) = pages_of(written_pdf([*LEFT, "", "", *RIGHT]))
    assert page.source == "text" and page.text == "\n".join(LEFT) + "\n\n" + "\n".join(RIGHT)
    left, top, right, bottom = page.lines[0].words[0].box
    assert 60 < left * 72 / 200 < 65 and left < right and 80 < top * 72 / 200 < bottom * 72 / 200 < 100
    (turned,) = pages_of(written_pdf(LEFT, rotate=90))
    assert (turned.width, turned.height) == (page.height, page.width)
    assert turned.lines[0].box[0] > turned.width / 2, "boxes are not turned with the page"


def test_every_page_of_a_tiff_is_read_and_odd_pictures_too() -> None:
    tiff = encoded(drawn(LEFT), "TIFF", save_all=True, append_images=[drawn(RIGHT)])
    assert [page.text for page in pages_of(tiff)] == ["\n".join(LEFT), "\n".join(RIGHT)]
    clear = Image.new("RGBA", (1000, 600), (0, 0, 0, 0))
    clear.paste((0, 0, 0, 255), mask=drawn(LEFT).point(lambda value: 255 - value))
    for picture in (clear, drawn(LEFT).convert("CMYK"), drawn(LEFT).convert("1"), drawn(LEFT).convert("P")):
        kind = "TIFF" if picture.mode == "CMYK" else "PNG"
        assert pages_of(encoded(picture, kind))[0].text == "\n".join(LEFT), picture.mode
    deep = drawn(LEFT).convert("I").point(lambda value: value * 257).convert("I;16")
    assert pages_of(encoded(deep, "TIFF"))[0].text == "\n".join(LEFT)


def test_what_is_blank_has_no_text() -> None:
    assert pages_of(encoded(Image.new("L", (800, 600), 255)))[0].text == ""
    assert pages_of(encoded(Image.new("L", (1, 1), 255)))[0].text == ""
    assert pages_of(written_pdf([]))[0].text == ""


def test_a_large_scan_is_made_smaller_before_it_is_read() -> None:
    (grey,) = frames(encoded(Image.new("1", (8000, 6000), 1)))
    assert 15_900_000 < grey.width * grey.height <= 16_100_000 and grey.mode == "L"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"not a picture", "neither an image"),
        (encoded(drawn(LEFT))[:2000], "damaged"),
        (bomb(60_000, 60_000), "too large"),
        (bomb(10_000, 10_000), "too large"),
        (b"%PDF-1.4\nnothing", "damaged"),
        (written_pdf(*[LEFT] * 11), "11 pages"),
        (written_pdf(), "no pages"),
        (
            encoded(Image.new("1", (20, 20)), "TIFF", save_all=True, append_images=[Image.new("1", (20, 20))] * 10),
            "pages",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_reason(data: bytes, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        pages_of(data)


def test_refusals_reach_the_caller_and_the_next_request_is_answered() -> None:
    good = encoded(drawn(LEFT))
    bad = {
        "damaged": asking(good[:2000]),
        "too large": asking(bomb(60_000, 60_000)),
        "is empty": asking(b""),
        "cannot be opened": asking(Part(mime="application/pdf", data=b"%PDF-1.4\nnothing")),
        "not video/mp4": asking(Part(mime="video/mp4", data=b"x")),
        "no language model": asking(),
        "no reader for a response of {a, b}": asking(
            good, schema={"properties": {"b": {"type": "STRING"}, "a": {"type": "STRING"}}}
        ),
        "holds no image": asking(schema={"properties": {"text": {"type": "STRING"}}}),
    }

    async def work(backend: LocalBackend) -> str:
        for says, prompt in bad.items():
            with pytest.raises(CannotAnswer, match=says) as refused:
                await backend.generate(prompt)
            assert refused.value.code in (3, 12), says
        return (await backend.generate(asking(good))).text

    assert with_backend(work) == "\n".join(LEFT)


def die(args: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    os._exit(9)


def hang(args: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    time.sleep(600)


def swell(args: Mapping[str, Any], blobs: Sequence[bytes]) -> int:
    held = [b"x" * 2**20 for _ in range(4000)]
    time.sleep(600)
    return len(held)


def test_a_process_that_misbehaves_is_stopped_and_another_goes_on() -> None:
    codes = {"die": 14, "hang": 4, "swell": 8, "absent": 13}

    async def work() -> None:
        async with ProcessPool(workers=1) as pool:
            small = PooledDocuments(pool, limits=PoolLimits(seconds=3, memory_mb=300))
            for function, code in codes.items():
                with pytest.raises(CannotAnswer) as refused:
                    await small.run(f"{__name__}:{function}", {})
                assert refused.value.code == code, f"{function}: {refused.value}"
            (page,) = await PooledDocuments(pool).pages(Part(mime="image/png", data=encoded(drawn(LEFT))))
            assert page.text == "\n".join(LEFT)

    asyncio.run(work())


def test_a_long_document_is_read_in_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.gemini_local.backends.documents.AT_ONCE", 0.0)

    async def work() -> list[Page]:
        async with ProcessPool(workers=1) as pool:
            data = written_pdf(*[[f"Page number {number} of the document"] for number in range(5)])
            return await PooledDocuments(pool).pages(Part(mime="application/pdf", data=data))

    assert [page.text.split()[2] for page in asyncio.run(work())] == ["0", "1", "2", "3", "4"]


def test_a_registered_reader_answers_and_its_failure_names_it(caplog: pytest.LogCaptureFixture) -> None:
    schema = {"type": "OBJECT", "properties": {"lines": {"type": "INTEGER"}}}

    async def count(prompt: Prompt, documents: Documents) -> Answer:
        (page,) = await documents.pages(prompt.parts[-1])
        return Answer(json.dumps({"lines": len(page.lines)}))

    async def explode(prompt: Prompt, documents: Documents) -> Answer:
        raise KeyError("total")

    async def work(backend: LocalBackend) -> str:
        backend.register(Reader("lines", count, schemas=(schema,)))
        answer = await backend.generate(asking(encoded(drawn(LEFT)), schema={**schema, "title": "Other"}))
        backend.register(Reader("lines", explode, schemas=(schema,)))
        with pytest.raises(CannotAnswer, match="reader 'lines' failed: KeyError") as refused:
            await backend.generate(asking(schema=schema))
        assert refused.value.code == 13
        return answer.text

    assert with_backend(work) == '{"lines": 3}'
    assert "'lines' failed" in caplog.text


def test_embeddings_are_near_for_near_texts_and_always_the_same() -> None:
    texts = ["How do I reset my password?", "I forgot my login and need a new one", "Bananas are yellow fruit"]

    async def work(backend: LocalBackend) -> list[list[list[float]]]:
        ask = backend.embed
        return [
            await ask("gemini-embedding-001", texts, dimensions=None, task="RETRIEVAL_DOCUMENT"),
            await ask("gemini-embedding-001", texts[::-1], dimensions=None, task=None),
            await ask("gemini-embedding-001", texts, dimensions=64, task=None),
        ]

    whole, backwards, short = with_backend(work)
    assert whole == backwards[::-1], "a vector depends on what it is asked for with"
    assert {len(vector) for vector in whole} == {DIMENSIONS} and {len(vector) for vector in short} == {64}
    for vector in (*whole, *short):
        assert math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-9)
    scale = math.hypot(*whole[0][:64])
    assert all(math.isclose(a, b / scale, abs_tol=1e-12) for a, b in zip(short[0], whole[0], strict=False))

    def cosine(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert cosine(whole[0], whole[1]) > cosine(whole[0], whole[2]) + 0.2


def test_embeddings_of_odd_texts() -> None:
    embedder = Embedder()
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    for text in ("a" * 200_000, "word " * 60_000, "日本語", "\ud800 lone", "\x00"):
        assert math.isclose(math.hypot(*embedder.embed([text])[0]), 1.0, rel_tol=1e-9)
    assert (root.level, root.handlers) == before, "loading the model changed the root logger"
    assert embedder.embed([]) == []
    for texts, dimensions, says in (
        (["x"], 768, "1 to 256"),
        (["x"], 0, "1 to 256"),
        (["x", " \n"], None, "Text 2 of 2 is empty"),
        (["x" * (LONGEST + 1)], None, "at most"),
    ):
        with pytest.raises(CannotAnswer, match=says):
            embedder.embed(texts, dimensions=dimensions)


def test_the_embedder_is_loaded_once_for_many_threads() -> None:
    embedder = Embedder()
    found: list[list[float]] = []
    threads = [threading.Thread(target=lambda: found.extend(embedder.embed(["hello"]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(vector == found[0] for vector in found)


def test_a_backend_is_made_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    def __init__(self, rest): self.rest = rest\n"
        "def broken(rest): raise RuntimeError('no licence')\n"
    )
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.backends]\nmine = mine:Mine\nbroken = mine:broken\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    mine: Any = make_backend("mine:a:b")
    assert mine.name == "mine" and mine.rest == "a:b"
    assert make_backend("local").name == "local" and make_backend("script").name == "script"
    for spec, says in (
        ("nothing", "there are: local, openai:URL, script, script:FILE, broken, mine"),
        ("openai", "needs an address"),
        ("openai:gpu", "no address"),
        ("broken", "'broken' could not be made: RuntimeError: no licence"),
        ("script:/not/there.yaml", "'/not/there.yaml' cannot be followed"),
    ):
        with pytest.raises(InvalidRequest, match=says):
            make_backend(spec)
