"""A command, an option or a setting without documentation fails here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from penstock.cli.command import GlobalOption
from penstock.cli.init import CONFIGURATION
from penstock.cli.main import penstock
from penstock.config.settings import Settings, keys

DOCS = Path(__file__).parents[2] / "docs" / "reference"
CLI = (DOCS / "cli.md").read_text()
CONFIG = (DOCS / "configuration.md").read_text()


def commands(group: click.Group, path: str = "penstock") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{path} {name}", command


def groups(group: click.Group, path: str = "penstock") -> Iterator[tuple[str, click.Group]]:
    context = click.Context(group)
    yield path, group
    for name in group.list_commands(context):
        if isinstance(command := group.get_command(context, name), click.Group):
            yield from groups(command, f"{path} {name}")


COMMANDS = dict(commands(penstock))
GROUPS = dict(groups(penstock))


def section(path: str) -> str:
    """The part of the page under the command's own heading."""
    found = re.search(rf"^#+ `{re.escape(path)}.*?`\n(.*?)(?=^#|\Z)", CLI, re.M | re.S)
    assert found, f"docs/reference/cli.md has no section for `{path}`"
    return found[1]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_is_documented(path: str) -> None:
    text = section(path)
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option) and not isinstance(parameter, GlobalOption):
            assert f"`{parameter.opts[0]}" in text, f"`{path} {parameter.opts[0]}` is not documented"


def test_every_global_option_is_documented() -> None:
    for parameter in penstock.get_params(click.Context(penstock)):
        if isinstance(parameter, GlobalOption):
            assert f"| `{parameter.opts[0]}" in CLI


@pytest.mark.parametrize("path", [path for path in GROUPS if not path.startswith("penstock gemini")])
def test_no_list_of_commands_is_cut_on_a_narrow_terminal(path: str) -> None:
    group = GROUPS[path]
    listed = group.get_help(click.Context(group, info_name=path, terminal_width=80)).partition("Commands:")[2]
    assert listed
    assert "..." not in listed


def test_no_command_is_documented_that_is_not_there() -> None:
    described = re.findall(r"^#+ `(penstock [a-z -]+?)(?: [A-Z\[].*)?`$", CLI, re.M)
    assert set(described) == set(COMMANDS)


@pytest.mark.parametrize("key", keys())
def test_every_setting_is_documented(key: str) -> None:
    assert f"| `{key}` | `PENSTOCK_{key.upper().replace('.', '__')}` |" in CONFIG
    assert re.search(rf"^#?\s*{key.split('.')[-1]}:", CONFIGURATION, re.M), f"penstock init does not mention {key}"


def test_what_init_writes_are_the_defaults() -> None:
    import yaml

    text = re.sub(r"^# ?(?=\s*[a-z_]+:(\s|$))", "", CONFIGURATION, flags=re.M)
    text = re.sub(r"^#   ", "  ", text, flags=re.M)
    written = yaml.safe_load(text)
    for name in ("app", "limits", "queues"):
        del written[name]
    assert Settings.model_validate(written) == Settings()
