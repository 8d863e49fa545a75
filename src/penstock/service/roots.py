"""Which files and folders of this machine a request may name: those within the roots that the configuration opens to
its tenant. Links are followed before it is decided, and nothing is said about what lies outside, not even whether it is
there. Everything here blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.engine.model import DEFAULT_TENANT
from penstock.service.api.problems import forbidden

TENANT = "{tenant}"


def open_to(roots: Sequence[str], tenant: str) -> list[Path]:
    """The folders of a tenant, resolved. A tenant may be called `..`, and that leads nowhere."""
    if tenant in (".", ".."):
        return []
    told = [root.replace(TENANT, tenant) for root in roots if TENANT in root or tenant == DEFAULT_TENANT]
    return [Path(root).expanduser().resolve() for root in told]


@dataclass(slots=True, frozen=True)
class Refusal:
    """What is wrong with a path."""

    message: str


@dataclass(slots=True, frozen=True)
class Roots:
    """The folders that are open to a tenant, of which there is at least one; `setting` is where they come from."""

    folders: tuple[Path, ...]
    setting: str

    def resolved(self, told: str) -> Path | Refusal:
        """Where a path leads, which need not be there; a relative one from the first of the roots."""
        if told.startswith("~"):
            return Refusal("must be written out: ~ is the home of whoever runs the service")
        try:
            path = (self.folders[0] / told).resolve()
        except (OSError, RuntimeError, ValueError):
            return Refusal("is no folder that can be found")
        if any(path.is_relative_to(folder) for folder in self.folders):
            return path
        return Refusal(f"must lie in a folder that {self.setting} of the service's configuration opens to this tenant")


def roots_of(roots: Sequence[str], tenant: str, *, setting: str) -> Roots:
    """A `Problem` where nothing is open to the tenant."""
    folders = open_to(roots, tenant)
    if not folders:
        raise forbidden(f"no folder is open to the tenant {tenant}: {setting} needs one with {TENANT} in it")
    return Roots(tuple(folders), setting)


def within(path: Path, folder: Path) -> bool:
    """Whether a file lies in this folder when all links are followed."""
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False
