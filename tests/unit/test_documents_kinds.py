"""What a file is: by its first bytes, whatever it is called."""

from __future__ import annotations

import io
from typing import get_args

import pytest
from PIL import Image

from penstock.pipelines.documents.kinds import HEAD, SUPPORTED, Kind, kind_of, mime, refusal, too_large


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "gif", "tiff", "bmp"])
def test_pictures_are_known_by_their_first_bytes(kind: str) -> None:
    out = io.BytesIO()
    Image.new("RGB", (20, 20), "white").save(out, kind.upper())
    assert kind_of(out.getvalue()[:HEAD]) == kind


def test_a_pdf_may_have_something_before_its_mark_but_not_much() -> None:
    assert kind_of(b"%PDF-1.7\n") == "pdf"
    assert kind_of(b"\r\nFrom: scanner\r\n\r\n%PDF-1.4\n") == "pdf"
    assert kind_of(b"x" * HEAD + b"%PDF-1.4\n") is None


def test_what_begins_as_a_picture_is_a_picture() -> None:
    assert kind_of(b"\x89PNG\r\n\x1a\n" + b"%PDF-1.4\n") == "png"


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"", "empty"),
        (b"PK\x03\x04 word/document.xml", "ZIP"),
        (b"  <html><body>", "web page"),
        (b"<?xml version='1.0'?><Invoice/>", "XML"),
        (b"MZ\x90\x00", "program"),
        (b"BM is how a letter may begin", SUPPORTED),
        (b"RIFF\x00\x00\x00\x00WAVE", SUPPORTED),
        (b"\x00" * 100, SUPPORTED),
    ],
)
def test_everything_else_is_refused_in_words(head: bytes, word: str) -> None:
    assert kind_of(head) is None
    assert word in refusal(head)


def test_every_kind_has_a_type_and_a_size_is_told_in_megabytes() -> None:
    assert [mime(kind) for kind in get_args(Kind)][:2] == ["application/pdf", "image/png"]
    assert len({mime(kind) for kind in get_args(Kind)}) == len(get_args(Kind))
    assert "61.0 MB" in too_large(61_000_000) and "50 MB" in too_large(61_000_000)
