"""`penstock gemini`: the local Gemini in the foreground, and a look at the one that runs for this home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.parameters import DURATION, WholeNumber

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.cli.output import Output
    from penstock.gemini_local.server import Running

PORT = 8790
"""Where `serve` listens unless told; one that Penstock starts by itself takes any free port."""


@click.group(cls=Group)
def gemini() -> None:
    """Run a Gemini on this machine, and look at it.

    It speaks the protocol of the Gemini API and needs no key and no network. Its state is in the folder `gemini` of the
    home, and there is one for each home.

    \b
    Examples:
      penstock gemini serve
      penstock gemini serve --backend openai:http://127.0.0.1:8000/v1
      penstock gemini status
      penstock gemini journal --grep create
    """


@gemini.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=WholeNumber(0, 65_535), default=PORT, show_default=True, help="0: any that is free.")
@click.option("--backend", help="Who answers: local, openai:URL or script[:FILE]; as configured unless told.")
@click.option("--api-key-file", metavar="FILE", help="Let in only the key in this file; any key unless told.")
@click.option("--api-key-env", metavar="VARIABLE", help="Let in only the key in this environment variable.")
@click.option("--allow-remote", is_flag=True, help="Listen where other machines can reach it; needs a key.")
@click.option("--any-model", is_flag=True, help="Answer for models that Gemini does not have, too.")
@click.option("--pending", type=DURATION, default=0.0, metavar="DURATION", help="Batches are pending at least so long.")
@click.option("--running", type=DURATION, default=0.0, metavar="DURATION", help="Batches run at least so long.")
@click.option("--row-delay", type=DURATION, default=0.0, metavar="DURATION", help="Added to each row of a batch.")
@click.option("--idle-stop", type=DURATION, metavar="DURATION", help="End after so long without a request or batch.")
@click.pass_obj
def serve(
    call: Invocation,
    host: str,
    port: int,
    backend: str | None,
    api_key_file: str | None,
    api_key_env: str | None,
    allow_remote: bool,
    any_model: bool,
    pending: float,
    running: float,
    row_delay: float,
    idle_stop: float | None,
) -> int:
    """Run the local Gemini until Ctrl-C or SIGTERM.

    \b
    The backend answers:
      local          OCR, layout and rules on the CPU; no downloads
      openai:URL     any OpenAI-compatible server (vLLM, Ollama, llama.cpp); its key from OPENAI_API_KEY
      script[:FILE]  replies, delays and errors from a file, for tests

    \b
    Examples:
      penstock gemini serve --pending 5s --row-delay 200ms
      penstock gemini serve --backend script:replies.yaml --port 0 --json
      penstock gemini serve --host 0.0.0.0 --allow-remote --api-key-env MY_KEY
    """
    from penstock.cli.gemini_serving import api_key, run_server
    from penstock.cli.logs import log_beside
    from penstock.gemini_local.server import ServerSettings
    from penstock.gemini_local.settings import read_settings

    configured = call.settings()
    home, backend = configured.home, backend or configured.local_gemini.backend
    flat = {"pending_for": pending, "running_for": running, "row_delay": row_delay, "any_model": any_model}
    key = api_key(api_key_file, api_key_env)
    settings = ServerSettings(
        home=home.resolve(),
        host=host,
        port=port,
        backend=backend,
        allow_remote=allow_remote,
        idle_stop=idle_stop,
        gemini=read_settings({**flat, "key": key}),
    )
    log_beside(call.out, ())

    def greet(ready: Running) -> None:
        _greet(call.out, ready, backend, home / "gemini", with_key=key is not None)

    return run_server(settings, greet)


def _greet(out: Output, ready: Running, backend: str, folder: Path, *, with_key: bool) -> None:
    from penstock.cli.output import without_password

    shown = without_password(backend)
    out.data({"url": ready.base_url, "pid": ready.pid, "backend": shown, "folder": str(folder)})
    out.tell(f"The local Gemini answers at {ready.base_url} (backend {shown}, state in {folder}). Ctrl-C stops it.")
    key = "…  # the key it was given" if with_key else "any-text"
    workers = (
        "Workers of this home need both, too: it lets in nobody without its key."
        if with_key
        else "Workers of this home use it by themselves where no Gemini key is set."
    )
    out.tell(
        "\nPrograms that use the google-genai SDK reach it with\n"
        f"  export GOOGLE_GEMINI_BASE_URL={ready.base_url}\n"
        f"  export GEMINI_API_KEY={key}\n"
        f"{workers}\n"
    )


@gemini.command()
@click.pass_obj
def status(call: Invocation) -> int:
    """Whether a local Gemini runs for this home: where, and how its batches stand.

    The exit code is 1 if none runs.
    """
    from penstock.cli.gemini_state import batches_by_state, faults_in_force, health
    from penstock.times import local_and_ago, utc

    folder = call.settings().home / "gemini"
    running, told = health(folder)
    batches, faults = batches_by_state(folder), faults_in_force(folder)
    call.out.data(
        {
            "running": running is not None,
            "url": running and running.base_url,
            "pid": running and running.pid,
            "backend": told.get("backend"),
            "version": running and running.version,
            "started": running and utc(running.started),
            "folder": str(folder),
            "batches": batches,
            "faults": faults,
        }
    )
    stands = ", ".join(f"{count} {state.lower()}" for state, count in batches.items()) or "none"
    wrong = f"{faults} in force: `penstock gemini faults list` tells which" if faults else "none"
    if running is None:
        kept = f"; faults: {wrong}" if faults else ""
        call.out.result(f"No local Gemini runs for this home ({folder}); batches it keeps: {stands}{kept}")
        call.out.note("Start one with `penstock gemini serve`.")
        return 1
    since = local_and_ago(running.started, float(told["now"]))
    call.out.result(
        f"{'url'.ljust(7)}  {running.base_url}\n"
        f"pid      {running.pid}\n"
        f"backend  {told.get('backend')}\n"
        f"started  {since}\n"
        f"folder   {folder}\n"
        f"batches  {stands}\n"
        f"faults   {wrong}"
    )
    return 0


@gemini.command()
@click.pass_obj
def stop(call: Invocation) -> None:
    """Stop the local Gemini of this home; its batches go on when the next one starts."""
    from penstock.gemini_local import launch

    home = call.settings().home
    stopped = launch.stop(home)
    call.out.data({"stopped": stopped})
    call.out.tell("Stopped." if stopped else f"No local Gemini runs for this home ({home / 'gemini'}).")


@gemini.command()
@click.option("--limit", "-n", type=WholeNumber(1, 200_000), default=50, show_default=True, help="The last so many.")
@click.option("--grep", "-g", metavar="PATTERN", help="Only lines in which this regular expression is found.")
@click.pass_obj
def journal(call: Invocation, limit: int, grep: str | None) -> None:
    """What was asked of the local Gemini of this home, oldest first; it need not run.

    The pattern is looked for in the operation, method, path, label and fault, in either case.

    \b
    Examples:
      penstock gemini journal --grep '^create'
      penstock gemini journal -n 500 --json
    """
    from penstock.cli.gemini_state import read_journal, show_journal

    entries = read_journal(call.settings().home / "gemini", limit=limit, pattern=grep)
    call.out.data({"entries": entries})
    if entries and not call.json:
        show_journal(call.out, entries)
    elif not entries:
        call.out.tell("Nothing such was asked.")


@gemini.group()
def faults() -> None:
    """What the local Gemini is to do wrong on purpose, to see how a pipeline takes it.

    \b
    Examples:
      echo '[{"kind": "error", "where": "create", "code": 429, "times": 3}]' | penstock gemini faults set -
      penstock gemini faults list
      penstock gemini faults clear
    """


@faults.command("set")
@click.argument("file", metavar="FILE|-")
@click.pass_obj
def set_(call: Invocation, file: str) -> None:
    """Put these faults in the place of those in force: a list, as JSON or YAML, from FILE or from stdin.

    \b
    Each has a kind, and may say where (which operation), times, after, rate and match:
      [{"kind": "drop_after", "where": "create", "times": 1},
       {"kind": "row_error", "rate": 0.1},
       {"kind": "list_lag", "seconds": 30, "match": "^invoices-"}]
    """
    from penstock.cli.gemini_state import read_faults

    _faults(call, read_faults(file))


@faults.command()
@click.pass_obj
def clear(call: Invocation) -> None:
    """No more faults."""
    _faults(call, [])


@faults.command("list")
@click.pass_obj
def list_(call: Invocation) -> None:
    """The faults in force, and how often each was due and was done."""
    _faults(call, None)


def _faults(call: Invocation, new: list[Any] | None) -> None:
    from penstock.cli.gemini_state import list_faults, replace_faults, show_faults

    folder = call.settings().home / "gemini"
    found = list_faults(folder) if new is None else replace_faults(folder, new)
    call.out.data({"faults": found})
    if not found:
        call.out.tell("No faults are in force.")
    elif not call.json:
        show_faults(call.out, found)
