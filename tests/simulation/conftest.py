"""Says in pytest's summary how many seeds were simulated, however the suite is run."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        str(text)
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, text in report.user_properties
        if name == "simulation"
    ]
    if lines:
        terminalreporter.section("simulation")
        for line in lines:
            terminalreporter.write_line(line)
