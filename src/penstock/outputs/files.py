"""Whole files or none: written beside their place, synced, and moved there in one step.

A worker writes a *version*, a hidden file named by the job and its claim, so that two workers that believe to hold
the same job never write the same file. The commit records which version counts; only then does the public name point
at it.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from penstock.engine.errors import InvalidRequest, Transient

Content = bytes | Callable[[BinaryIO], object]
"""The bytes themselves, or a function that writes them to an open file."""


@dataclass(slots=True, frozen=True)
class Stored:
    """A version on the disk: where it lies (relative to the outputs' root), and what is in it."""

    name: str
    version: str
    sha256: str
    size: int


def checked_output(name: str) -> PurePosixPath:
    """A relative path with no way out of its folder, or `InvalidRequest`."""
    path = PurePosixPath(name)
    parts = path.parts
    unsafe = path.is_absolute() or not parts or any(part in ("..", ".") or part.startswith(".") for part in parts)
    if (
        unsafe
        or "\x00" in name
        or "\\" in name
        or len(name.encode()) > 800
        or any(len(part.encode()) > 180 for part in parts)
        or str(path) != name
    ):
        raise InvalidRequest(
            f"output {name[:80]!r} must be a plain relative path, without '..', hidden parts or backslashes"
        )
    return path


def store_version(root: Path, name: str, content: Content, *, job: str, epoch: int) -> Stored:
    """Write one version of an output: durable when this returns, but not yet public. Its name says what is in it, so
    that a second content under the same claim is a second file."""
    return store_versions(root, {name: content}, job=job, epoch=epoch)[0]


def store_versions(root: Path, contents: Mapping[str, Content], *, job: str, epoch: int) -> list[Stored]:
    """The same for several outputs; each folder is synced once."""
    stored, folders = [], set()
    for name, content in contents.items():
        path = checked_output(name)
        target = root / path
        with _disk_errors(target):
            temporary = _written(target, content)
            try:
                digest, size = _told_by(content) if isinstance(content, bytes) else fingerprint(temporary)
                version = path.with_name(f".{path.name}.{job}.{epoch}.{digest[:16]}")
                temporary.replace(root / version)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        stored.append(Stored(name, str(version), digest, size))
        folders.add(target.parent)
    for folder in folders:
        with _disk_errors(folder):
            sync_folder(folder)
    return stored


def drop_older(root: Path, stored: Stored, previous: str | None) -> None:
    """Remove the version that was replaced, and those this job wrote under claims it lost. Called once `stored` is
    public."""
    current = root / stored.version
    stem, epoch, _ = current.name.rsplit(".", 2)
    older = list(current.parent.glob(f"{glob.escape(stem)}.*")) if int(epoch) > 1 else []
    for version in older if previous is None else [*older, root / previous]:
        if version != current:
            version.unlink(missing_ok=True)


def atomic_write(target: Path, content: Content) -> None:
    """Put a file in its place whole, or leave what was there."""
    with _disk_errors(target):
        temporary = _written(target, content)
        try:
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)


def quick_write(target: Path, content: bytes) -> None:
    """Put a file in its place whole, without waiting for the disk: for what can be made again."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{secrets.token_hex(4)}.tmp")
    try:
        beside.write_bytes(content)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _written(target: Path, content: Content) -> Path:
    """The content in a file beside its place, synced."""
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with _begun(temporary) as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _begun(path: Path) -> BinaryIO:
    """A new file; its folder is made where there is none, which is seldom."""
    try:
        return path.open("xb")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")


def publish(root: Path, stored: Stored) -> bool:
    """Let the public name show this version: for good once its folder is synced. False when the version is gone (a
    newer one has taken its place)."""
    source, public = root / stored.version, root / checked_output(stored.name)
    link = public.with_name(f".{secrets.token_hex(8)}.link")
    with _disk_errors(public):
        try:
            try:
                os.link(source, link)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EXDEV):
                    raise
                atomic_write(link, source.read_bytes())
        except FileNotFoundError:
            return False
        try:
            link.replace(public)
        finally:
            # A rename onto another name of the same file does nothing, and leaves both.
            link.unlink(missing_ok=True)
    return True


def fingerprint(path: Path) -> tuple[str, int]:
    """A file's SHA-256 and size."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, file.tell()


def _told_by(content: bytes) -> tuple[str, int]:
    return hashlib.sha256(content).hexdigest(), len(content)


def sync_folder(folder: Path) -> None:
    """A rename is durable when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _disk_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Transient(f"no space left for {target.name}: free some; nothing partial was left behind") from error
        raise
