"""What a batch is asked: checked row by row, counted, and written as the JSON lines that Gemini reads. Streamed: two
gigabytes of requests do not fill memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from penstock.engine.call import Usage
from penstock.engine.errors import InvalidRequest
from penstock.remote.gemini.lines import SLICE, decoded, encoded, lines
from penstock.remote.gemini.requests import PLACEHOLDER, mime_of, placeholders, uri_of
from penstock.remote.gemini.rows import NOTHING, Kind
from penstock.remote.gemini.settings import Seconds, Transfers
from penstock.remote.gemini.shelf import Wanted
from penstock.remote.gemini.tokens import input_tokens, output_tokens
from penstock.remote.gemini.upload import Uploaded
from penstock.remote.prices import Price

Mode = Literal["auto", "file", "inline"]

LONGEST_KEY = 512
LONGEST_PREFIX = 64


def _sound_prefix(prefix: str) -> str:
    """The batch is found again by its whole name, so nothing in it may be of a kind that is trimmed or rewritten."""
    if not prefix.isprintable() or prefix != prefix.lstrip():
        raise ValueError("must be printable characters, and not begin with a space")
    return prefix


def _option(default: Any) -> Any:
    """Not written where it is not used: calls are known by a digest of their request, also those that were made before
    there were options."""
    return Field(default=default, exclude_if=lambda value: value == default)


Prefix = Annotated[str, Field(max_length=LONGEST_PREFIX), AfterValidator(_sound_prefix)]


class BatchRow(BaseModel):
    """One request: `key` names it within the batch, `request` is REST's JSON (`requests.py` builds it)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    request: dict[str, Any]


class BatchRequest(BaseModel):
    """What a batch call is asked: rows here, or a file of JSON lines of the same form.

    A row names a local file as `penstock-file:NAME`: NAME is one of `uploads`, or a path in `uploads_folder`. Answers
    are held against `json_schema`.

    `display_prefix` comes before our label in the batch's name at Gemini. `poll_every` is the seconds between polls of
    this batch, always the same, and `overdue_after` those after which it is shown as overdue; None: as the settings
    say. `transfers`: how its files are uploaded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = None
    kind: Kind = "generate"
    requests: tuple[BatchRow, ...] | None = None
    file: Path | None = None
    mode: Mode = "auto"
    json_schema: dict[str, Any] | None = None
    uploads: dict[str, Path] = Field(default_factory=dict)
    uploads_folder: Path | None = None
    share_uploads: bool = False
    display_prefix: Prefix = _option("")
    poll_every: Seconds | None = _option(None)
    overdue_after: Seconds | None = _option(None)
    transfers: Transfers | None = _option(None)

    @model_validator(mode="after")
    def _one_source(self) -> BatchRequest:
        if (self.requests is None) == (self.file is None):
            raise ValueError("give either requests or a file of them")
        return self

    def kept_options(self) -> dict[str, Any]:
        """What is to be known of the batch as long as it lives, by whoever looks after it."""
        return self.model_dump(include={"display_prefix", "poll_every", "overdue_after"})

    def wanted(self, name: str, mime: str | None) -> Wanted:
        """The local file a row names. Nothing outside of what the request declares can be reached."""
        path = self.uploads.get(name)
        if path is None and self.uploads_folder is not None:
            path = self.uploads_folder / name
            if not path.resolve().is_relative_to(self.uploads_folder.resolve()):
                raise InvalidRequest(f"{PLACEHOLDER}{name} leads out of {self.uploads_folder}")
        if path is None:
            raise InvalidRequest(f"{PLACEHOLDER}{name} is not among the request's uploads")
        return Wanted(path, mime or mime_of(path.name), shared=self.share_uploads)


@dataclass(slots=True)
class Counted:
    """What the rows come to. `charge` is the estimate, in millionths of a millionth of a dollar."""

    rows: int = 0
    size: int = 0
    usage: Usage = NOTHING
    charge: int = 0
    sample: list[Mapping[str, Any]] = field(default_factory=list)
    wanted: dict[str, Wanted] = field(default_factory=dict)


class Scan:
    """The first pass: every row is checked and counted before anything is uploaded or paid."""

    def __init__(
        self, request: BatchRequest, *, model: str, most_output: int, price: Price | None, sample: int
    ) -> None:
        self._request = request
        self._model = model
        self._most_output = most_output
        self._price = price
        self._sample = sample
        self._keys: set[bytes] = set()
        self._sizes: dict[str, int] = {}
        self._rows = source_rows(request)
        self.counted = Counted()

    def step(self) -> bool:
        """Check a slice; False when there is no more."""
        end = self.counted.size + SLICE
        for number, line in self._rows:
            self._check(number, line)
            if self.counted.size >= end:
                return True
        if not self.counted.rows:
            raise InvalidRequest("the batch has no rows")
        return False

    def _check(self, number: int, line: bytes | None) -> None:
        value, damage = (None, "too long") if line is None else decoded(line)
        if damage is not None or not isinstance(value, dict) or set(value) != {"key", "request"}:
            raise InvalidRequest(
                f"row {number}: must be an object with key and request{f' ({damage})' if damage else ''}"
            )
        key, request = value["key"], value["request"]
        if not isinstance(key, str) or not key or len(key) > LONGEST_KEY:
            raise InvalidRequest(f"row {number}: its key must be text of 1 to {LONGEST_KEY} characters")
        mark = hashlib.blake2b(key.encode(), digest_size=16).digest()
        if mark in self._keys:
            raise InvalidRequest(
                f"row {number}: the key {key[:80]!r} is there already; results are joined by key alone"
            )
        self._keys.add(mark)
        needed = "content" if self._request.kind == "embed" else "contents"
        if not isinstance(request, dict) or not request.get(needed):
            raise InvalidRequest(f"row {number} ({key[:80]!r}): a request to {self._request.kind} needs {needed}")
        for place in placeholders(request):
            self._want(place, key)
        self._count(request, len(line or b""))

    def _want(self, place: Mapping[str, Any], key: str) -> None:
        name = uri_of(place).removeprefix(PLACEHOLDER)
        if name in self.counted.wanted:
            return
        wanted = self._request.wanted(name, place.get("mimeType") or place.get("mime_type"))
        try:
            self._sizes[PLACEHOLDER + name] = wanted.path.stat().st_size
        except OSError as error:
            where = wanted.path.resolve()
            raise InvalidRequest(f"row {key[:80]!r}: {where} cannot be read: {error.strerror}") from error
        self.counted.wanted[name] = wanted

    def _count(self, request: Mapping[str, Any], size: int) -> None:
        generates = self._request.kind == "generate"
        usage = Usage(
            input=input_tokens(request, self._model, self._sizes),
            output=output_tokens(request, self._most_output) if generates else 0,
        )
        counted = self.counted
        counted.rows += 1
        counted.size += size + 1
        counted.usage += usage
        counted.charge += self._price.charge(usage) if self._price else 0
        if len(counted.sample) < self._sample:
            counted.sample.append(request)


class Writing:
    """The second pass: the rows as Gemini gets them, with the addresses of what was uploaded, and their keys apart."""

    def __init__(self, request: BatchRequest, files: Mapping[str, Uploaded], rows: BinaryIO, keys: BinaryIO) -> None:
        self._files = files
        self._out = rows
        self._keys = keys
        self._rows = source_rows(request)
        self.size = 0

    def step(self) -> bool:
        end = self.size + SLICE
        for _, line in self._rows:
            value = decoded(line or b"")[0]
            if self._files and PLACEHOLDER.encode() in (line or b""):
                for place in placeholders(value["request"]):
                    uploaded = self._files[uri_of(place).removeprefix(PLACEHOLDER)]
                    place.pop("file_uri", None)
                    place["fileUri"] = uploaded.uri
                line = encoded(value).rstrip(b"\n")
            self._out.write((line or b"") + b"\n")
            self._keys.write(encoded(value["key"]))
            self.size += len(line or b"") + 1
            if self.size >= end:
                return True
        return False


def source_rows(request: BatchRequest) -> Iterator[tuple[int, bytes | None]]:
    """The rows as lines, numbered from 1, from wherever they are."""
    if request.requests is not None:
        for number, row in enumerate(request.requests, 1):
            yield number, encoded(row.model_dump(mode="json")).rstrip(b"\n")
        return
    assert request.file is not None
    try:
        with request.file.open("rb") as file:
            yield from enumerate(lines(file), 1)
    except OSError as error:
        raise InvalidRequest(f"{request.file} cannot be read: {error.strerror}") from error
