"""Answers by the book: rules from a file or from the administration, for tests and for trying things out.

    rules:
      - {match: 'invoice (\\d+)', reply: "number {1}"}
      - {model: "pro$", times: 1, error: {code: 14, message: "try again"}}
      - {match: "slow", delay: 2, json: {"total": 12.5}}
    default: {reply: "{text}"}

A rule fits when its `match` is found in the prompt's text, its `model` in the model's name and its `key` in the key of
the batch's row. The first that fits, and has `times` left, answers; without a rule the prompt comes back as it was.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml
from pydantic_core import to_json

from penstock.engine.clock import SystemClock
from penstock.gemini_local.backend import Answer, CannotAnswer, Prompt

DIMENSIONS = 768
Sleep = Callable[[float], Awaitable[None]]

_takes = {"match", "model", "key", "reply", "json", "delay", "finish", "blocked", "error", "times", "thought_tokens"}


@dataclass(slots=True)
class Rule:
    """`left` is how often it may still answer; None: for ever."""

    match: re.Pattern[str] | None = None
    model: re.Pattern[str] | None = None
    key: re.Pattern[str] | None = None
    reply: str = "{text}"
    delay: float = 0.0
    finish: str = "STOP"
    blocked: str | None = None
    error: dict[str, Any] | None = None
    thought_tokens: int = 0
    left: int | None = None

    def fits(self, model: str, key: str, text: str) -> re.Match[str] | bool:
        """What its `match` found, or whether it fits without one."""
        if self.left == 0 or (self.model is not None and self.model.search(model) is None):
            return False
        if self.key is not None and self.key.search(key) is None:
            return False
        return True if self.match is None else self.match.search(text) or False


def read_rule(spec: Any) -> Rule:
    if not isinstance(spec, dict) or spec.keys() - _takes:
        raise ValueError(f"a rule is an object with some of {', '.join(sorted(_takes))}; got {spec!r:.200}")
    try:
        return Rule(
            match=re.compile(spec["match"], re.DOTALL) if "match" in spec else None,
            model=re.compile(spec["model"]) if "model" in spec else None,
            key=re.compile(spec["key"]) if "key" in spec else None,
            reply=to_json(spec["json"]).decode().replace("{", "{{").replace("}", "}}")
            if "json" in spec
            else str(spec.get("reply", "{text}")),
            delay=float(spec.get("delay", 0)),
            finish=str(spec.get("finish", "STOP")),
            blocked=spec.get("blocked"),
            error=spec.get("error"),
            thought_tokens=int(spec.get("thought_tokens", 0)),
            left=None if spec.get("times") is None else int(spec["times"]),
        )
    except (TypeError, re.error) as error:
        raise ValueError(f"{spec!r:.200}: {error}") from None


class ScriptBackend:
    """`asked` counts the requests that reached it."""

    name = "script"

    def __init__(self, script: Path | None = None, *, sleep: Sleep | None = None) -> None:
        self.asked = 0
        self._sleep = sleep or SystemClock().sleep
        self._rules: list[Rule] = []
        self._default = Rule()
        self._first: Any = None if script is None else _read(script)
        self.follow(None)

    def follow(self, script: Any) -> None:
        """Other rules from now on: a list of them, or `{"rules": [...], "default": {...}}`. None: those it began
        with."""
        script = self._first if script is None else script
        script = {"rules": script} if isinstance(script, list) else script or {}
        if not isinstance(script, dict) or script.keys() - {"rules", "default"}:
            raise ValueError('a script is {"rules": [...], "default": {...}}')
        rules = [read_rule(spec) for spec in script.get("rules") or []]
        self._default = read_rule(script.get("default") or {})
        self._rules = rules

    async def generate(self, prompt: Prompt) -> Answer:
        self.asked += 1
        text = prompt.text
        rule, found = self._choose(prompt.model, prompt.key, text)
        await self._obey(rule)
        return Answer(
            _fill(rule.reply, text, prompt.model, found),
            finish=rule.finish,
            blocked=rule.blocked,
            thought_tokens=rule.thought_tokens,
        )

    async def embed(
        self, model: str, texts: list[str], *, dimensions: int | None, task: str | None
    ) -> list[list[float]]:
        self.asked += 1
        rule, _ = self._choose(model, "", "\n".join(texts))
        await self._obey(rule)
        return [_vector(text, dimensions or DIMENSIONS) for text in texts]

    async def close(self) -> None:
        return None

    def _choose(self, model: str, key: str, text: str) -> tuple[Rule, re.Match[str] | None]:
        for rule in self._rules:
            found = rule.fits(model, key, text)
            if found is not False:
                if rule.left is not None:
                    rule.left -= 1
                return rule, found if isinstance(found, re.Match) else None
        return self._default, None

    async def _obey(self, rule: Rule) -> None:
        if rule.delay:
            await self._sleep(rule.delay)
        if rule.error is not None:
            raise CannotAnswer(
                str(rule.error.get("message", "the script says no")), code=int(rule.error.get("code", 13))
            )


def _read(script: Path) -> Any:
    try:
        return yaml.safe_load(script.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise ValueError(f"it is neither JSON nor YAML: {' '.join(str(error).split())}") from None


def _fill(reply: str, text: str, model: str, found: re.Match[str] | None) -> str:
    """`{text}`, `{model}` and `{1}` in a reply; doubled braces are braces."""
    groups = found.groups(default="") if found is not None else ()

    def value(hole: re.Match[str]) -> str:
        name = hole[1]
        if name is None:
            return hole[0][0]
        if name.isdigit():
            return groups[int(name) - 1] if 1 <= int(name) <= len(groups) else ""
        return {"text": text, "model": model}.get(name, hole[0])

    return re.sub(r"\{\{|\}\}|\{(\w+)\}", value, reply)


def _vector(text: str, dimensions: int) -> list[float]:
    """Of unit length, and the same for the same text."""
    rng = Random(hashlib.sha256(text.encode()).digest())
    values = [rng.gauss(0, 1) for _ in range(dimensions)]
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]
