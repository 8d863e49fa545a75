"""Whether a value fits a schema: JSON Schema as Pydantic writes it, or the OpenAPI subset that Gemini is given.

Only what those two use is checked; a keyword that is not known here forbids nothing. What Google returns was made to
fit the schema, so this looks for answers that were cut off or went astray, not for subtleties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_DEEPEST = 200

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
}

_BOUNDS: tuple[tuple[str, str, type | tuple[type, ...], Callable[[Any, Any], bool]], ...] = (
    ("minimum", "at least", (int, float), lambda value, bound: value >= bound),
    ("maximum", "at most", (int, float), lambda value, bound: value <= bound),
    ("exclusiveMinimum", "more than", (int, float), lambda value, bound: value > bound),
    ("exclusiveMaximum", "less than", (int, float), lambda value, bound: value < bound),
    ("minLength", "at least this long:", str, lambda value, bound: len(value) >= bound),
    ("maxLength", "at most this long:", str, lambda value, bound: len(value) <= bound),
    ("pattern", "like", str, lambda value, bound: re.search(bound, value) is not None),
    ("minItems", "a list of at least", list, lambda value, bound: len(value) >= bound),
    ("maxItems", "a list of at most", list, lambda value, bound: len(value) <= bound),
    ("minProperties", "of at least this many fields:", dict, lambda value, bound: len(value) >= bound),
    ("maxProperties", "of at most this many fields:", dict, lambda value, bound: len(value) <= bound),
)


def misfit(value: Any, schema: Schema) -> str | None:
    """The first thing that does not fit, with its place (`pages.3.title: must be string`), or None."""
    return _misfit(value, schema, schema, "", 0)


def _misfit(value: Any, schema: Any, root: Schema, place: str, depth: int) -> str | None:
    if schema is True or not isinstance(schema, Mapping):
        return f"{_at(place)}is not allowed" if schema is False else None
    if depth > _DEEPEST:
        return f"{_at(place)}is nested too deeply"
    if "$ref" in schema:
        return _misfit(value, _resolved(schema["$ref"], root), root, place, depth + 1)
    if value is None and schema.get("nullable") is True:
        return None
    return (
        _of_type(value, schema, place)
        or _of_bounds(value, schema, place)
        or _of_choices(value, schema, root, place, depth)
        or _of_parts(value, schema, root, place, depth)
    )


def _of_type(value: Any, schema: Schema, place: str) -> str | None:
    told = schema.get("type")
    names = [str(name).lower() for name in (told if isinstance(told, list) else [told]) if name]
    known = [name for name in names if name in _TYPES]
    if known and not any(_TYPES[name](value) for name in known):
        return f"{_at(place)}must be {' or '.join(known)}"
    if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
        return f"{_at(place)}must be one of {schema['enum']!r}"
    if "const" in schema and not _same(value, schema["const"]):
        return f"{_at(place)}must be {schema['const']!r}"
    return None


def _of_bounds(value: Any, schema: Schema, place: str) -> str | None:
    for keyword, words, kind, holds in _BOUNDS:
        bound = schema.get(keyword)
        if bound is None or isinstance(value, bool) or not isinstance(value, kind):
            continue
        try:
            # Gemini's own schemas write counts as strings: "minItems": "1".
            limit = int(bound) if keyword.startswith(("min", "max")) and isinstance(bound, str) else bound
            fits = holds(value, limit)
        except (ValueError, TypeError, re.error):
            continue
        if not fits:
            return f"{_at(place)}must be {words} {bound}"
    return None


def _of_choices(value: Any, schema: Schema, root: Schema, place: str, depth: int) -> str | None:
    for part in schema.get("allOf") or ():
        if found := _misfit(value, part, root, place, depth + 1):
            return found
    for keyword in ("anyOf", "oneOf"):
        choices = schema.get(keyword)
        if choices:
            found_in = [_misfit(value, choice, root, place, depth + 1) for choice in choices]
            if all(found_in):
                return found_in[0] if len(found_in) == 1 else f"{_at(place)}fits none of {len(found_in)} forms"
    return None


def _of_parts(value: Any, schema: Schema, root: Schema, place: str, depth: int) -> str | None:
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name in schema.get("required") or ():
            if name not in value:
                return f"{_at(place)}{name!r} is missing"
        rest = schema.get("additionalProperties", True)
        for name, item in value.items():
            if found := _misfit(
                item, properties.get(name, rest), root, f"{place}.{name}" if place else name, depth + 1
            ):
                return found
    elif isinstance(value, list):
        first = schema.get("prefixItems") or []
        for number, item in enumerate(value):
            form = first[number] if number < len(first) else schema.get("items", True)
            if found := _misfit(item, form, root, f"{place}.{number}" if place else str(number), depth + 1):
                return found
    return None


def _resolved(reference: Any, root: Schema) -> Any:
    found: Any = root
    for step in str(reference).removeprefix("#").strip("/").split("/"):
        if step:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, Mapping) else None
    return True if found is None else found


def _same(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _at(place: str) -> str:
    return f"{place[:200]}: " if place else ""
