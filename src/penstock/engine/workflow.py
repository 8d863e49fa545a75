"""Workflows: ordered lists of named steps, declared in Python."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from penstock.engine.errors import InvalidPayload, InvalidRequest, NotFound, Permanent
from penstock.engine.identity import checked_name
from penstock.engine.model import DEFAULT_QUEUE
from penstock.engine.priority import Priority
from penstock.engine.retry import Retry

F = TypeVar("F", bound=Callable[..., Any])

LONGEST_STAY = 30 * 86_400.0
"""Seconds a job may stay in one step, waits and retries included, unless its workflow says otherwise: every loop is
bounded."""

PAYLOAD_LIMIT = 1_000_000
"""Bytes of JSON. Large things go to outputs and travel as references."""


@dataclass(slots=True, frozen=True)
class Step:
    """One step: what runs, and within which bounds.

    `timeout` is soft: the step is cancelled at its next `await` and may clean up. `hard_timeout` takes the job away
    from it and interrupts code that blocks. `deadline` bounds the whole stay in the step, waits and retries included.
    """

    name: str
    run: Callable[..., Any]
    adapter: TypeAdapter[Any]
    retry: Retry
    timeout: float | None
    hard_timeout: float | None
    deadline: float | None
    resource: str
    blocking: bool

    def parse(self, payload: str) -> Any:
        """The stored JSON as the step's own type, or `InvalidPayload`."""
        try:
            return self.adapter.validator.validate_json(payload)
        except ValidationError as error:
            raise InvalidPayload(f"payload does not fit step {self.name!r}: {_first_problem(error)}") from error
        except Exception as error:
            raise InvalidPayload(f"payload does not fit step {self.name!r}: {type(error).__name__}") from error


class Workflow:
    """An ordered list of named steps. Steps run in the order of their declaration; `Goto` skips.

    `payload` is the type of what is submitted: a Pydantic model, a dataclass, or anything Pydantic can validate. It
    may be left out when the first step annotates it. `retry`, `timeout` and `deadline` are what its steps have unless
    they say otherwise; `deadline=None` lets a job stay in a step for ever. `sla` is the promise that a job is final so
    many seconds after it was submitted: one that is not is told of once (`penstock up`), and goes on.
    """

    def __init__(
        self,
        name: str,
        *,
        payload: Any = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        deadline: float | None = LONGEST_STAY,
        sla: float | None = None,
    ) -> None:
        if sla is not None and not 0 < sla < math.inf:
            raise InvalidRequest(f"workflow {name!r}: sla must be more than 0 seconds, not {sla!r}")
        self.name = checked_name("workflow", name)
        self.queue = checked_name("queue", queue)
        self.priority = priority or Priority()
        self.retry = retry or Retry()
        self.timeout = timeout
        self.deadline = deadline
        self.sla = sla
        self.steps: dict[str, Step] = {}
        self.cleanup_step: Step | None = None
        self._payload = payload
        self._order: list[str] = []
        self._following: dict[str, Step] = {}

    def __repr__(self) -> str:
        return f"Workflow({self.name!r}, steps={self._order})"

    @overload
    def step(self, function: F) -> F: ...

    @overload
    def step(
        self,
        *,
        retry: Retry | None = None,
        timeout: float | None = None,
        hard_timeout: float | None = None,
        deadline: float | None = None,
        resource: str = "",
    ) -> Callable[[F], F]: ...

    def step(
        self,
        function: F | None = None,
        *,
        retry: Retry | None = None,
        timeout: float | None = None,
        hard_timeout: float | None = None,
        deadline: float | None = None,
        resource: str = "",
    ) -> F | Callable[[F], F]:
        """Declare the next step: `async def step(payload, ctx)`. A plain `def` runs in a thread."""

        def declare(function: F) -> F:
            step = self._made(function, retry, timeout, hard_timeout, deadline, resource)
            self.steps[step.name] = step
            if self._order:
                self._following[self._order[-1]] = step
            self._order.append(step.name)
            return function

        return declare if function is None else declare(function)

    @overload
    def cleanup(self, function: F) -> F: ...

    @overload
    def cleanup(
        self, *, retry: Retry | None = None, timeout: float | None = None, hard_timeout: float | None = None
    ) -> Callable[[F], F]: ...

    def cleanup(
        self,
        function: F | None = None,
        *,
        retry: Retry | None = None,
        timeout: float | None = None,
        hard_timeout: float | None = None,
    ) -> F | Callable[[F], F]:
        """Declare what runs when a job is cancelled, with the payload it had. The job keeps its locks until this is
        done."""

        def declare(function: F) -> F:
            if self.cleanup_step is not None:
                raise InvalidRequest(f"workflow {self.name!r} has a clean-up step already: {self.cleanup_step.name!r}")
            step = self._made(function, retry, timeout, hard_timeout, None, "")
            self.steps[step.name] = self.cleanup_step = step
            return function

        return declare if function is None else declare(function)

    def _made(
        self,
        function: Callable[..., Any],
        retry: Retry | None,
        timeout: float | None,
        hard_timeout: float | None,
        deadline: float | None,
        resource: str,
    ) -> Step:
        name = checked_name("step", function.__name__)
        if name in self.steps:
            raise InvalidRequest(f"workflow {self.name!r} has two steps named {name!r}")
        for option, value in (("timeout", timeout), ("hard_timeout", hard_timeout), ("deadline", deadline)):
            if value is not None and value <= 0:
                raise InvalidRequest(f"step {name!r}: {option} must be more than 0 seconds")
        soft = self.timeout if timeout is None else timeout
        if hard_timeout is not None and soft is not None and hard_timeout < soft:
            raise InvalidRequest(f"step {name!r}: hard_timeout must not be shorter than timeout")
        hard = hard_timeout if hard_timeout is not None or soft is None else soft + 30.0
        first = not self._order and self.cleanup_step is None
        return Step(
            name=name,
            run=function,
            adapter=TypeAdapter(self._payload_type(function, first=first)),
            retry=retry or self.retry,
            timeout=soft,
            hard_timeout=hard,
            deadline=self.deadline if deadline is None else deadline,
            resource=checked_name("resource", resource) if resource else "",
            blocking=not inspect.iscoroutinefunction(function),
        )

    def _payload_type(self, function: Callable[..., Any], *, first: bool) -> Any:
        parameters = list(inspect.signature(function).parameters.values())
        if len(parameters) != 2:
            raise InvalidRequest(
                f"step {function.__name__!r} must take two arguments, (payload, ctx), and takes {len(parameters)}"
            )
        if first and self._payload is not None:
            return self._payload
        try:
            hints = typing.get_type_hints(function)
        except NameError as error:
            raise InvalidRequest(f"step {function.__name__!r}: its annotations cannot be read ({error})") from error
        return hints.get(parameters[0].name, Any)

    @property
    def first(self) -> Step:
        """Where a new job begins."""
        if not self._order:
            raise InvalidRequest(f"workflow {self.name!r} has no steps")
        return self.steps[self._order[0]]

    def after(self, step: str) -> Step | None:
        """The step that follows, or None after the last."""
        return self._following.get(step)

    def find(self, step: Callable[..., Any] | str) -> Step:
        """The step a `Goto` names, by function or by name."""
        name = step if isinstance(step, str) else step.__name__
        found = self.steps.get(name)
        if found is None or found is self.cleanup_step:
            raise NotFound(f"workflow {self.name!r} has no step {name!r}; it has {', '.join(self._order)}")
        return found

    def checked_payload(self, payload: Any) -> str:
        """What a caller submits, as the JSON that is stored, or `InvalidPayload`."""
        try:
            value = self.first.adapter.validator.validate_python(payload)
        except ValidationError as error:
            raise InvalidPayload(f"payload does not fit workflow {self.name!r}: {_first_problem(error)}") from error
        try:
            return encode(value)
        except Permanent as error:
            raise InvalidPayload(str(error)) from error


def encode(value: Any) -> str:
    """A payload or result as JSON text. What cannot be stored is the step's mistake, and trying again cannot help."""
    try:
        text = to_json(value).decode()
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise Permanent(f"{type(value).__name__} cannot be stored as JSON: {error}") from error
    if len(text) > PAYLOAD_LIMIT:
        raise Permanent(
            f"a payload or result of {len(text):,} bytes is too large (at most {PAYLOAD_LIMIT:,}): "
            "write it to an output and pass a reference"
        )
    return text


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in problem["loc"]) or "payload"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {problem['msg']}{more}"
