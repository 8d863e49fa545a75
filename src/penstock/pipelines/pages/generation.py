"""Gemini's settings of an answer, as a run's configuration may give them: which there are, and what they may be.

Gemini passes over a name that it does not know, or refuses the whole batch for it, hours later. So a slip of the pen is
told before anything is sent. The names stand here so that nobody needs Google's library to read a configuration; a test
compares them with it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

BY_THE_PROMPT = ("responseSchema", "responseJsonSchema", "responseMimeType", "responseFormat", "candidateCount")
"""What the prompt and the way its answers are read decide."""

SETTINGS = (
    "temperature", "maxOutputTokens", "topP", "topK", "seed", "stopSequences", "thinkingConfig", "mediaResolution",
    "frequencyPenalty", "presencePenalty", "logprobs", "responseLogprobs", "responseModalities", "audioTimestamp",
    "audioTranscriptionConfig", "enableAffectiveDialog", "enableEnhancedCivicAnswers", "modelSelectionConfig",
    "routingConfig", "speechConfig", "translationConfig", *BY_THE_PROMPT,
)  # fmt: skip

THINKING = ("includeThoughts", "thinkingBudget", "thinkingLevel")

Check = tuple[Callable[[Any], bool], str]

Problem = tuple[tuple[str, ...], str]
"""Which setting, and what is wrong with it."""


def _whole(least: int | None = None) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and (least is None or value >= least)


def _number(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and least <= value <= most


_TRUTH: Check = (lambda value: isinstance(value, bool), "must be true or false")
_TEXT: Check = (lambda value: isinstance(value, str), "must be text")

_CHECKS: Mapping[str, Check] = {
    "temperature": (_number(0, 2), "must be a number from 0 to 2"),
    "maxOutputTokens": (_whole(1), "must be a whole number, 1 or more"),
    "topP": (_number(0, 1), "must be a number from 0 to 1"),
    "topK": (_number(1, 1e9), "must be a number, 1 or more"),
    "seed": (_whole(), "must be a whole number"),
    "stopSequences": (
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
        "must be a list of texts",
    ),
    "thinkingConfig": (lambda value: isinstance(value, Mapping), f"must have keys of its own: {', '.join(THINKING)}"),
    "mediaResolution": _TEXT,
    "frequencyPenalty": (_number(-2, 2), "must be a number from -2 to 2"),
    "presencePenalty": (_number(-2, 2), "must be a number from -2 to 2"),
    "logprobs": (_whole(0), "must be a whole number, 0 or more"),
    "responseLogprobs": _TRUTH,
    "audioTimestamp": _TRUTH,
    "includeThoughts": _TRUTH,
    "thinkingBudget": (_whole(-1), "must be a whole number, -1 or more"),
    "thinkingLevel": _TEXT,
}


def in_rests_words(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings under REST's names; what is null is not set."""
    told = {_camel(name): value for name, value in config.items() if value is not None}
    thinking = told.get("thinkingConfig")
    return told | {"thinkingConfig": in_rests_words(thinking)} if isinstance(thinking, Mapping) else told


def wrong_settings(config: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong, each under the name as it was written."""
    problems = _wrong(config, SETTINGS)
    for name, value in ((str(name), value) for name, value in config.items()):
        if _camel(name) in BY_THE_PROMPT:
            problems.append(((name,), "is decided by the prompt: leave it out"))
        elif _camel(name) == "thinkingConfig" and isinstance(value, Mapping):
            problems += [((name, *place), message) for place, message in _wrong(value, THINKING)]
    return problems


def _wrong(config: Mapping[str, Any], known: tuple[str, ...]) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for name, value in ((str(name), value) for name, value in config.items()):
        plain = _camel(name)
        if plain not in known:
            problems.append(((name,), _unknown(name, known)))
        elif plain in seen:
            problems.append(((name,), "stands there twice, in both spellings"))
        elif plain in _CHECKS and value is not None:
            fits, message = _CHECKS[plain]
            if not fits(value):
                problems.append(((name,), f"{message} (is {_shown(value)})"))
        seen.add(plain)
    return problems


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value[:80]) if isinstance(value, str) else str(value)[:80]


def _unknown(name: str, known: tuple[str, ...]) -> str:
    """The way out, spelled as the name is."""
    offered = [setting for setting in known if setting not in BY_THE_PROMPT]
    spelled = {_snake(setting) if "_" in name or name.islower() else setting: setting for setting in offered}
    if near := difflib.get_close_matches(name, spelled, n=1, cutoff=0.6):
        return f"Gemini has no such setting; did you mean {near[0]}?"
    return f"Gemini has no such setting; there are {', '.join(spelled)}"


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
