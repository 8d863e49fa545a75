"""A page of the sample site before the seed has decided its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """A page. `facts` are what each `{name}` may be; `asks` are questions and their answers."""

    path: str
    title: str
    tags: tuple[str, ...]
    facts: Mapping[str, tuple[str, ...]]
    asks: tuple[tuple[str, str], ...]
    body: str
