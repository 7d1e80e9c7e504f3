"""The audit trail says whose address and agent an act came from."""

import pytest
from django.test import Client

from teams import actions
from teams.actors import Actor
from teams.models import AuditEvent, Role
from teams.tests.factories import make_org, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga(client: Client) -> Client:
    client.force_login(member(make_org("Acme"), Role.ORG_ADMIN, "olga"))
    return client


def made(client: Client, address: str, agent: str) -> AuditEvent:
    answer = client.post(
        "/settings/groups/", {"name": "crew"}, REMOTE_ADDR=address, headers={"User-Agent": agent}
    )
    assert answer.status_code == 302
    return AuditEvent.objects.get(action="group.created")


@pytest.mark.parametrize(
    ("address", "agent", "kept"),
    [
        ("192.0.2.7", "Firefox/140.0", ("192.0.2.7", "Firefox/140.0")),
        ("::ffff:192.0.2.7", "", ("192.0.2.7", None)),
        ("2001:db8::1", "x" * 900, ("2001:db8::1", "x" * 200)),
        ("", "a\x00b\u202ec", (None, "abc")),
    ],
)
def test_an_act_has_its_clients_address_and_agent(
    olga: Client, address: str, agent: str, kept: tuple[str | None, str | None]
) -> None:
    event = made(olga, address, agent)
    assert (event.address, event.agent) == kept


def test_page_api_and_export_tell_them(olga: Client) -> None:
    made(olga, "192.0.2.7", "Firefox/140.0")
    page = olga.get("/settings/audit/").content.decode()
    assert 'from <span title="Firefox/140.0">192.0.2.7</span>' in page
    (row,) = olga.get("/api/v1/audit/").json()["results"]
    assert (row["address"], row["agent"]) == ("192.0.2.7", "Firefox/140.0")
    lines = b"".join(olga.get("/settings/audit/export/").streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert lines[0].endswith(",before,after,address,agent,id")
    assert ",192.0.2.7,Firefox/140.0," in lines[1]


def test_what_chamber_does_itself_has_none(db: None) -> None:
    actions.create_group(by=Actor.system("set-up"), name="crew")
    event = AuditEvent.objects.get()
    assert (event.address, event.agent) == (None, None)
