"""Probes answer without a sign-in, and readiness says what is missing."""

import pytest
from django.db import DatabaseError
from django.db.migrations.executor import MigrationExecutor
from django.test import Client


def test_alive_needs_neither_a_sign_in_nor_the_database(client: Client) -> None:
    assert client.get("/livez").status_code == 200


@pytest.mark.django_db
def test_ready_when_every_migration_is_applied(client: Client) -> None:
    assert client.get("/readyz").content == b"ok\n"


@pytest.mark.django_db
def test_not_ready_with_migrations_missing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda *_: [("one", False), ("two", False)])
    answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (
        503,
        b"2 migrations are not applied; run `manage.py migrate`.\n",
    )


@pytest.mark.django_db
def test_not_ready_without_a_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(MigrationExecutor, "migration_plan", broken)
    assert client.get("/readyz").status_code == 503
