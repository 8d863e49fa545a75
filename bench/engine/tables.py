"""The engine bench's answer: values, ratios, what was not measured and why; and the rows of the results file."""

from __future__ import annotations

from bench.engine import measures
from bench.engine.contestants import OURS, Contestant
from bench.engine.figures import Figures
from bench.results import Row
from bench.table import figure, table

OUR_NAMES = [contestant.name for contestant in OURS]


def engine_text(contestants: list[Contestant], figures: Figures, circumstances: list[str]) -> str:
    names = [contestant.name for contestant in contestants]
    sections = ["\n".join(circumstances), _values(names, figures)]
    if set(names) - set(OUR_NAMES):
        sections += [_ratios(ours, names, figures) for ours in OUR_NAMES if ours in names]
    sections += [f"not measured: {reason}" for reason in figures.reasons()]
    return "\n\n".join(sections)


def engine_rows(contestants: list[Contestant], figures: Figures) -> list[Row]:
    """One row for each measure and each of our stores."""
    peers = [contestant.name for contestant in contestants if contestant.name not in OUR_NAMES]
    return [
        Row(
            measure=f"{measure.title} ({ours.removeprefix('penstock, ')})",
            unit=measure.unit,
            higher_is_better=measure.higher_is_better,
            ours=_rounded(figures.median(ours, measure.key)),
            peers={peer: _rounded(figures.median(peer, measure.key)) for peer in peers},
        )
        for measure in measures.ALL
        for ours in OUR_NAMES
    ]


def _values(names: list[str], figures: Figures) -> str:
    headings = ["", *(measure.heading for measure in measures.ALL)]
    lines = [[name, *(figure(figures.median(name, measure.key)) for measure in measures.ALL)] for name in names]
    return table(headings, lines)


def _ratios(ours: str, names: list[str], figures: Figures) -> str:
    headings = [f"{ours} against", *(measure.heading for measure in measures.ALL)]
    lines = []
    for name in names:
        if name in OUR_NAMES:
            continue
        ratios = [
            figures.advantage(ours, name, measure.key, higher_is_better=measure.higher_is_better)
            for measure in measures.ALL
        ]
        lines.append([name, *map(figure, ratios)])
    explanation = "ours/peer, or peer/ours where less is better: above 1 ours is ahead; medians of the rounds' ratios"
    return f"{explanation}\n{table(headings, lines)}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
