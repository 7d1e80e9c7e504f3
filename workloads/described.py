"""How the API's document describes what a submission takes: each field in all the ways in which it may be written."""

from typing import Any

Schema = dict[str, Any]

DURATION = r"^\s*\d+(\.\d+)?\s*[smhdwSMHDW]?(\s*\d+(\.\d+)?\s*[smhdwSMHDW])*\s*$"
MEMORY = r"^\s*\d+(\.\d+)?\s*([mgtMGT]([iI]?[bB]|[iI])?)?\s*$"
AMOUNT = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
WHOLE = r"^\s*[+-]?[\d_]+(\.0*)?\s*$"

NULL: Schema = {"type": "null"}
NAMED_PRIORITY: Schema = {"type": "string", "pattern": r"^\s*[a-z0-9]+(-[a-z0-9]+)*\s*$"}
WORDS: Schema = {"type": "array", "items": {"type": "string"}, "maxItems": 1000}
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
TRUTH: Schema = {"anyOf": [{"type": "boolean"}, {"enum": [0, 1]}, {"type": "string"}]}
ARRAY: Schema = {
    "description": "Many workloads as one: a range, a list, a grid, or a CSV with a line of names. See docs/arrays.md.",
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": 10_000},
        {"type": "string", "minLength": 1},
        {
            "type": "array",
            "minItems": 1,
            "maxItems": 10_000,
            "items": {"type": ["object", "string", "number", "boolean"]},
        },
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": {
                "range": {"type": ["string", "integer"]},
                "list": {"type": "array", "minItems": 1, "maxItems": 10_000, "items": {}},
                "grid": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "minItems": 1, "items": {}},
                },
                "csv": {"type": "string"},
            },
        },
        NULL,
    ],
}
MOMENT: Schema = {
    "anyOf": [{"type": "string", "maxLength": 80}, {"type": "number", "minimum": 0}, NULL],
    "description": "A time with its zone (2026-12-01T20:00Z, 2026-12-01 20:00 Europe/Berlin), or one from now (2h).",
}
OF_A_NAME: dict[str, Schema] = {
    "command": {"anyOf": [{"type": "string"}, WORDS, NULL]},
    **dict.fromkeys(("node_selector", "labels", "annotations"), TEXTS),
    "environment": {"anyOf": [TEXTS, {"type": "string"}]},
    **dict.fromkeys(("fail_if_impossible", "read_notes", "hold"), TRUTH),
    **dict.fromkeys(("start_after", "deadline"), MOMENT),
}
"""Fields that are written in ways of their own."""


def _text(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def _number(kind: str, pattern: str, low: int | None, high: int | None) -> Schema:
    """Return a number, or text that is one."""
    bounds = {"minimum": low, "maximum": high}
    return {
        "anyOf": [
            {"type": kind, **{key: value for key, value in bounds.items() if value is not None}},
            _text(pattern),
        ]
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [*schema["anyOf"], NULL]}


def describe(schema: Schema) -> None:
    """Have the schema of a submission say what else its fields take: text for numbers, short names, units."""
    properties: dict[str, Schema] = schema["properties"]
    for name, found in properties.items():
        bounds = next((each for each in (found, *found.get("anyOf", [])) if "type" in each), found)
        # Of a field with a validator before it pydantic tells bounds by its own names.
        low, high = bounds.get("minimum", bounds.get("ge")), bounds.get("maximum", bounds.get("le"))
        written = _written(name, bounds.get("type", ""), low, high)
        if written is not None:
            kept: Schema = {key: found[key] for key in ("default", "description") if key in found}
            null = NULL in found.get("anyOf", [])
            properties[name] = {**(_or_null(written) if null else written), **kept}
    long = {"type": ["string", "number", "null"]}
    properties["time_limit"] = {**long, "description": "A short name of time_limit_seconds."}
    properties["grace"] = {**long, "description": "A short name of grace_seconds."}
    properties["variables"] = {**TEXTS, "description": "The same as a mapping under environment."}
    properties["gang"] = {"type": "boolean", "description": "False: it starts with one pod, as min_pods: 1."}


def _written(name: str, kind: str, low: int | None, high: int | None) -> Schema | None:
    """Return in which ways a field may be written; None where it is as its type says."""
    found = OF_A_NAME.get(name)
    if name == "priority":
        found = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 1_000_000}, NAMED_PRIORITY]}
    elif name.endswith("_mib"):
        found = _number("integer", MEMORY, low, high)
    elif name.endswith("_seconds"):
        found = _number("number", DURATION, low, high)
    elif kind in {"integer", "number"}:
        found = _number(kind, WHOLE if kind == "integer" else AMOUNT, low, high)
    return found
