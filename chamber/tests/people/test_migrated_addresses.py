"""E-mail addresses of before: stored as signing in looks for them, and refused where two accounts share one."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.management.base import CommandError
from django.db import connection

from chamber.models import User
from teams.tests.factories import make_user

pytestmark = pytest.mark.django_db


def run(module: str, function: str) -> None:
    found: Any = import_module(f"chamber.migrations.{module}")
    getattr(found, function)(apps, connection.schema_editor())


def test_addresses_lose_capitals_and_the_blanks_around_them() -> None:
    for name, email in (("ada", " Ada@Example.org\t"), ("eva", "  "), ("zoe", "ZOË@example.org")):
        User.objects.filter(pk=make_user(name).pk).update(email=email)
    run("0006_addresses_in_small_letters", "lower")
    stored = dict(User.objects.values_list("username", "email"))
    assert stored == {"ada": "ada@example.org", "eva": "", "zoe": "zoë@example.org"}


def test_accounts_that_share_an_address_but_for_blanks_are_named() -> None:
    for name, email in (("ada", "a@example.org"), ("bob", " A@example.org"), ("eva", " "), ("zoe", "  ")):
        User.objects.filter(pk=make_user(name).pk).update(email=email)
    with pytest.raises(
        CommandError, match=r"share one: ada \(a@example.org\); bob \( A@example.org\)\. Give"
    ):
        run("0003_people", "refuse_shared_addresses")
