"""What other packages bring is found by its entry point, as an installed package declares it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REMOTE = """\
from tests.support.provider import Provider


def make(settings):
    return Provider(name="farm", guarantee="repeatable", inline=True)
"""

PROGRAM = """\
from penstock import Context, Penstock, Workflow

flow = Workflow("flow", payload=str)


@flow.step
async def ask(scene: str, ctx: Context) -> str:
    return (await ctx.call("farm", "it", scene)).result


print(Penstock(workflows=[flow], store="memory://").run(flow, "dawn").result)
"""


def test_a_package_can_bring_a_remote(tmp_path: Path) -> None:
    (tmp_path / "farming.py").write_text(REMOTE)
    declared = tmp_path / "farming-1.0.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: farming\nVersion: 1.0\n")
    (declared / "entry_points.txt").write_text("[penstock.remotes]\nfarm = farming:make\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    path = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=path, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("dawn\n", "")
