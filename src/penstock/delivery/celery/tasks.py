"""The tasks that a worker knows: the two hints, and submitters, which have a name of their own and put a job in the
store.

A submitter is a coroutine function that takes the open `Penstock` and then the task's arguments; a pipeline adds one
with `@submitter("its_task")` in a module that is imported before the worker starts. Arguments and answers are JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from celery import Celery, Task
from celery.exceptions import SoftTimeLimitExceeded

from penstock.delivery.celery.naming import ADVANCE, PUMP, SWEEP
from penstock.engine.errors import PenstockError, StoreError, Transient

if TYPE_CHECKING:
    from penstock.delivery.celery.child import Child

log = logging.getLogger("penstock.delivery")

Submitter = Callable[..., Awaitable[Any]]

SUBMITTERS: dict[str, Submitter] = {}

FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0
MOST_RETRIES = 10


def submitter(name: str) -> Callable[[Submitter], Submitter]:
    """Have Celery know a coroutine function as a task of this name."""

    def add(function: Submitter) -> Submitter:
        if SUBMITTERS.setdefault(name, function) is not function:
            raise ValueError(f"there are two tasks named {name!r}")
        return function

    return add


def add_tasks(celery: Celery, child: Callable[[], Child]) -> None:
    """`child`: the process that a task finds itself in."""

    def advance(task: Task, queue: Any = None, *_: Any, **__: Any) -> None:
        try:
            child().advance(queue)
        except StoreError as error:
            log.warning("the hint for %r is sent again later: %s", queue, error)
            raise again(task, error) from error
        except SoftTimeLimitExceeded:
            log.warning("a turn of the queue %r did not end within the soft limit", queue)
            child().until_it_turns(queue)

    def sweep(*_: Any, **__: Any) -> None:
        try:
            child().sweep()
        except StoreError as error:
            log.warning("sweep: %s", error)

    celery.task(advance, name=ADVANCE, bind=True, max_retries=None, ignore_result=True)
    celery.task(sweep, name=SWEEP, ignore_result=True, queue=PUMP)
    for name, function in SUBMITTERS.items():
        celery.task(partial_submit(child, function), name=name, bind=True, max_retries=None, throws=(PenstockError,))


def partial_submit(child: Callable[[], Child], function: Submitter) -> Callable[..., Any]:
    def submit(task: Task, *args: Any, **kwargs: Any) -> Any:
        try:
            return child().run(partial(_called, function, args, kwargs))
        except StoreError as error:
            log.warning("task %s is tried again later: %s", task.name, error)
            raise again(task, error) from error
        except (OSError, Transient) as error:
            # A disk that is full, say. If that does not pass, whoever sent the task is to know.
            log.warning("task %s, try %d: %s", task.name, task.request.retries + 1, error)
            raise again(task, error, most=MOST_RETRIES) from error
        except PenstockError as error:
            log.error("task %s was refused: %s", task.name, error)
            raise

    return submit


def again(task: Task, error: Exception, *, most: int | None = None) -> BaseException:
    """The message goes back, and comes later each time. A store that is away, or full, is waited for."""
    pause = min(FIRST_RETRY * 2 ** min(task.request.retries, 10), LONGEST_RETRY)
    return task.retry(exc=error, countdown=pause, max_retries=most, throw=False)  # type: ignore[no-any-return]


def _called(function: Submitter, args: tuple[Any, ...], kwargs: dict[str, Any], app: Any) -> Awaitable[Any]:
    return function(app, *args, **kwargs)
