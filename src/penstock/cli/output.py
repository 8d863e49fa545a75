"""Where a command's words go: results to stdout, notes to stderr; with `--json` only JSON goes to stdout."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

STATUS_STYLES = {
    "queued": "cyan",
    "running": "bold blue",
    "waiting": "magenta",
    "paused": "yellow",
    "canceling": "yellow",
    "completed": "green",
    "failed": "bold red",
    "canceled": "bright_black",
}

SIGNS = {
    "queued": "·",
    "running": "▸",
    "waiting": "◷",
    "paused": "‖",
    "canceling": "×",
    "completed": "✓",
    "failed": "✗",
    "canceled": "×",
}

_PASSWORD = re.compile(r"(://[^:/\s]*):\S*@")
"""Up to the last @ of the word: a password that should have been written with %40 is hidden all the same."""
_PASSWORD_OPTION = re.compile(r"([?&](?:ssl)?password=)[^&\s]*", re.I)
_TOKEN = re.compile(r"penstock_(?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{20,}")
"""Of a token, or the first part of one; a metric's name has neither capitals nor digits."""


def without_password(text: str) -> str:
    """The text, with the password of every URL in it hidden, and so every token of the service."""
    return _TOKEN.sub("penstock_***", _PASSWORD_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text)))


_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """Somebody else's text: nothing in it moves the cursor, colours the terminal or turns the line around. Such
    characters are shown as their numbers; ends of lines and tabs stay."""
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def counted(amount: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


class Output:
    """The output of one command."""

    def __init__(self, *, json: bool, quiet: bool) -> None:
        self.json = json
        self.quiet = quiet

    @property
    def live(self) -> bool:
        """Whether somebody looks at a terminal that can be redrawn. Live views go to stderr, so stdout stays clean."""
        return sys.stderr.isatty() and not self.quiet

    @property
    def fancy(self) -> bool:
        """Whether results are read by a person on a terminal."""
        return sys.stdout.isatty() and not self.json

    def console(self, *, stderr: bool = False) -> Console:
        from rich.console import Console

        return Console(stderr=stderr or self.json, highlight=False)

    def data(self, value: Any) -> None:
        """The command's result for programs, if they asked."""
        if self.json:
            click.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))

    def result(self, text: str) -> None:
        """The command's result for people."""
        if not self.json:
            click.echo(without_password(text))

    def tell(self, text: str) -> None:
        """What is good to know, and can be left out."""
        if not self.quiet:
            click.echo(without_password(text), err=self.json)

    def remark(self, text: str) -> None:
        """What happened on the way to the result; to stderr, so that the result can be piped on."""
        if not self.quiet:
            click.echo(without_password(text), err=True)

    def note(self, text: str) -> None:
        """What the reader may want to do something about."""
        if not self.quiet:
            click.echo(click.style(without_password(text), fg="yellow"), err=True)

    def wrong(self, text: str) -> None:
        """One thing of several went wrong; the rest goes on."""
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {without_password(text)}", err=True)


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, for pipes and logs: nothing is cut off, nothing is coloured."""
    rows = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(len(line[n]) for line in (headings, *rows)) for n in range(len(headings))]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in (headings, *rows))
    return "\n".join("  ".join(cells).rstrip() for cells in padded)
