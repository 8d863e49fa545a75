"""What `penstock ingest start` and `plan` can be told of a knowledge base: one set of options for both, collected into
`Given`, and the configuration that it comes to, with what the knowledge base keeps where little was said."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.parameters import DURATION, WholeNumber

if TYPE_CHECKING:
    from penstock.pipelines.ingestion.bases import Base
    from penstock.pipelines.ingestion.model import ChunkerSpec, Configuration, EmbedderSpec

F = TypeVar("F", bound=Callable[..., Any])

_KEY = "penstock.ingest.given"
NEVER = 0.0
"""What `--every never` is."""


class Every(click.ParamType[float]):
    """`15m`, `6h`, `1d`, `1w`; `never`."""

    name = "every"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        if value == "never":
            return NEVER
        from penstock.config.duration import seconds

        days = f"{value.removesuffix('w')}d" if value.endswith("w") else value
        try:
            return seconds(days) * (7 if value.endswith("w") else 1)
        except ValueError:
            self.fail(
                f"{value!r} must be a length of time that divides a day, or a week: a number with m, h, d or w, such as"
                " 15m, 6h, 1d, 1w; or never",
                param, ctx,
            )  # fmt: skip


EVERY = Every()


@dataclass(slots=True)
class Given:
    """The options as they were written; None or empty: not said."""

    markdown: tuple[str, ...] = ()
    pdf: tuple[str, ...] = ()
    website: tuple[str, ...] = ()
    youtube: tuple[str, ...] = ()
    subtitles: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    prefix: str | None = None
    max_pages: int | None = None
    delay: float | None = None
    language: tuple[str, ...] = ()
    chunker: str | None = None
    size: int | None = None
    overlap: int | None = None
    embedder: str | None = None
    model: str | None = None
    dimension: int | None = None
    batch: bool | None = None
    prune: bool | None = None

    def words(self) -> str:
        """The same once more, for another command."""
        told = ""
        for each in fields(self):
            value, name = getattr(self, each.name), each.name.replace("_", "-")
            if isinstance(value, bool):
                told += f" --{'' if value else 'no-'}{name}"
            elif value is not None:
                several = value if isinstance(value, tuple) else (value,)
                told += "".join(
                    f" --{name} {shlex.quote(f'{one:g}' if isinstance(one, float) else str(one))}" for one in several
                )
        return told

    @property
    def chunking(self) -> dict[str, Any]:
        return _said(name=self.chunker, size=self.size, overlap=self.overlap)

    @property
    def embedding(self) -> dict[str, Any]:
        return _said(name=self.embedder, model=self.model, dimension=self.dimension, batch=self.batch)

    @property
    def anything_beside_sources(self) -> bool:
        return bool(self.chunking or self.embedding or self.prune is not None)


def _said(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def given() -> Given:
    """What was said on the command line that is carried out."""
    found: Given = click.get_current_context().meta.setdefault(_KEY, Given())
    return found


def _note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if parameter.name is not None and value not in (None, ()):
        setattr(context.meta.setdefault(_KEY, Given()), parameter.name, value)


def source_options(function: F) -> F:
    """Where documents come from, how they are cut, and what makes vectors of them."""

    def option(*names: str, **more: Any) -> Callable[[F], F]:
        return click.option(*names, expose_value=False, callback=_note, **more)

    def several(*names: str, **more: Any) -> Callable[[F], F]:
        return option(*names, multiple=True, **more)

    options = (
        several("--markdown", metavar="FOLDER", help="The Markdown and text below it. Repeatable, as all these."),
        several("--pdf", metavar="FOLDER|FILE|URL", help="PDFs: a folder of them, one, or one on the web."),
        several("--website", metavar="URL", help="The pages of a site, from this one on."),
        several("--youtube", metavar="ID|URL", help="What is said in a video, or in those of a playlist."),
        several("--subtitles", metavar="FOLDER|FILE", help="VTT, SRT and SBV files."),
        several("--source", metavar="JSON", help="""Any source: '{"type": "…", …}', your own types too."""),
        option("--prefix", metavar="PATH", help="Of websites only pages whose path begins so, such as /docs/."),
        option("--max-pages", type=WholeNumber(1, 100_000), metavar="N", help="Of each website at most so many pages."),
        option("--delay", type=DURATION, metavar="DURATION", help="Between two requests to a website; 1s unless told."),
        several("--language", metavar="CODE", help="Of transcripts, the best first; en unless told."),
        option("--chunker", metavar="NAME", help="markdown, sentence, fixed, or your own; markdown unless told."),
        option("--size", type=WholeNumber(16, 8000), metavar="N", help="Tokens of a chunk; 800 unless told."),
        option("--overlap", type=WholeNumber(0, 4000), metavar="N", help="Repeated in the next one; 150 unless told."),
        option("--embedder", metavar="NAME", help="local, gemini, openai, or your own; local unless told."),
        option("--model", metavar="NAME", help="The embedder's model; its default unless told."),
        option("--dimension", type=WholeNumber(1, 16_000), metavar="N", help="Of vectors; its default unless told."),
        option("--batch/--no-batch", default=None, help="Embed through Gemini Batch, at half the price."),
        option("--prune/--no-prune", default=None, help="Remove documents that the sources no longer have."),
    )  # fmt: skip
    for each in reversed(options):
        function = each(function)
    return function


def configuration(said: Given, sources: list[dict[str, Any]], kept: Configuration | None) -> Configuration | None:
    """With sources, what was said; without, what is kept, changed by what was said. None: what is kept, as it is."""
    from pydantic import ValidationError

    from penstock.engine.errors import InvalidRequest
    from penstock.pipelines.ingestion.model import Configuration

    if not sources and (kept is None or not said.anything_beside_sources):
        return None
    chunker, embedder, prune = said.chunking, said.embedding, bool(said.prune)
    if sources:
        told: dict[str, Any] = {"sources": sources, "chunker": _with_overlap(chunker), "embedder": embedder}
    else:
        assert kept is not None
        told = {"sources": kept.sources, "chunker": _with_overlap(chunker, kept.chunker)}
        told["embedder"] = _merged(kept.embedder, embedder)
        prune = kept.prune if said.prune is None else said.prune
    try:
        return Configuration.model_validate({**told, "prune": prune})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None


def kept_of(base: Base | None, *, rebuild: bool) -> Configuration | None:
    """What a knowledge base keeps: for another filling all of it, else what a run may choose."""
    from penstock.pipelines.ingestion.control import sources_of

    if base is None:
        return None
    return base.config if rebuild else sources_of(base)


def _with_overlap(said: dict[str, Any], kept: ChunkerSpec | None = None) -> dict[str, Any]:
    """Where a size was said that the usual overlap does not fit, one in the usual proportion."""
    from penstock.pipelines.ingestion.model import DEFAULT_OVERLAP, DEFAULT_SIZE

    chunker = {**({} if kept is None else kept.model_dump(exclude_unset=True)), **said}
    size, overlap = chunker.get("size", DEFAULT_SIZE), chunker.get("overlap", DEFAULT_OVERLAP)
    if "overlap" not in said and overlap > size // 2:
        chunker["overlap"] = size * DEFAULT_OVERLAP // DEFAULT_SIZE
    return chunker


def _merged(kept: EmbedderSpec, said: dict[str, Any]) -> dict[str, Any]:
    """A model belongs to its embedder, and a dimension to its model."""
    have = kept.model_dump(exclude_unset=True)
    if said.get("name", kept.name) != kept.name:
        return said
    if said.get("model", kept.model) != kept.model:
        have.pop("dimension", None)
    return {**have, **said}
