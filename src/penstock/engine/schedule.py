"""When a cron expression fires next, in its own time zone, whatever summer time does."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from penstock.engine.errors import InvalidRequest

_ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)


class Cron:
    """A checked expression (five fields) and time zone. Hours that a clock change skips or repeats fire once, as in
    cron."""

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidRequest(f"unknown time zone {timezone!r}: use a name such as Europe/Berlin") from error
        self._expression = expression
        try:
            next(CronSim(expression, _ANY_DAY.astimezone(self._zone)))
        except (CronSimError, StopIteration) as error:
            raise InvalidRequest(
                f"cron expression {expression!r} is not valid ({error or 'it never fires'})"
            ) from error

    def after(self, moment: float) -> float:
        """The first firing after `moment` (seconds since the epoch)."""
        start = datetime.fromtimestamp(moment, UTC).astimezone(self._zone)
        return next(CronSim(self._expression, start)).timestamp()
