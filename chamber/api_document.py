"""How the OpenAPI document describes an operation: what its view says, and the answers that follow from that.

Errors are derived, so that no view lists them: from who may ask, what the address and the body name, `If-Match`, and
whether something changes. What cannot be known from these a view says itself, as `responses={..., 410: None}`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent, get_doc
from drf_spectacular.utils import Direction, OpenApiParameter
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS, AllowAny

from chamber.bodies import Body
from chamber.rest import MAX_BODY_BYTES, MAX_TEXT, NewestFirst

Schema = dict[str, Any]

ROOMS: Mapping[str, tuple[str, str]] = {
    "teams": ("teams", "The tree of teams, members, groups, pools, and the audit trail."),
    "workloads": ("workloads", "Workloads, their attempts and events."),
    "agentlink": ("clusters", "Clusters, nodes, logs, and what workloads make of their GPUs."),
    "scheduling": ("scheduling", "Queues, why a workload waits, cycles, what-if."),
    "chamber": ("accounts", "Signing in, tokens, people, and the version."),
}
"""The tag of each app's operations, and what they are about."""
ABOUT = """Submit workloads, read why they wait, and manage the organisation; docs/api.md says what holds for all.

Lists are pages: `results`, and the addresses of the `next` and the `previous` page. What is refused is answered as a
problem (RFC 9457). Where no cycle has ended for ten seconds, answers have `Chamber-Undecided-Since`; where the agent of
a cluster is silent, `Chamber-Silent-Clusters`. `RateLimit-Policy` and `RateLimit` of each answer say how much may
be asked for, and what is left.
"""
PROBLEM = "application/problem+json"
PROBLEM_SCHEMA: Schema = {
    "type": "object",
    "description": "Why a request was not done (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "description": "The words of the status."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {
            "type": "string",
            "description": "A sentence with the offending value and what is allowed.",
        },
        "code": {"type": "string", "description": "The same for programs, such as not-found."},
        "errors": {
            "type": "object",
            "description": "A sentence for each place of the request, such as `edits[0].shares[1].pool`.",
            "additionalProperties": {"type": "string"},
        },
        "request_id": {"type": "string", "description": "By which the server's log names the request."},
    },
}
PROBLEMS: Mapping[int, str] = {
    400: "The request cannot be read: a body that is not JSON or names a key twice, too many parameters, another host.",
    401: "Nobody is signed in, or the token is unknown, expired or revoked.",
    403: "Your role, the token's scope, or a missing token against forgery does not let you do this.",
    404: "Something that the request names does not exist, or may not be seen.",
    406: "`Accept` takes none of the media types that there are.",
    409: "The present state does not allow it, or somebody was quicker.",
    410: "What is asked for is gone: begin anew.",
    412: "Somebody changed it since the version that you edited: read it again and repeat your change.",
    413: f"The body is larger than {MAX_BODY_BYTES:,} bytes.",
    415: "The body is no `application/json`.",
    422: "A value cannot be; `errors` names the places.",
    428: "`If-Match` is missing.",
    429: "Too many requests, or too much of what is limited.",
    503: "The database did not answer in time; nothing was done.",
}
WITH_RETRY_AFTER = frozenset({429, 503})
RETRY_AFTER: Schema = {
    "description": "Seconds after which to try again.",
    "schema": {"type": "integer", "minimum": 0},
}
ETAG: Schema = {
    "description": "Of this version: what `If-Match` of an edit takes.",
    "required": True,
    "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
}
ALWAYS = (400, 406, 422, 429, 503)
"""Of any operation: `?format=` that there is not is a 422."""
NAMING = frozenset(
    {
        "team",
        "teams",
        "parent",
        "pool",
        "pools",
        "cluster",
        "clusters",
        "node",
        "nodes",
        "owner",
        "actor",
        "who",
        "to",
    }
    | {"cursor", "group"}
)
"""Parameters and keys of bodies that name something: it may not exist, or not for the asker."""
OF_A_PART: Mapping[str, str] = {"slug": "Slug", "name": "Name", "id": "Id", "username": "User name"}
SINGULARS: Mapping[str, str] = {"people": "person"}
VERBS: Mapping[str, str] = {
    "GET": "get", "POST": "create", "PUT": "set", "PATCH": "change", "DELETE": "delete"
}  # fmt: skip


def in_query(name: str, description: str, *, required: bool = False, **schema: Any) -> OpenApiParameter:
    """Return a parameter of the query with its bounds, as JSON Schema names them; text of at most 200 characters else.

    Text that is empty is as none.
    """
    bounds = schema or {"maxLength": MAX_TEXT}
    kind = {} if "type" in bounds else {"type": "string"}
    if "enum" in bounds:
        bounds["enum"] = [*bounds["enum"], ""]
    return OpenApiParameter(name, {**kind, **bounds}, description=description, required=required)


def events_of(names: Sequence[str], data: str) -> Schema:
    """Return the schema of each event of a stream; `data` says what the JSON in it is."""
    return {
        "type": "object",
        "description": "Server-sent events, each with these fields.",
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "description": "What `Last-Event-ID` takes."},
            "event": {"type": "string", "enum": list(names)} if names else {"type": "string"},
            "data": {"type": "string", "contentMediaType": "application/json", "description": data},
        },
    }


class DescribedOperation(AutoSchema):
    """One operation of the document."""

    view: Any

    def get_operation_id(self) -> str:
        """Return the parts of the address and a verb; of an act its name is enough: `workloads_cancel`."""
        parts = [part.replace("-", "_") for part in self._tokenize_path()]
        if self.method == "GET" and self._is_list_view():
            return "_".join([*parts, "list"])
        if self.method == "POST" and not hasattr(self.view, "get"):
            return "_".join(parts)
        return "_".join([*parts, VERBS[self.method]])

    def get_tags(self) -> list[str]:
        """Return the room that the view is in."""
        return [ROOMS[type(self.view).__module__.partition(".")[0]][0]]

    def get_summary(self) -> str:
        """Return what it is about, and what is done: the first words of the view's and of the method's docstring."""
        if own := getattr(self.view, "summary", ""):
            return str(own)
        about = _clause(get_doc(type(self.view)))
        done = _clause(self.get_description())
        return about if done in {about, ""} else f"{about}: {done[0].lower()}{done[1:]}"

    def _resolve_path_parameters(self, variables: list[str]) -> list[Schema]:
        """Return the parameters of the address, each with what it names."""
        found: list[Schema] = super()._resolve_path_parameters(variables)  # type: ignore[no-untyped-call]
        for parameter in found:
            before = self.path.split(f"/{{{parameter['name']}}}")[0].rpartition("/")[2]
            of = SINGULARS.get(before, before.removesuffix("s")).replace("-", " ")
            kind = next((word for end, word in OF_A_PART.items() if parameter["name"].endswith(end)), "Name")
            parameter["description"] = f"{kind} of the {of}."
        return found

    def _get_format_parameters(self) -> list[Schema]:
        """Return `format` of what is answered in several forms."""
        found: list[Schema] = super()._get_format_parameters()
        return [
            {**each, "description": "The form of the answer that is taken, in place of `Accept`."}
            for each in found
        ]

    def _get_paginator(self) -> NewestFirst:
        """Return what says how a list is answered: also one that is never more than one page."""
        made: NewestFirst = (getattr(self.view, "pagination_class", None) or NewestFirst)()
        return made

    def _get_pagination_parameters(self) -> list[Schema]:
        """Return `cursor` and `limit` of lists that have pages."""
        paged = getattr(self.view, "pagination_class", None)
        return super()._get_pagination_parameters() if paged else []  # type: ignore[no-untyped-call]

    def _map_serializer_field(
        self, field: Any, direction: Direction, bypass_extensions: bool = False
    ) -> Schema:
        """Return the schema of a field; what names another row is null where the column may be."""
        if isinstance(field, serializers.RelatedField):
            model = getattr(getattr(field.parent, "Meta", None), "model", None)
            column = model._meta.get_field(str(field.source)) if model is not None else None
            field.allow_null = field.allow_null or bool(getattr(column, "null", False))
        return cast("Schema", super()._map_serializer_field(field, direction, bypass_extensions))  # type: ignore[no-untyped-call]

    def _map_basic_serializer(self, serializer: Any, direction: Direction) -> Schema:
        """Return the schema of an object: of a request no key is taken that it does not know, of an answer those with a
        default are always there.
        """
        schema: Schema = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        made = serializer() if isinstance(serializer, type) else serializer
        if isinstance(made, Body):
            if made.refuses_unknown:
                schema["additionalProperties"] = False
            return schema
        there = {
            name
            for name, field in made.fields.items()
            if name in schema.get("properties", {})
            and (field.required or field.read_only or field.default is not serializers.empty)
        }
        if there:
            schema["required"] = sorted(there)
        return schema

    def _get_response_bodies(self, direction: Direction = "response") -> Schema:
        """Return what is answered where it is done, and then each problem that may be."""
        bodies: Schema = super()._get_response_bodies(direction)
        done = {code: body for code, body in bodies.items() if int(code) < HTTPStatus.BAD_REQUEST}
        for code, body in done.items():
            body["description"] = body["description"] or HTTPStatus(int(code)).phrase
            if self._is_versioned(body):
                self._register(ResolvedComponent.HEADER, "ETag", ETAG)
                body.setdefault("headers", {})["ETag"] = {"$ref": "#/components/headers/ETag"}
        own = {int(code) for code in bodies.keys() - done.keys()}
        return done | {str(code): self._problem(code) for code in sorted(own | self._problems())}

    def _is_versioned(self, body: Schema) -> bool:
        """Return whether an answer is one row with the number of its version, which is its ETag."""
        schemas = [media.get("schema", {}) for media in body.get("content", {}).values()]
        return any(
            self._resolved(schema).get("properties", {}).get("version", {}).get("type") == "integer"
            for schema in schemas
        )

    def _resolved(self, schema: Schema) -> Schema:
        name = schema.get("$ref", "").rpartition("/")[2]
        found = self.registry._components.get((name, ResolvedComponent.SCHEMA)) if name else None
        return cast("Schema", found.schema) if found else schema

    def _problems(self) -> set[int]:
        """Return the statuses of problems that may be answered."""
        changes = self.method not in SAFE_METHODS
        found = set(ALWAYS) | ({409} if changes else set())
        if self.view.get_authenticators():
            found.add(401)
        if not any(isinstance(each, AllowAny) for each in self.view.get_permissions()):
            found.add(403)
        parameters = self._get_parameters()
        names = {each["name"] for each in parameters}
        body = self._get_request_body()  # type: ignore[no-untyped-call]
        if body:
            found |= {413, 415}
            named = set(self._keys(body))
            found |= {404} if named & NAMING else set()
            found |= {412} if "version" in named else set()
        if names & NAMING or any(each["in"] == "path" for each in parameters):
            found.add(404)
        if "If-Match" in names:
            found |= {412, 428}
        return found

    def _keys(self, schema: Any, seen: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield the names of all properties of a schema."""
        if isinstance(schema, list):
            for each in schema:
                yield from self._keys(each, seen)
        if not isinstance(schema, dict):
            return
        if (reference := schema.get("$ref")) and reference not in seen:
            yield from self._keys(self._resolved(schema), seen | {reference})
        yield from schema.get("properties", {})
        for each in schema.values():
            yield from self._keys(each, seen)

    def _problem(self, code: int) -> Schema:
        """Return a reference to a problem's answer."""
        self._register(ResolvedComponent.SCHEMA, "Problem", PROBLEM_SCHEMA)
        content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        answer: Schema = {"description": PROBLEMS[code], "content": content}
        if code in WITH_RETRY_AFTER:
            self._register(ResolvedComponent.HEADER, "RetryAfter", RETRY_AFTER)
            answer["headers"] = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}
        name = f"Problem{code}"
        self._register(ResolvedComponent.RESPONSE, name, answer)
        return {"$ref": f"#/components/responses/{name}"}

    def _register(self, kind: str, name: str, schema: Schema) -> None:
        component = ResolvedComponent(name, kind, schema, object=name)  # type: ignore[no-untyped-call]
        self.registry.register_on_missing(component)


def _clause(text: str) -> str:
    """Return the first clause of a text, without its end."""
    return re.split(r"[.;:](?=\s|$)|, (?=\d{3} )|\n\n", " ".join(text.split()), maxsplit=1)[0].strip()


class PydanticBody(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """A body that pydantic reads: described as it is taken, not as it would be written."""

    target_class = "pydantic.BaseModel"
    match_subclasses = True
    priority = 1

    def get_name(self, auto_schema: AutoSchema, direction: Direction) -> str:  # noqa: ARG002 - the library's signature
        """Return the name of the component."""
        return cast("type[BaseModel]", self.target).__name__

    def get_identity(self, auto_schema: AutoSchema, direction: Direction) -> Any:
        """Return the model: a name for it that was met inside another one is the same component."""
        return self.get_name(auto_schema, direction)

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> Schema:  # noqa: ARG002
        """Return the schema of the model, and register those that it is made of."""
        model = cast("type[BaseModel]", self.target)
        _, whole = models_json_schema([(model, "validation")], ref_template="#/components/schemas/{model}")
        parts = {name: _untitled(part) for name, part in whole["$defs"].items()}
        own: Schema = parts.pop(model.__name__)
        for name, part in parts.items():
            component = ResolvedComponent(name, ResolvedComponent.SCHEMA, part, object=name)  # type: ignore[no-untyped-call]
            auto_schema.registry.register_on_missing(component)
        return own


def _untitled(schema: Any, *, names: bool = False) -> Any:
    """Return a schema without titles, which only repeat its names; a property may be called so."""
    if isinstance(schema, list):
        return [_untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _untitled(value, names=key == "properties" and not names)
        for key, value in schema.items()
        if names or key != "title" or not isinstance(value, str)
    }


def finished(result: Schema, generator: Any, **_: Any) -> Schema:  # noqa: ARG001 - the library's signature
    """Return the document with what it says as a whole: its tags, and what holds for each answer."""
    result["info"]["description"] = ABOUT
    result["tags"] = [{"name": name, "description": about} for name, about in ROOMS.values()]
    return result
