"""Log lines of Penstock in the logs of the flow run that they belong to."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator
from uuid import UUID

from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging.handlers import APILogHandler

LAST_WAIT = 5.0


class RunLines(APILogHandler):
    """Lines written while the flow run's own work is done, and those of threads that belong to nobody in particular."""

    def __init__(self, flow_run: UUID, level: int) -> None:
        super().__init__(level)
        self._flow_run = flow_run

    def emit(self, record: logging.LogRecord) -> None:
        flow = FlowRunContext.get()
        if flow is not None and flow.flow_run is not None and flow.flow_run.id != self._flow_run:
            return
        part = TaskRunContext.get()
        told = copy.copy(record)
        told.flow_run_id = self._flow_run
        told.task_run_id = None if part is None else part.task_run.id
        super().emit(told)


@contextlib.asynccontextmanager
async def lines_in_run(flow_run: UUID, *, level: int, formatter: logging.Formatter) -> AsyncIterator[None]:
    """For as long as the block lasts. At its end they are sent, within reason: Prefect keeps them for a while."""
    logger = logging.getLogger("penstock")
    handler = RunLines(flow_run, level)
    handler.setFormatter(formatter)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(level, logger.getEffectiveLevel()))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WAIT):
                await handler.aflush()
