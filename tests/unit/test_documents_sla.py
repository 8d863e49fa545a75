"""What is promised about documents, when it is broken, and how often that is told of."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from penstock.config.settings import DocumentsSettings
from penstock.pipelines.documents import metrics
from penstock.pipelines.documents.sla import (
    HOUR,
    Bounds,
    Breach,
    Episode,
    Measured,
    breaches,
    judged,
    waited_throughout,
    words,
    worse,
)

BOUNDS = Bounds.of(DocumentsSettings())
FINE = Measured(completed=5000, failed=50, p95=30.0, backlog=True, depth=500, due=1000, late=1)


def test_the_defaults_are_those_that_are_promised() -> None:
    assert Bounds(p95=30, per_hour=4500, error_rate=0.01, depth=500, breach_rate=0.001) == BOUNDS


def test_at_the_bound_nothing_is_broken() -> None:
    assert breaches(FINE, BOUNDS) == ()
    assert breaches(Measured(), BOUNDS) == (), "nothing was measured"


@pytest.mark.parametrize(
    ("changed", "rule", "severity"),
    [
        ({"p95": 30.1}, "p95", "warning"),
        ({"p95": 60.1}, "p95", "critical"),
        ({"failed": 60}, "error_rate", "warning"),
        ({"failed": 200}, "error_rate", "critical"),
        ({"depth": 501}, "depth", "warning"),
        ({"depth": 1001}, "depth", "critical"),
        ({"late": 2}, "breach_rate", "warning"),
        ({"late": 3}, "breach_rate", "critical"),
        ({"completed": 4499, "failed": 0}, "per_hour", "warning"),
        ({"completed": 2249, "failed": 0}, "per_hour", "critical"),
    ],
)
def test_beyond_the_bound_is_a_warning_and_beyond_twice_that_critical(
    changed: dict[str, float], rule: str, severity: str
) -> None:
    (found,) = breaches(replace(FINE, **changed), BOUNDS)  # type: ignore[arg-type]
    assert (found.rule, found.severity) == (rule, severity)
    assert words(found.rule, found.value, found.bound)


def test_a_service_with_too_little_to_do_is_not_too_slow() -> None:
    assert breaches(Measured(completed=3, p95=1.0, backlog=False), BOUNDS) == ()
    assert [found.rule for found in breaches(Measured(completed=3, p95=1.0, backlog=True), BOUNDS)] == ["per_hour"]
    assert breaches(Measured(backlog=True), BOUNDS.model_copy(update={"per_hour": 0.0})) == (), "nothing is promised"


@pytest.mark.parametrize(
    ("spans", "all_the_time"),
    [
        ([], False),
        ([(0.0, math.inf)], True),
        ([(-10.0, 1800.0), (1700.0, math.inf)], True),
        ([(-10.0, 1800.0), (2200.0, math.inf)], False),
        ([(0.5, math.inf)], False),
        ([(0.0, HOUR)], False),
    ],
)
def test_a_backlog_is_one_when_something_waited_at_every_look(
    spans: list[tuple[float, float]], all_the_time: bool
) -> None:
    assert waited_throughout(spans, since=0.0, until=HOUR) is all_the_time


def test_an_episode_begins_once_goes_on_and_ends() -> None:
    slow = Breach("p95", "warning", 40.0, 30.0)
    first = judged([], [slow])
    assert (first.begins, first.goes_on, first.graver, first.ends) == ((slow,), (), (), ())
    episode = Episode("e", "p95", "warning", 30.0, 40.0, 40.0, 1.0)
    second = judged([episode], [slow])
    assert (second.begins, second.goes_on, second.graver, second.ends) == ((), ((episode, slow),), (), ())
    grave = Breach("p95", "critical", 90.0, 30.0)
    assert judged([episode], [grave]).graver == (grave,)
    assert judged([replace(episode, severity="critical")], [grave]).graver == (), "that was counted already"
    assert judged([replace(episode, severity="critical")], [slow]).graver == ()
    assert judged([episode], []).ends == (episode,)


def test_the_worst_is_the_furthest_from_what_is_promised() -> None:
    assert worse("p95", 40.0, 50.0) == 50.0
    assert worse("per_hour", 40.0, 50.0) == 40.0


def test_what_is_counted_lands_in_its_bucket_and_in_the_part_of_its_worker() -> None:
    sql, values = metrics.observed({metrics.SECONDS: 30.0, metrics.CONFIDENCE: 2.0}, part=metrics.part_of("w1"))
    part = metrics.part_of("w1")
    assert part == metrics.part_of("w1") and 0 <= part < metrics.PARTS
    rows = [tuple(values[f"{column}{number}"] for column in ("name", "labels", "value")) for number in range(4)]
    assert rows == sorted(rows), "always in the same order"
    assert (f"{metrics.SECONDS}_bucket", f'{{"le":"30.0","part":"{part}"}}', 1.0) in rows
    assert (f"{metrics.CONFIDENCE}_bucket", f'{{"le":"+Inf","part":"{part}"}}', 1.0) in rows
    assert (f"{metrics.SECONDS}_sum", f'{{"part":"{part}"}}', 30.0) in rows
    assert sql == metrics.observed({metrics.SECONDS: 1.0, metrics.CONFIDENCE: 0.0})[0], "one text, prepared once"
