"""The walk over label and output trees: what changed is seen, whenever it changed, and nothing else is read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.engine.errors import Transient
from penstock.pipelines.pages.model import Filters, Years
from penstock.pipelines.pages.walk import MARK, MOST_IGNORED, Known, Sighting, Walk, check_mark, mark

HOUR = 3600 * 10**9


@dataclass
class Shelf:
    """Two trees, and what earlier passes noted of them."""

    root: Path
    known: dict[str, Known] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    filters: Filters = field(default_factory=Filters)
    slice: int = 500
    ignored: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    folders_changed: bool = False

    @property
    def labels(self) -> Path:
        return self.root / "labels"

    @property
    def outputs(self) -> Path:
        return self.root / "outputs"

    def label(self, book: str, *names: str) -> None:
        _files(self.labels / book, names)

    def output(self, book: str, *names: str) -> None:
        _files(self.outputs / book, names)

    def age(self) -> None:
        """Nothing changed for an hour: by now every time can be trusted."""
        for at, _, _ in os.walk(self.root, followlinks=True):
            then = Path(at).stat().st_mtime_ns - HOUR
            os.utime(at, ns=(then, then))

    def look(self) -> dict[str, Sighting]:
        """One pass, and everything it saw is noted."""

        def admits(state: str, year: int | None) -> bool:
            states = self.filters.target_states
            return states is None or state in states if year is None else self.filters.admits(state, year)

        walk = Walk(self.labels, self.outputs, dict(self.known), dict(self.folders), admits)
        seen: dict[str, Sighting] = {}
        while some := walk.step(self.slice):
            assert len(some) <= self.slice
            seen |= {sighting.book: sighting for sighting in some}
        for book, sighting in seen.items():
            self.known[book] = Known(sighting.label_seen, sighting.output_seen)
        for book in walk.gone:
            del self.known[book]
        self.gone, self.ignored, self.folders_changed = walk.gone, walk.ignored, walk.folders_changed
        self.folders = walk.folders
        return seen


def _files(folder: Path, names: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.json").write_text("{}")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    (tmp_path / "labels").mkdir()
    return Shelf(tmp_path)


@pytest.fixture
def settled(shelf: Shelf) -> Shelf:
    """Two books that were seen, and then nothing happened."""
    shelf.label("Ohio/Oberlin/1850", "0001", "0002")
    shelf.label("Iowa/Grinnell/1861", "1")
    shelf.output("Ohio/Oberlin/1850", "0001")
    shelf.age()
    shelf.look()
    assert shelf.look() == {}
    assert not shelf.folders_changed
    return shelf


def test_an_empty_tree_has_no_books(shelf: Shelf) -> None:
    assert shelf.look() == {}
    assert shelf.gone == [] and shelf.ignored == {}


def test_the_first_pass_sees_every_book_with_its_labels_and_outputs(shelf: Shelf) -> None:
    shelf.label("Ohio/Oberlin/1850", "0002", "0001", "cover")
    shelf.label("Ohio/Ob:erlin 50%/1851", "7")
    shelf.output("Ohio/Oberlin/1850", "0001", ".0002.json.hidden")
    seen = shelf.look()
    assert set(seen) == {"Ohio/Oberlin/1850", "Ohio/Ob:erlin 50%/1851"}
    found = seen["Ohio/Oberlin/1850"]
    assert (found.state, found.school, found.year) == ("Ohio", "Oberlin", 1850)
    assert sorted(found.labels or ()) == ["0001", "0002", "cover"]
    assert found.outputs == ["0001"]
    assert seen["Ohio/Ob:erlin 50%/1851"].outputs == []


def test_slices_of_any_size_see_the_same(shelf: Shelf) -> None:
    for year in range(1850, 1857):
        shelf.label(f"Ohio/Oberlin/{year}", "1")
    shelf.age()
    shelf.slice = 2
    assert len(shelf.look()) == 7
    assert shelf.look() == {}


def test_only_pages_are_listed(shelf: Shelf) -> None:
    folder = shelf.labels / "Ohio/Oberlin/1850"
    folder.mkdir(parents=True)
    for name in ("0001.json", ".0002.json", "0003.json.tmp", "0004.JSON", "notes.txt", ".json", "x.json"):
        (folder / name).touch()
    assert sorted(shelf.look()["Ohio/Oberlin/1850"].labels or ()) == ["0001", "x"]


def test_a_new_label_is_seen_together_with_the_outputs_as_its_own_may_be_there_already(settled: Shelf) -> None:
    settled.label("Ohio/Oberlin/1850", "0003")
    (found,) = settled.look().values()
    assert sorted(found.labels or ()) == ["0001", "0002", "0003"]
    assert found.outputs == ["0001"]


def test_a_new_book_of_a_known_school_is_seen(settled: Shelf) -> None:
    settled.label("Ohio/Oberlin/1851", "1")
    assert list(settled.look()) == ["Ohio/Oberlin/1851"]


def test_a_deleted_output_is_seen(settled: Shelf) -> None:
    (settled.outputs / "Ohio/Oberlin/1850/0001.json").unlink()
    (found,) = settled.look().values()
    assert found.outputs == [] and found.labels is None


def test_outputs_that_were_removed_with_their_folder_are_seen(settled: Shelf) -> None:
    (settled.outputs / "Ohio/Oberlin/1850/0001.json").unlink()
    (settled.outputs / "Ohio/Oberlin/1850").rmdir()
    (found,) = settled.look().values()
    assert found.outputs == []
    assert settled.look() == {}


def test_the_first_output_of_a_book_is_seen(settled: Shelf) -> None:
    settled.output("Iowa/Grinnell/1861", "1")
    (found,) = settled.look().values()
    assert found.book == "Iowa/Grinnell/1861" and found.outputs == ["1"]


@pytest.mark.parametrize("tree", ["labels", "outputs"])
def test_a_change_in_the_same_moment_as_the_one_before_is_seen(shelf: Shelf, tree: str) -> None:
    book = "Ohio/Oberlin/1850"
    shelf.label(book, "0001")
    shelf.output(book, "0001")
    shelf.look()
    folder = shelf.root / tree / book
    before = folder.stat().st_mtime_ns
    (folder / "0002.json").touch()
    os.utime(folder, ns=(before, before))
    found = shelf.look()[book]
    assert "0002" in ((found.labels if tree == "labels" else found.outputs) or ())


def test_a_new_folder_in_the_same_moment_as_the_one_before_is_seen(shelf: Shelf) -> None:
    shelf.label("Ohio/Oberlin/1850", "1")
    shelf.look()
    school = shelf.labels / "Ohio/Oberlin"
    before = school.stat().st_mtime_ns
    shelf.label("Ohio/Oberlin/1851", "1")
    os.utime(school, ns=(before, before))
    assert "Ohio/Oberlin/1851" in shelf.look()


def test_folders_of_1970_are_seen_once(settled: Shelf) -> None:
    """Archives that want to be the same every time date everything so."""
    book = settled.labels / "Ohio/Oberlin/1850"
    os.utime(book, ns=(0, 0))
    assert list(settled.look()) == ["Ohio/Oberlin/1850"]
    assert settled.look() == {}


@pytest.mark.parametrize("gone", ["Ohio/Oberlin/1850", "Ohio/Oberlin", "Ohio"])
def test_a_book_whose_folder_was_removed_is_gone(settled: Shelf, gone: str) -> None:
    (settled.labels / gone).rename(settled.root / "elsewhere")
    assert settled.look() == {}
    assert settled.gone == ["Ohio/Oberlin/1850"]
    (settled.root / "elsewhere").rename(settled.labels / gone)
    assert list(settled.look()) == ["Ohio/Oberlin/1850"]


def test_a_folder_that_is_a_link_is_followed(shelf: Shelf, tmp_path: Path) -> None:
    _files(tmp_path / "disk/Oberlin/1850", ("1",))
    (shelf.labels / "Ohio").symlink_to(tmp_path / "disk")
    assert list(shelf.look()) == ["Ohio/Oberlin/1850"]
    shelf.age()
    shelf.look()
    _files(tmp_path / "disk/Oberlin/1850", ("2",))
    assert sorted(shelf.look()["Ohio/Oberlin/1850"].labels or ()) == ["1", "2"]


@pytest.mark.parametrize("link", ["Ohio", "Ohio/Oberlin", "Ohio/Oberlin/1850"])
@pytest.mark.parametrize("seen_before", [True, False])
def test_what_a_link_led_to_is_gone_and_comes_back(shelf: Shelf, link: str, seen_before: bool) -> None:
    _files(shelf.root / "disk" / "Ohio/Oberlin/1850", ("1",))
    (shelf.labels / link).parent.mkdir(parents=True, exist_ok=True)
    (shelf.labels / link).symlink_to(shelf.root / "disk" / link)
    shelf.age()
    if seen_before:
        assert list(shelf.look()) == ["Ohio/Oberlin/1850"]
    (shelf.root / "disk").rename(shelf.root / "unmounted")
    assert shelf.look() == {}
    assert shelf.look() == {}
    assert shelf.known == {}
    (shelf.root / "unmounted").rename(shelf.root / "disk")
    assert list(shelf.look()) == ["Ohio/Oberlin/1850"]


@pytest.mark.parametrize("part", ["Ohio", "Ohio/Oberlin", "Ohio/Oberlin/1850"])
def test_what_cannot_be_read_is_named_kept_and_seen_when_it_comes_back(settled: Shelf, part: str) -> None:
    """A link that leads to itself cannot be read by anybody, the administrator included."""
    folder = settled.labels / part
    folder.rename(settled.root / "elsewhere")
    folder.symlink_to(folder)
    assert settled.look() == {}
    assert settled.gone == [] and "Ohio/Oberlin/1850" in settled.known
    assert any(path.startswith("Ohio") and "cannot be read" in why for path, why in settled.ignored.items())
    folder.unlink()
    (settled.root / "elsewhere").rename(folder)
    settled.label("Ohio/Oberlin/1850", "0003")
    assert list(settled.look()) == ["Ohio/Oberlin/1850"]


def test_a_book_that_could_not_be_read_at_first_is_seen_later_though_no_time_changes(shelf: Shelf) -> None:
    shelf.label("Ohio/Oberlin/1850", "1")
    book, school = shelf.labels / "Ohio/Oberlin/1850", shelf.labels / "Ohio/Oberlin"
    book.rename(shelf.root / "elsewhere")
    book.symlink_to(book)
    shelf.age()
    then = school.stat().st_mtime_ns
    assert shelf.look() == {}
    assert shelf.ignored["Ohio/Oberlin/1850"].startswith("cannot be read")
    book.unlink()
    (shelf.root / "elsewhere").rename(book)
    os.utime(school, ns=(then, then))
    assert list(shelf.look()) == ["Ohio/Oberlin/1850"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may read everything")
def test_a_folder_without_permission_is_named_and_seen_when_it_is_given(shelf: Shelf) -> None:
    shelf.label("Ohio/Oberlin/1850", "1")
    shelf.age()
    (shelf.labels / "Ohio").chmod(0)
    assert shelf.look() == {}
    assert shelf.ignored == {"Ohio": "cannot be read: Permission denied"}
    (shelf.labels / "Ohio").chmod(0o755)
    assert list(shelf.look()) == ["Ohio/Oberlin/1850"]


def test_a_file_where_a_book_has_its_outputs_is_named(shelf: Shelf) -> None:
    shelf.label("Ohio/Oberlin/1850", "1")
    shelf.outputs.mkdir()
    (shelf.outputs / "Ohio").write_text("in the way")
    assert shelf.look() == {}
    assert shelf.ignored == {f"{shelf.outputs}/Ohio/Oberlin/1850": "cannot be read: Not a directory"}


def test_folders_that_are_no_books_are_named_and_hidden_ones_are_not(shelf: Shelf) -> None:
    for name in ("1850", "01850", "185x", "18500", "-1", "١٨٥٠", ".git"):
        shelf.label(f"Ohio/Oberlin/{name}", "1")
    (shelf.labels / os.fsdecode(b"Caf\xe9")).mkdir()
    (shelf.labels / "README.md").touch()
    assert list(shelf.look()) == ["Ohio/Oberlin/1850"]
    named = {f"Ohio/Oberlin/{name}" for name in ("01850", "185x", "18500", "-1", "١٨٥٠")}
    assert shelf.ignored == dict.fromkeys(named, "the folder's name is no year") | {
        "'/Caf\\udce9'": "the name is not UTF-8"
    }


def test_a_tree_of_something_else_does_not_fill_the_list(shelf: Shelf) -> None:
    for number in range(MOST_IGNORED + 10):
        (shelf.labels / "node_modules/thing" / f"part{number}").mkdir(parents=True)
    shelf.look()
    assert len(shelf.ignored) == MOST_IGNORED


def test_states_that_are_filtered_out_are_not_walked(shelf: Shelf) -> None:
    shelf.label("Ohio/Oberlin/1850", "1")
    shelf.label("Iowa/Grinnell/nothing", "1")
    shelf.filters = Filters(target_states=("Ohio",))
    assert list(shelf.look()) == ["Ohio/Oberlin/1850"]
    assert shelf.ignored == {} and set(shelf.folders) == {"", "Ohio", "Ohio/Oberlin"}


def test_years_are_filtered_and_books_that_a_new_filter_leaves_out_are_gone(shelf: Shelf) -> None:
    for year in (1849, 1850, 1851):
        shelf.label(f"Ohio/Oberlin/{year}", "1")
        shelf.label(f"Iowa/Grinnell/{year}", "1")
    shelf.filters = Filters(target_years=Years(start=1850))
    assert {sighting.year for sighting in shelf.look().values()} == {1850, 1851}
    shelf.filters = Filters(target_states=("Ohio",), target_years=Years(start=1850, end=1850))
    shelf.look()
    assert set(shelf.known) == {"Ohio/Oberlin/1850"}


def test_a_label_folder_that_is_not_there_is_waited_for(shelf: Shelf) -> None:
    shelf.labels.rmdir()
    with pytest.raises(Transient, match=r"paths\.label_source_dir: .* cannot be read .*mounted"):
        shelf.look()


def test_an_output_folder_without_its_mark_is_another_folder(tmp_path: Path) -> None:
    check_mark(tmp_path / "new", "ours", done=0)
    mark(tmp_path / "new", "ours")
    check_mark(tmp_path / "new", "ours", done=5)
    (tmp_path / "new" / MARK).unlink()
    with pytest.raises(Transient, match="no mark"):
        check_mark(tmp_path / "new", "ours", done=5)
