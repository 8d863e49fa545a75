"""Response schemas, however they were sent: the shape that a reader recognises, and plain JSON Schema for others.

The SDK sends a Pydantic model as an OpenAPI subset (upper-case types, `nullable`, everything inlined, keys in either
case) or as JSON Schema (`$defs`, `anyOf` with null). `shape` brings both to one form that keeps only what the answer
must look like; titles, descriptions, defaults and bounds may change without a reader noticing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from penstock.gemini_local.backend import CannotAnswer

Schema = Mapping[str, Any]

DEEPEST = 60
"""Levels of a schema that are looked at; a real one has a handful."""

LARGEST = 20_000
"""Sub-schemas that are looked at, references followed: a few lines of `$ref` can stand for billions."""

_NULL = {"type": "null"}
_UNSAID = frozenset({"title", "default", "example", "examples", "nullable", "propertyOrdering"})
_OPENAPI_FORMATS = frozenset({"int32", "int64", "float", "double", "enum"})


def fingerprint(schema: Schema) -> str:
    """The same for every way of sending the same model."""
    text = json.dumps(shape(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shape(schema: Schema) -> dict[str, Any]:
    """The schema in canonical form: lower-case types, references inlined, `nullable` a flag, everything sorted."""
    return _Shaping(schema).of(schema)


def described(schema: Schema) -> str:
    """The fields of a schema in a few words, for a message to a person."""
    whole = shape(schema)
    if whole.get("type") == "array" and "items" in whole:
        return f"a list of {_fields(whole['items'])}"
    return _fields(whole)


def json_schema(schema: Schema) -> dict[str, Any]:
    """Plain JSON Schema for servers that know nothing of Gemini's subset. Objects are closed; the order of properties
    is the one that was asked for, since a grammar writes them in that order."""
    return _as_json_schema(schema, 0)


def all_required(schema: Any) -> bool:
    """Whether every property of every object must be there, which is what OpenAI's strict mode asks for. Takes what
    `json_schema` gives."""
    if not schema or not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties", {})
    if set(properties) - set(schema.get("required", ())):
        return False
    below = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
    return all(all_required(sub) for sub in below)


def _fields(whole: Schema) -> str:
    names = list(whole.get("properties", ()))
    if not names:
        return str(whole.get("type", "anything"))
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return "{" + ", ".join(names[:12]) + more + "}"


class _Shaping:
    """One walk over a schema, with its definitions and a bound on the work."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.seen = 0

    def of(self, schema: object, path: tuple[str, ...] = (), depth: int = 0) -> dict[str, Any]:
        self.seen += 1
        if self.seen > LARGEST or depth > DEEPEST:
            raise CannotAnswer("the response schema is too large or too deep to be looked at")
        if not isinstance(schema, Mapping):
            return {}
        merged, path = self._followed({_camel(key): value for key, value in schema.items()}, path)
        nullable = bool(merged.get("nullable"))
        options = merged.get("anyOf") or merged.get("oneOf")
        if isinstance(options, list):
            shapes = [self.of(option, path, depth + 1) for option in options]
            nullable = nullable or any("nullable" in one or one == _NULL for one in shapes)
            rest = [{key: one[key] for key in one if key != "nullable"} for one in shapes if one != _NULL]
            out: dict[str, Any] = rest[0] if len(rest) == 1 else {"anyOf": sorted(rest, key=_sorting)}
        else:
            out, null = self._plain(merged, path, depth)
            nullable = nullable or null
        if nullable:
            out["nullable"] = True
        return out

    def _followed(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The schema with its `$ref` (or a lone `allOf`) put in place; a reference back to where we are is empty, as
        in what the SDK sends."""
        while True:
            alone = schema.get("allOf")
            if isinstance(alone, list) and len(alone) == 1 and isinstance(alone[0], Mapping):
                del schema["allOf"]
                schema = {**schema, **{_camel(key): value for key, value in alone[0].items()}}
            ref = schema.pop("$ref", None) or schema.pop("ref", None)
            if not isinstance(ref, str):
                return schema, path
            if ref in path:
                return {}, path
            path = (*path, ref)
            target: Any = self.root
            for name in ref.removeprefix("#").strip("/").split("/"):
                target = target.get(name) if isinstance(target, Mapping) and name else target
            schema = {**schema, **({_camel(k): v for k, v in target.items()} if isinstance(target, Mapping) else {})}

    def _plain(self, schema: dict[str, Any], path: tuple[str, ...], depth: int) -> tuple[dict[str, Any], bool]:
        kinds = schema.get("type")
        named = [str(kind).lower() for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind is not None]
        values = schema["enum"] if isinstance(schema.get("enum"), list) else None
        if values is None and schema.get("const") is not None:
            values = [schema["const"]]
        out: dict[str, Any] = {}
        null = "null" in named and len(named) > 1
        rest = sorted(kind for kind in named if kind != "type_unspecified" and not (null and kind == "null"))
        if rest:
            out["type"] = rest[0] if len(rest) == 1 else rest
        if values is not None:
            null |= None in values
            out["enum"] = sorted((value for value in values if value is not None), key=_sorting)
            out.setdefault("type", "string")
        if isinstance(properties := schema.get("properties"), Mapping):
            out["type"] = "object"
            out["properties"] = {name: self.of(properties[name], path, depth + 1) for name in sorted(properties)}
            required = schema.get("required")
            out["required"] = sorted(str(name) for name in required) if isinstance(required, list) else []
        if isinstance(items := schema.get("items"), Mapping):
            out["type"] = "array"
            out["items"] = self.of(items, path, depth + 1)
        if isinstance(prefix := schema.get("prefixItems"), list):
            out["type"] = "array"
            out["prefixItems"] = [self.of(item, path, depth + 1) for item in prefix]
        if isinstance(others := schema.get("additionalProperties"), Mapping):
            out["type"] = "object"
            out["values"] = self.of(others, path, depth + 1)
        return out, null


def _as_json_schema(schema: object, depth: int) -> dict[str, Any]:
    if depth > DEEPEST:
        raise CannotAnswer("the response schema is too deep to be passed on")
    if not isinstance(schema, Mapping):
        return {}
    given = {_camel(key): value for key, value in schema.items()}
    out: dict[str, Any] = {}
    for key, value in given.items():
        if key in _UNSAID or value is None or (key == "format" and value in _OPENAPI_FORMATS):
            continue
        if key == "type":
            value = [str(kind).lower() for kind in value] if isinstance(value, list) else str(value).lower()
        elif key in ("properties", "$defs", "defs"):
            order = given.get("propertyOrdering") if key == "properties" else ()
            value = _each(value, order, depth)
            key = "$defs" if key == "defs" else key
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            value = [_as_json_schema(one, depth + 1) for one in value] if isinstance(value, list) else []
        elif key in ("items", "additionalProperties") and not isinstance(value, bool):
            value = _as_json_schema(value, depth + 1)
        elif key == "required":
            value = [str(name) for name in value] if isinstance(value, list) else []
        elif key.startswith(("min", "max")) and isinstance(value, str) and value.isdecimal():
            value = int(value)
        out[key] = value
    if "properties" in out:
        out.setdefault("type", "object")
        out.setdefault("additionalProperties", False)
    if out.get("type") == "type_unspecified":
        del out["type"]
    if not given.get("nullable"):
        return out
    about = {"description": out.pop("description")} if "description" in out else {}
    options = out["anyOf"] if set(out) == {"anyOf"} else [out]
    return {**about, "anyOf": [*options, {"type": "null"}]}


def _each(schemas: Any, order: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schemas, Mapping):
        return {}
    first = [name for name in order if name in schemas] if isinstance(order, list) else []
    names = dict.fromkeys([*first, *schemas])
    return {name: _as_json_schema(schemas[name], depth + 1) for name in names}


def _sorting(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _camel(key: object) -> str:
    return re.sub(r"(?<=[a-z])_([a-z])", lambda found: found.group(1).upper(), str(key))
