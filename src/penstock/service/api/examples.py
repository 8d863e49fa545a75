"""Examples in the OpenAPI document: every body and answer has one, made from its schema where nobody wrote one."""

from __future__ import annotations

from typing import Any


def exemplify(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Give every JSON body and answer of an operation an example."""
    bodies = [operation.get("requestBody", {}), *operation.get("responses", {}).values()]
    for body in bodies:
        told = body.get("content", {}).get("application/json")
        if told is not None and "example" not in told and "examples" not in told:
            told["example"] = example_of(told.get("schema", {}), schemas)


def example_of(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """What was written for it, or the least that fits."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if schema.get("examples"):
        return schema["examples"][0]
    for known in ("const", "default"):
        if known in schema:
            return schema[known]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        kinds = [kind for kind in schema["anyOf"] if kind.get("type") != "null"]
        return example_of(kinds[0], schemas) if len(kinds) == len(schema["anyOf"]) else None
    match schema.get("type"):
        case "object":
            return {name: example_of(told, schemas) for name, told in schema.get("properties", {}).items()}
        case "array":
            return [example_of(schema["items"], schemas)]
        case "boolean":
            return False
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "string":
            return ""
        case _:
            return None
