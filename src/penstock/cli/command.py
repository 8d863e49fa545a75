"""What every command has in common: the global options, before or after its name, and `Invocation`, what they said."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from penstock.cli.output import Output
    from penstock.config import Settings
    from penstock.engine.audit import Actor

GLOBAL = "Global options, before or after the command"


@dataclass(slots=True)
class Invocation:
    """The global options of one call."""

    config: str | None = None
    store: str | None = None
    home: str | None = None
    app: str | None = None
    json: bool = False
    quiet: bool = False
    actor: str | None = None

    def settings(self, **flags: Any) -> Settings:
        """The configuration under these options and a command's own flags (`log__format` for `log.format`)."""
        from penstock.config import load

        return load(self.config, self.overrides(flags))

    def overrides(self, flags: Mapping[str, Any]) -> dict[str, Any]:
        own = {key.replace("__", "."): value for key, value in flags.items() if value is not None}
        return {"store": self.store, "home": self.home, "app": self.app, **own}

    @property
    def out(self) -> Output:
        from penstock.cli.output import Output

        return Output(json=self.json, quiet=self.quiet)

    @property
    def who(self) -> Actor:
        """Whom the history and the audit log name for what this call asks."""
        from penstock.engine.audit import Actor

        if self.actor is not None:
            return Actor(self.actor, "cli")
        import getpass

        try:
            return Actor(getpass.getuser(), "cli")
        except (OSError, KeyError):
            return Actor("unknown", "cli")


def _note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """An option after the command is stronger than the same one before it."""
    invocation = context.ensure_object(Invocation)
    if parameter.name is not None and value not in (None, False):
        setattr(invocation, parameter.name, value)


def _global_options() -> list[click.Option]:
    def option(*names: str, **more: Any) -> click.Option:
        return GlobalOption(names, expose_value=False, callback=_note, is_eager=True, **more)

    return [
        option("--config", metavar="FILE", help="Read this file in place of penstock.yaml."),
        option("--store", metavar="URL", help="Where jobs live: sqlite:///FILE or postgresql://…"),
        option("--home", metavar="FOLDER", help="The folder for the store and outputs; .penstock unless told."),
        option("--app", metavar="MODULE:OBJECT", help="The Penstock object that knows the workflows."),
        option("--json", is_flag=True, help="Write JSON to stdout, and what is for people to stderr."),
        option("--quiet", "-q", is_flag=True, help="Say nothing but results and errors."),
        option("--as", "actor", metavar="NAME", help="Who asks, for the job's history; your user name unless told."),
    ]


class GlobalOption(click.Option):
    """An option that every command takes."""


class _WithGlobalOptions(click.Command):
    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *_GLOBAL_OPTIONS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):
                (shared if isinstance(parameter, GlobalOption) else own).append(record)
        for title, records in (("Options", own), (GLOBAL, shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


_GLOBAL_OPTIONS = _global_options()


class Command(_WithGlobalOptions):
    """A command of Penstock."""


class Group(_WithGlobalOptions, click.Group):
    """Commands under one name."""

    command_class = Command
    group_class = type

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _WithGlobalOptions.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


class LazyGroup(Group):
    """Imports a command's module only when the command is called or listed."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        command: click.Command = getattr(importlib.import_module(self._modules[cmd_name]), cmd_name.replace("-", "_"))
        return command
