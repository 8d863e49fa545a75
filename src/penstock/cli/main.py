"""The entry point: finds the command, and turns every error into one sentence and an exit code.

0 done · 1 the work failed · 2 wrong use, bad input · 130 interrupted
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys

import click

from penstock import __version__
from penstock.cli.command import LazyGroup
from penstock.engine.errors import (
    InvalidRequest,
    PenstockError,
    SchemaMismatch,
    StoreFull,
    StoreReadOnly,
)

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

_OURS_TO_MEND = (InvalidRequest, SchemaMismatch, StoreReadOnly, StoreFull)

COMMANDS = {
    "up": "penstock.cli.up",
    "init": "penstock.cli.init",
    "pages": "penstock.cli.pages",
    "documents": "penstock.cli.documents",
    "ingest": "penstock.cli.ingest",
    "review": "penstock.cli.review",
    "jobs": "penstock.cli.jobs",
    "calls": "penstock.cli.calls",
    "costs": "penstock.cli.costs",
    "tokens": "penstock.cli.tokens",
    "audit": "penstock.cli.audit",
    "webhooks": "penstock.cli.webhooks",
    "worker": "penstock.cli.worker",
    "gemini": "penstock.cli.gemini",
    "doctor": "penstock.cli.doctor",
    "migrate": "penstock.cli.migrate",
    "demo": "penstock.cli.demo",
}


@click.group(
    cls=LazyGroup,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="penstock", message="%(prog)s %(version)s")
def penstock() -> None:
    """Durable workflows: a job is a row, a tick moves it one step, and nothing is lost."""


def main() -> None:
    code = run()
    sys.stdout.flush()
    sys.stderr.flush()
    if code == INTERRUPTED:
        # A blocking step of this process may still sit in its thread; its job was handed back, so nobody waits for it.
        os._exit(code)
    # The process ends: a last look of the collector through all that was imported takes longer than many a command.
    gc.freeze()
    sys.exit(code)


def run(args: list[str] | None = None) -> int:
    """Carry out one command line; returns the exit code."""
    try:
        answer = penstock.main(args, prog_name="penstock", standalone_mode=False)
        return answer if isinstance(answer, int) else DONE
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return DONE
    except click.UsageError as error:
        return _wrong_use(error)
    except click.ClickException as error:
        return _say(error.format_message(), WRONG_USE)
    except (click.Abort, KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left (`penstock jobs list | head`): that is their right.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except PenstockError as error:
        return _told(error)
    except Exception as error:
        _debug(error)
        kind = type(error).__name__
        return _say(f"Penstock itself failed ({kind}: {error}); PENSTOCK_DEBUG=1 shows where", FAILED)


def exit_code(error: PenstockError) -> int:
    return WRONG_USE if isinstance(error, _OURS_TO_MEND) else FAILED


def _told(error: PenstockError) -> int:
    _debug(error)
    return _say(str(error), exit_code(error))


def _wrong_use(error: click.UsageError) -> int:
    path = error.ctx.command_path if error.ctx is not None else "penstock"
    return _say(f"{error.format_message().rstrip('.')}; see `{path} --help`", WRONG_USE)


def _say(sentence: str, code: int) -> int:
    from penstock.cli.output import without_password

    text = without_password(" ".join(sentence.split()))
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {text}", err=True)
    return code


def _debug(error: BaseException) -> None:
    if os.environ.get("PENSTOCK_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
