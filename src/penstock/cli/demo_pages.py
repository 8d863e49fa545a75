"""The demo's shelf: invented catalogues are read by the Gemini of this machine. The run is killed on the way, and
another process goes on with it. A program of its own, as the examples are: `python -m penstock.cli.demo_pages`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from penstock.pipelines.pages.samples import Samples, make_samples

BOOKS, PAGES = 2, 4
LOOK_EVERY = 0.05


def main() -> int:
    shelf = make_samples(Path("shelf"), books=BOOKS, pages=PAGES)
    _say(f"{BOOKS} invented catalogues, {len(shelf.pages)} pages: penstock pages run -c {shelf.configuration}")
    done = _killed_with_the_first_page(shelf)
    _say(f"kill -9, with {done} of {len(shelf.pages)} pages read; once more:")
    ended = subprocess.run(_command(shelf), stdout=subprocess.PIPE, check=False)
    if ended.returncode != 0:
        return ended.returncode
    told: dict[str, Any] = json.loads(ended.stdout)["overview"]
    _say(f"{told['done']} of {told['pages']} pages read in {told['batches_ended']} batches; no page was sent twice")
    return 0 if told["batches_ended"] == _rounds(shelf) else 1


def _command(shelf: Samples) -> list[str]:
    return [sys.executable, "-m", "penstock", "pages", "run", "-c", str(shelf.configuration), "--json", "--quiet"]


def _killed_with_the_first_page(shelf: Samples) -> int:
    """How many pages were done when the run was killed."""
    first = subprocess.Popen(_command(shelf), stdout=subprocess.DEVNULL)
    while first.poll() is None and not _outputs(shelf):
        time.sleep(LOOK_EVERY)
    first.kill()
    first.wait()
    return _outputs(shelf)


def _outputs(shelf: Samples) -> int:
    return sum(1 for _ in shelf.output.glob("*/*/*/[!.]*.json"))


def _rounds(shelf: Samples) -> int:
    """Pages of one chain go one after the other, and all chains fit into one batch."""
    numbers = {(page.state, page.page) for page in shelf.pages}
    longest = 0
    for state, number in numbers:
        if (state, number - 1) not in numbers:
            end = number
            while (state, end) in numbers:
                end += 1
            longest = max(longest, end - number)
    return longest


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
