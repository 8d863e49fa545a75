"""Kinds of values that options take, beside click's own."""

from __future__ import annotations

from typing import Any

import click


class Duration(click.ParamType[float]):
    """`30`, `1.5s`, `5m`, `2h`, `7d`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from penstock.config.duration import seconds

        try:
            return seconds(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


DURATION = Duration()
