"""A process killed at the worst moment: Gemini has taken a batch, and nobody has written that down yet.

This program starts a Gemini on this machine and tells it to take the next batch but never to answer. A child submits a
job; when the batch is in Gemini's journal the child is killed with SIGKILL. Then this process runs the same job: it
looks for its own label at Gemini, finds the batch and goes on with it. Nothing is created a second time.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from penstock import Again, Context, Penstock, Permanent, Workflow
from penstock.gemini import BatchRequest, BatchRow, generate_request, read_rows

TAKE_IT_AND_HANG = {"kind": "hang", "where": "create", "done": True, "times": 1}

sayings = Workflow("sayings", payload=list[str])


@sayings.step
async def ask(lines: list[str], ctx: Context) -> Again | list[str | None]:
    rows = tuple(BatchRow(key=str(number), request=generate_request(line)) for number, line in enumerate(lines))
    call = await ctx.call("gemini.batch", "all", BatchRequest(requests=rows))
    if not call.ended:
        return Again(lines, until=call)
    if not call.ok:
        raise Permanent(f"the batch {call.state}: {call.error}")
    return [row.text for row in read_rows(ctx.folder_of(call) / call.result["file"])]


app = Penstock(workflows=[sayings])


def run() -> Any:
    return app.run(sayings, ["Look before you leap.", "Measure twice, cut once."], key="once").result


def ask_gemini(url: str, path: str, body: Any = None) -> Any:
    """The administration of a Gemini of our own."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/_penstock/{path}", data, {"X-Penstock-Admin": "1"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def creates(url: str) -> list[Any]:
    return list(ask_gemini(url, "journal?operation=create")["entries"])


def main(url: str) -> None:
    ask_gemini(url, "faults", [TAKE_IT_AND_HANG])
    child = subprocess.Popen([sys.executable, __file__, "child"])
    while not creates(url):
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    print("killed: Gemini has the batch, and its answer was never heard")
    for saying in run():
        print(saying)
    print(f"creates: {len(creates(url))}")


if __name__ == "__main__":
    logging.getLogger("penstock").setLevel(logging.ERROR)  # a dead worker is a warning; here it is expected
    os.environ["PENSTOCK_LOCAL_GEMINI__USE"] = "always"
    if sys.argv[1:] == ["child"]:
        run()
    else:
        command = [Path(sys.executable).with_name("penstock"), "gemini", "serve"]
        serve = [*command, "--port", "0", "--backend", "script", "--idle-stop", "60s", "--json", "--quiet"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as gemini:
            assert gemini.stdout is not None
            try:
                main(json.loads(gemini.stdout.readline())["url"])
            finally:
                gemini.terminate()
