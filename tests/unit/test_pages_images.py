"""Images of pages: which file it is, what is no image, and TIFFs made readable in another process."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from pathlib import Path

import pytest
from PIL import Image

from penstock.engine.errors import Permanent
from penstock.pipelines.pages.images import (
    MOST_PIXELS,
    UnreadableImage,
    find_image,
    first_frame,
    image_mime,
    image_problem,
    readable,
)
from penstock.pipelines.pages.model import PageIdentifier
from penstock.remote.pool import ProcessPool

PAGE = PageIdentifier(state="Alabama", school="Howard College: Marion", year=1849, page=14, name="0014")


def put(root: Path, name: str, content: bytes = b"x") -> Path:
    path = root / "Alabama" / "Howard College: Marion" / "1849" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_image_is_found_beside_its_label_by_the_same_name(tmp_path: Path) -> None:
    assert find_image(tmp_path, PAGE) is None
    for name in ("14.jpg", "00014.jpg", "0014.json", "0014.gif", "0014.jpg.part"):
        put(tmp_path, name)
    assert find_image(tmp_path, PAGE) is None
    for name in ("0014.tiff", "0014.tif", "0014.webp", "0014.PNG", "0014.jpeg", "0014.jpg"):
        path = put(tmp_path, name)
        assert find_image(tmp_path, PAGE) == path, f"{name} comes before those that were there"


def test_an_extension_may_be_spelled_in_any_case(tmp_path: Path) -> None:
    put(tmp_path, "0014.Tif")
    path = put(tmp_path, "0014.Jpg")
    assert find_image(tmp_path, PAGE) == path


def test_a_folder_is_no_image_and_a_link_is(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.jpg"
    elsewhere.write_bytes(b"x")
    link = put(tmp_path / "root", "0014.png")
    link.unlink()
    link.symlink_to(elsewhere)
    link.with_suffix(".jpg").mkdir()
    assert find_image(tmp_path / "root", PAGE) == link


def test_an_image_that_cannot_be_reached_is_there_and_says_why(tmp_path: Path) -> None:
    loop = put(tmp_path, "0014.jpg")
    loop.unlink()
    loop.symlink_to(loop)
    assert find_image(tmp_path, PAGE) == loop
    assert image_problem(loop) == "the image 0014.jpg cannot be read: Too many levels of symbolic links"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../..", "a\x00b"])
def test_no_name_leads_out_of_the_root(tmp_path: Path, name: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "1849").mkdir()
    (tmp_path / "1849" / "14.jpg").write_bytes(b"x")
    for state, school in ((name, "x"), ("x", name)):
        with pytest.raises(ValueError, match="is no name of a folder"):
            PageIdentifier(state=state, school=school, year=1849, page=14)
        unchecked = PageIdentifier.model_construct(state=state, school=school, year=1849, page=14, name="")
        assert find_image(tmp_path / "root", unchecked) is None


@pytest.mark.parametrize(("kind", "mime"), [("JPEG", "jpeg"), ("PNG", "png"), ("WEBP", "webp"), ("TIFF", "tiff")])
def test_what_it_is_is_told_by_its_first_bytes(tmp_path: Path, kind: str, mime: str) -> None:
    path = tmp_path / "page.jpg"
    Image.new("L", (4, 4)).save(path, format=kind)
    assert (image_mime(path), image_problem(path)) == (f"image/{mime}", None)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the image page.jpg is empty"),
        (b"%PDF-1.7", "page.jpg is not a JPEG, PNG, WebP or TIFF image"),
        (b"\xff", "page.jpg is not a JPEG, PNG, WebP or TIFF image"),
        (b"<html>", "page.jpg is not a JPEG, PNG, WebP or TIFF image"),
    ],
)
def test_what_cannot_be_sent_is_said(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "page.jpg"
    path.write_bytes(content)
    assert image_problem(path) == problem


def test_what_is_gone_a_folder_or_too_large_cannot_be_sent(tmp_path: Path) -> None:
    assert image_problem(tmp_path / "gone.jpg") == "the image gone.jpg cannot be read: No such file or directory"
    assert image_problem(tmp_path) == f"the image {tmp_path.name} is no file"
    large = tmp_path / "large.png"
    with large.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(2_000_000_001)
    assert image_problem(large) == "the image large.png has 2000 MB, and at most 2000 MB can be sent"


def bomb(path: Path) -> Path:
    """A few bytes that say to be a picture of ten thousand million pixels."""
    entries = [(256, 4, 1, 100_000), (257, 4, 1, 100_000), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    entries += [(273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, 100_000), (279, 4, 1, 100)]
    directory = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    path.write_bytes(b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(entries)) + directory + bytes(4))
    return path


def test_a_tiff_becomes_a_png_once_and_hostile_ones_are_refused(tmp_path: Path) -> None:
    workspace = tmp_path / "made"
    tiff = tmp_path / "page.jpg"
    first, second = Image.new("1", (40, 30), 1), Image.new("1", (10, 10), 0)
    first.save(tiff, format="TIFF", compression="group4", save_all=True, append_images=[second])
    jpeg = tmp_path / "plain.tif"
    Image.new("L", (4, 4)).save(jpeg, format="JPEG")
    damaged = tmp_path / "damaged.tif"
    damaged.write_bytes(tiff.read_bytes()[:60])

    async def main() -> None:
        async with ProcessPool(workers=1) as pool:
            assert await readable(jpeg, workspace, pool=pool) == jpeg
            assert pool.state.started == 0, "what Gemini takes costs no process"
            made = await readable(tiff, workspace, pool=pool)
            assert made == workspace / f"{hashlib.sha256(tiff.read_bytes()).hexdigest()}.png"
            for hostile, reason in ((damaged, "damaged"), (bomb(tmp_path / "bomb.tif"), "million pixels")):
                with pytest.raises(UnreadableImage, match=rf"the image {hostile.name} cannot be read: .*{reason}"):
                    await readable(hostile, workspace, pool=pool)
            with pytest.raises(UnreadableImage, match=r"gone\.tif cannot be read"):
                await readable(tmp_path / "gone.tif", workspace, pool=pool)
        # The pool is closed: what is made already needs none.
        assert await readable(tiff, workspace, pool=pool) == made
        with Image.open(made) as picture:
            assert (picture.format, picture.mode, picture.size) == ("PNG", "L", (40, 30))
        assert list(workspace.iterdir()) == [made]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("mode", "colour", "out", "pixel"),
    [
        ("RGB", (200, 10, 10), "RGB", (200, 10, 10)),
        ("CMYK", (0, 0, 0, 0), "RGB", (255, 255, 255)),
        ("RGBA", (0, 0, 0, 0), "RGB", (255, 255, 255)),
        ("LA", (0, 255), "RGB", (0, 0, 0)),
        ("I;16", 0x8000, "L", 128),
        ("L", 77, "L", 77),
    ],
)
def test_every_kind_of_tiff_becomes_grey_or_colour(
    tmp_path: Path, mode: str, colour: int | tuple[int, ...], out: str, pixel: object
) -> None:
    tiff = tmp_path / "page.tif"
    Image.new(mode, (3, 2), colour).save(tiff)
    digest, (png,) = first_frame(None, [tiff.read_bytes()])
    (tmp_path / "page.png").write_bytes(png)
    with Image.open(tmp_path / "page.png") as picture:
        assert (picture.mode, picture.getpixel((0, 0))) == (out, pixel)
    assert digest == hashlib.sha256(tiff.read_bytes()).hexdigest()


def test_a_picture_that_lies_on_its_side_is_turned(tmp_path: Path) -> None:
    tiff = tmp_path / "page.tif"
    Image.new("L", (30, 10)).save(tiff, tiffinfo={274: 6})
    _, (png,) = first_frame(None, [tiff.read_bytes()])
    (tmp_path / "page.png").write_bytes(png)
    with Image.open(tmp_path / "page.png") as picture:
        assert picture.size == (10, 30)


def test_more_pixels_than_are_decoded_are_refused_before_they_are(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match=f"more than {MOST_PIXELS // 1_000_000} million pixels"):
        first_frame(None, [bomb(tmp_path / "bomb.tif").read_bytes()])
