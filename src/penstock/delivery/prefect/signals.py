"""How a process that Prefect started, or that serves its flow runs, is asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def heeding(stopping: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set `stopping` for as long as the block lasts; then what was there before is back.

    Prefect's own handler raises wherever the process happens to be, and would tear a commit in two.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        loop.add_signal_handler(number, stopping.set)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
