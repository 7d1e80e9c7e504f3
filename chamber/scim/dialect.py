"""What providers ask otherwise than RFC 7644 has it, as it has it."""

import json
import re
from typing import Any

from scim2_models import PatchOp, Resource
from scim2_server.conditions import Conditions
from scim2_server.service import ScimService

MOST_VALUES = 1000
"""Of one operation; Entra ID sends one at a time."""
_OF_TYPE = re.compile(r'(\w+)\[type eq "([^"\\]+)"\]\.\w+')


def spoken(body: bytes) -> bytes:
    """Return a PATCH as the RFC has it; what is no PATCH is returned as it is.

    Entra ID names the members to be removed as a value instead of a filter, and a manager as a text.
    """
    try:
        asked = json.loads(body)
        asked["Operations"] = [made for each in asked["Operations"] for made in _operations(each)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return body
    return json.dumps(asked).encode()


def _operations(operation: Any) -> list[Any]:
    path, value = str(operation.get("path", "")).lower(), operation.get("value")
    if str(operation["op"]).lower() == "remove" and path == "members" and isinstance(value, list):
        ids = [json.dumps(str(each["value"])) for each in value[:MOST_VALUES]]
        return [{"op": "remove", "path": f"members[value eq {each}]"} for each in ids]
    if path.endswith(":manager") and isinstance(value, str):
        return [{**operation, "value": {"value": value}}]
    return [operation]


class ScimDialect(ScimService):
    """The protocol, with what Entra ID expects of it besides."""

    def apply_patch(
        self, current: Resource[Any], patch_op: "PatchOp[Any]", conditions: Conditions
    ) -> Resource[Any] | None:
        """Apply a PATCH; what it sets of the work address, where there is none yet, makes one."""
        return super().apply_patch(_with_targets(current, patch_op), patch_op, conditions)


def _with_targets(current: Resource[Any], patch_op: "PatchOp[Any]") -> Resource[Any]:
    """Return a resource with an element of each type of which an operation sets a part."""
    values = current.model_dump(by_alias=True, exclude_none=True)
    added = False
    for operation in patch_op.operations or []:
        found = _OF_TYPE.fullmatch(str(operation.path or ""))
        if found is None or operation.op == "remove":
            continue
        name, kind = found.groups()
        elements = values.setdefault(name, [])
        if not any(each.get("type") == kind for each in elements):
            elements.append({"type": kind})
            added = True
    return type(current).model_validate(values) if added else current
