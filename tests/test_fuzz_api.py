"""Each operation of the API as each role, asked what its document allows and what it does not: schemathesis.

No answer is a fault, or other than the document says, and nothing is taken that it does not allow. Two thirds of what
is asked are about things that there are, with `If-Match` of whatever version, so that it comes to an action.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from random import Random
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.urls import resolve
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation.case import Case
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi import checks

from chamber.models import Scope
from chamber.services.actions import make_token
from chamber.tokens import TokenRequest, create_token
from teams.actors import Actor
from tests.test_role_walk import ACTORS, BODIES, URLS, World, world
from tests.ways_in import FULL

__all__ = ["world"]

Operation = Any
"""Of schemathesis, which types it by its kinds of documents."""
EVERY_ROLE = "CHAMBER_FUZZ_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("CHAMBER_FUZZ_EXAMPLES", "3"))
"""Of each operation in each of two modes."""
AT_ONCE = 4
"""As so many roles in turn, and as the one that gets furthest, each example is asked; by `make fuzz-api` as every one.

Three examples are together asked as each role that there is.
"""
PARTS = 8
"""Of the operations: several processes share them."""
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
]
READ, SERVICE = "read", "service"
REFUSALS = [*range(400, 430), 503]
ROLES = [FULL, *(role for role in [*ACTORS, READ, SERVICE] if role != FULL)]
"""Those of the role walk, an organisation admin's token that may only read, and a service account."""
FIRST_PROBLEM = 400
ENDED = "ended-1"
"""A workload of which all is told: the streams of one that goes on do not end."""


def document() -> Any:
    """Return the document without how to sign in, which each role does in its own way."""
    whole = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    for operations in whole["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
    return whole


CONFIG = schemathesis.Config.from_dict(
    {"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}}
)
NAMES = {
    "/api/v1/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(url.pattern)): name
    for name, url in URLS.items()
    if name.startswith("api-")
}
"""The name of the URL of each path of the document."""


def operations(part: int) -> list[Operation]:
    """Return a part of all operations."""
    read = schemathesis.openapi.from_dict(document(), config=CONFIG)
    return [each.ok() for each in read.get_all_operations()][part::PARTS]  # type: ignore[union-attr]


class Doors:
    """The application as each role comes to it."""

    def __init__(self, world: World) -> None:
        self._world, self._application = world, WSGIHandler()
        self._headers = {role: self._of(role) for role in ROLES}
        self._turn = cycle(ROLES[1:])
        self.asked: Counter[int] = Counter()
        """How many answers there were of each status."""

    def _of(self, role: str) -> dict[str, str]:
        user = self._world.users.get("org-admin" if role == READ else role)
        if role == SERVICE:
            wanted = TokenRequest("fuzz", Scope.MANAGE, 1)
            _, secret = make_token(by=Actor.system("test"), account=self._world.service, wanted=wanted)
        elif user is not None:
            scope = Scope.READ if role == READ else Scope.ADMIN
            _, secret = create_token(user=user, name="fuzz", scope=scope, days=1)
        else:
            return {}
        return {"Authorization": f"Bearer {secret}"}

    def cases(self, operation: Operation, mode: GenerationMode) -> st.SearchStrategy[Case[Any]]:
        """Return what is asked of an operation: about anything, or about things that there are."""
        name = NAMES[operation.path]
        known = dict(resolve(self._world.address(name)).kwargs)
        if name == "api-workload-watch":
            known["slug"] = ENDED
        about_known = operation.as_strategy(mode, path_parameters=known, headers={"If-Match": "*"})
        if mode.is_positive and (body := BODIES.get(name)) and operation.body:
            about_known = st.builds(_sensible, about_known, st.just(body), st.randoms(use_true_random=False))
        return st.one_of(operation.as_strategy(mode), about_known, about_known)

    def roles(self) -> list[str]:
        """Return as which roles the next example is asked."""
        return ROLES if EVERY_ROLE else [FULL, *islice(self._turn, AT_ONCE)]

    def ask(self, case: Case[Any]) -> None:
        """Ask as several roles, and undo what that changed; fail where an answer is other than the document says."""
        for role in self.roles():
            headers = self._headers[role]
            cache.clear()  # of tries
            with transaction.atomic(), _connection_kept():
                answer = case.call(app=self._application, headers=headers)
                transaction.set_rollback(True)
            self.asked[answer.status_code] += 1
            try:
                case.validate_response(answer, checks=CHECKS)
            except BaseExceptionGroup as group:
                group.add_note(f"as {role}")
                raise


@contextmanager
def _connection_kept() -> Iterator[None]:
    """Have the end of a request leave the connection to the database, as Django's own test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)


def _sensible(case: Case[Any], body: dict[str, Any], random: Random) -> Case[Any]:
    """Have a body say what makes sense, but for some of its keys."""
    if isinstance(case.body, dict):
        kept = [key for key in case.body if random.random() < 0.3]
        case.body = {**body, **{key: case.body[key] for key in kept}}
    return case


@pytest.mark.sqlite_only  # what is asked does not depend on the database, and takes a minute
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators:Warning")
@pytest.mark.parametrize("part", range(PARTS))
def test_each_operation_answers_each_role_as_its_document_says(world: World, part: int) -> None:
    doors, wrong = Doors(world), {}
    for operation in operations(part):
        for mode in GenerationMode:
            asked = settings(
                max_examples=EXAMPLES,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )(given(doors.cases(operation, mode))(doors.ask))
            try:
                asked()
            except Unsatisfiable:
                continue  # it takes nothing, so that nothing can be wrong of it
            except (Exception, BaseExceptionGroup) as error:
                wrong[f"{operation.label} ({mode})"] = "\n".join(told(error))
    done = sum(times for status, times in doors.asked.items() if status < FIRST_PROBLEM)
    assert done > doors.asked.total() / 50, doors.asked
    if wrong:
        pytest.fail("\n\n".join(f"{label}\n{text}" for label, text in wrong.items()))


def test_three_examples_are_asked_as_every_role(world: World) -> None:
    doors = Doors(world)
    assert {role for _ in range(3) for role in doors.roles()} == set(ROLES)


def told(error: BaseException) -> list[str]:
    """Return what was wrong, and how to ask it again."""
    inner = getattr(error, "exceptions", ())
    return [str(error), *(line for each in inner for line in told(each)), *getattr(error, "__notes__", ())]
