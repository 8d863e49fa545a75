"""The sample catalogues: the same every time, whole or completed, and ready to run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.pages.configuration import load_run
from penstock.pipelines.pages.samples import Samples, make_samples


def files(samples: Samples) -> dict[str, bytes]:
    found = (path for path in samples.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(samples.folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return make_samples(tmp_path_factory.mktemp("samples") / "printed")


def test_two_books_of_which_one_has_a_gap(printed: Samples) -> None:
    first, second = printed.pages[:6], printed.pages[6:]
    assert [page.page for page in first] == [1, 2, 3, 4, 5, 6]
    assert [page.spelling for page in second] == ["0003", "0004", "0005", "0012", "0013", "0014"]
    assert len({(page.state, page.school, page.year) for page in printed.pages}) == 2
    for page in printed.pages:
        assert printed.label_of(page).is_file()
        with Image.open(printed.image_of(page)) as image:
            assert image.size == (1200, 1800) and image.mode == "RGB"


def test_the_truth_has_every_kind_of_page_and_a_course_that_runs_on(printed: Samples) -> None:
    truths = [printed.truth_of(page) for page in printed.pages]
    assert {truth.page_kind for truth in truths} == {
        "cover", "calendar", "faculty", "admission", "courses", "expenses",
    }  # fmt: skip
    assert sum(len(truth.courses) for truth in truths) > 60
    by_class, described = truths[3].courses[0], truths[9].courses[0]
    assert (by_class.level, by_class.term, by_class.department) == ("FRESHMAN CLASS", "First Term", None)
    assert described.department == "DEPARTMENT OF CHEMISTRY" and described.number == "1" and described.description
    assert truths[10].continues and truths[11].continues, "no page goes on with the one before"
    ends = [truth.courses[-1].description or "" for truth in truths if truth.courses[:1]]
    assert any(not end.endswith("week.") for end in ends[2:]), "no description runs on to the next page"


def test_the_same_seed_gives_the_same_bytes_and_another_one_other_pages(printed: Samples, tmp_path: Path) -> None:
    again = make_samples(tmp_path / "again", books=1, pages=2)
    for page in again.pages:
        assert again.image_of(page).read_bytes() != b""
    whole = files(make_samples(tmp_path / "a", books=1, pages=2))
    assert whole == files(again)
    other = files(make_samples(tmp_path / "b", books=1, pages=2, seed=2))
    assert other.keys() == whole.keys() and not any(other[name] == whole[name] for name in whole if ".jpg" in name)


def test_a_half_written_folder_is_completed_and_what_is_there_is_kept(tmp_path: Path) -> None:
    samples = make_samples(tmp_path / "s", books=2, pages=5, style="tiny")
    whole = files(samples)
    samples.image_of(samples.pages[0]).unlink()
    samples.label_of(samples.pages[7]).write_bytes(b"")
    samples.configuration.write_text("paths: {}")
    make_samples(tmp_path / "s", books=2, pages=5, style="tiny")
    assert files(samples) == {**whole, "pages.yaml": b"paths: {}"}, "a person's own configuration is gone"


def test_tiny_pages_are_small_and_many(tmp_path: Path) -> None:
    samples = make_samples(tmp_path / "s", books=4, pages=50, style="tiny")
    assert len(samples.pages) == len({page.id_string for page in samples.pages}) == 200
    with Image.open(io.BytesIO(samples.image_of(samples.pages[-1]).read_bytes())) as image:
        assert image.size == (400, 200)
    assert samples.truth_of(samples.pages[0]).text_blocks[0].text == "Page 1 of book 1, 1858."


def test_the_configuration_is_ready_to_run(printed: Samples) -> None:
    run = load_run(printed.configuration)
    assert run.paths.label_source_dir == printed.labels.resolve()
    assert run.paths.image_source_dir == printed.images.resolve()
    assert run.paths.output_dir == printed.output.resolve() and not printed.output.exists()
    assert run.prompt.name == "course_catalogue" and run.batch.poll_interval_seconds == 1


def test_samples_of_two_kinds_are_not_mixed(tmp_path: Path) -> None:
    make_samples(tmp_path / "s", books=1, pages=1, style="tiny")
    with pytest.raises(InvalidRequest, match=r"holds other samples .*'seed': 1.* choose another folder"):
        make_samples(tmp_path / "s", books=1, pages=1, style="tiny", seed=2)
    with pytest.raises(InvalidRequest, match="pages must be from 1 to 5,000, not 0"):
        make_samples(tmp_path / "t", pages=0)
    assert not (tmp_path / "t").exists()


def test_books_differ_however_many_there_are(tmp_path: Path) -> None:
    samples = make_samples(tmp_path / "s", books=400, pages=1, style="tiny")
    assert len({page.folder for page in samples.pages}) == 400
