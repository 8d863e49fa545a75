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


class Moment(click.ParamType[float]):
    """A day or time (`2026-03-01`, `2026-03-01T12:30`, UTC unless it names its zone), or how long ago (`12h`, `7d`)."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        import time
        from datetime import UTC, datetime

        from penstock.config.duration import seconds

        if isinstance(value, float):
            return value
        try:
            written = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return (written if written.tzinfo else written.replace(tzinfo=UTC)).timestamp()
        try:
            return time.time() - seconds(value)
        except ValueError:
            self.fail(f"{value!r} must be a day or time, such as 2026-03-01, or how long ago, such as 7d", param, ctx)


class Dollars(click.ParamType[float]):
    """`25`, `0.50`, `$1,000`."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        import math

        try:
            amount = float(str(value).removeprefix("$").replace(",", ""))
        except ValueError:
            amount = math.nan
        if amount < 0:
            self.fail(f"{value!r} must be 0 or more dollars, such as 25 or 0.50", param, ctx)
        if not math.isfinite(amount):
            self.fail(f"{value!r} must be an amount of dollars, such as 25 or 0.50", param, ctx)
        return amount


class WholeNumber(click.IntRange):
    """Click's own, which speaks of an integer range and of `1<=x<=100`, in other words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            bounds = f" from {self.min} to {self.max}" if self.max is not None else f", {self.min} or more"
            self.fail(f"{str(value)!r} must be a whole number{bounds}", param, ctx)


DURATION = Duration()
MOMENT = Moment()
DOLLARS = Dollars()
