"""Every URL with every method, every role and every way in: the table says what each gets, and a URL that is not in it
fails.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client, override_settings
from django.urls import reverse

from chamber.requirement import SETS_UP
from tests.role_world import ALL_URLS, BODIES, PROVIDER, SETTINGS, URLS, World, world
from tests.walker import Walker
from tests.ways_in import ACTORS, FULL, ROWS, STREAMS, TABLE, Cell, Needs, Row, Way

__all__ = ["ACTORS", "BODIES", "PROVIDER", "ROWS", "URLS", "World", "world"]

PARTS = 4
"""Of the rows: several processes share them."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@pytest.fixture(scope="module")
def walker(django_db_setup: None, django_db_blocker: Any) -> Iterator[Walker]:
    """The world of this module, made once."""
    hashers = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with (
        django_db_blocker.unblock(),
        override_settings(**SETTINGS, PASSWORD_HASHERS=hashers),
        transaction.atomic(),
    ):
        yield Walker(World())
        transaction.set_rollback(True)


@pytest.mark.django_db
@pytest.mark.parametrize("part", range(PARTS))
def test_each_role_gets_what_the_table_says(walker: Walker, part: int) -> None:
    rows = list(ROWS.values())[part::PARTS]
    walker.streamed.clear()
    assert walker.problems(rows) == {}
    assert walker.streamed == STREAMS & {row.name for row in rows}


@pytest.mark.django_db
def test_what_is_not_in_the_table_is_not_there(walker: Walker) -> None:
    got = {}
    for name in URLS:
        # Who is signed in is sent away from the sign-in page before its methods are looked at.
        role = "anonymous" if name == "account_login" else FULL
        for method in METHODS:
            if (method, name) not in ROWS:
                answer = walker.answer(Row(method, name, Needs.SESSION, {}), Cell(role, Way.SESSION))
                got[method, name] = answer.status_code
    assert {row for row, status in got.items() if status != 405} == set(), f"not in {TABLE.name}"


def test_the_table_names_only_what_is_there_and_each_name_is_of_one_url() -> None:
    assert {name for _, name in ROWS} | STREAMS <= set(URLS)
    assert len(ALL_URLS) == len(URLS)


def test_the_table_says_what_is_open_to_set_a_factor_up() -> None:
    open_to_them = {row.name for row in ROWS.values() if row.needs is Needs.FACTOR}
    assert open_to_them | {"account_logout"} == SETS_UP


NOT_THERE = {"uuid": "0199c1f2-7d3a-7000-8000-000000000001", "int": "987654"}


@pytest.mark.django_db
def test_what_is_not_there_is_named(walker: Walker) -> None:
    """Walks every method of each address of something: what is asked for first is not there."""
    client = Client()
    client.force_login(walker.world.users["org-admin"])
    silent, asked = [], 0
    for name, url in URLS.items():
        if not url.pattern.converters:
            continue
        values = {}
        for key, converter in url.pattern.converters.items():
            kind = type(converter).__name__.removesuffix("Converter").lower()
            values[key] = NOT_THERE.get(kind, "nix")
        for method in METHODS:
            answer = getattr(client, method.lower())(reverse(name, kwargs=values))
            if answer.status_code == 404:
                asked += 1
                silent += [(method, name)] * (next(iter(values.values())) not in answer.content.decode())
    assert asked > 60
    assert silent == []
