"""What is for this machine alone is served to nobody else: debugging, the demo, and its passwords."""

from ipaddress import ip_network

import pytest
from pytest_django.fixtures import Settings

from chamber.demo import command
from chamber.demo.people import PASSWORD
from chamber.serving import start, surroundings
from teams.tests.factories import actor, make_user
from workloads.credentials.actions import create_credential
from workloads.models import CredentialKind

PROXY = ip_network("10.0.0.0/8")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - it is refused


@pytest.fixture(autouse=True)
def _nobody_else(settings: Settings) -> None:
    settings.TRUSTED_PROXIES = []
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.parametrize("name", ["DEBUG", "DEMO"])
@pytest.mark.parametrize(
    ("host", "given", "why"),
    [
        (EVERYWHERE, {}, "it listens on 0.0.0.0"),
        ("::", {}, "it listens on ::"),
        ("192.0.2.7", {}, "it listens on 192.0.2.7"),
        (
            "127.0.0.1",
            {"TRUSTED_PROXIES": [PROXY]},
            "a proxy is in front (CHAMBER_TRUSTED_PROXIES names 10.0.0.0/8)",
        ),
        ("127.0.0.1", {"ALLOWED_HOSTS": ["localhost", "*"]}, "it is reached as * (CHAMBER_HOSTS)"),
    ],
)
def test_debugging_and_the_demo_are_refused_where_others_reach_them(
    settings: Settings, name: str, host: str, given: dict[str, object], why: str
) -> None:
    setattr(settings, name, True)
    for key, value in given.items():
        setattr(settings, key, value)
    with pytest.raises(start.CannotStart, match=f"CHAMBER_{name} is on") as refused:
        start.refuse_open(host)
    assert why in str(refused.value)
    setattr(settings, name, False)
    start.refuse_open(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_they_are_served_to_this_machine(settings: Settings, host: str) -> None:
    settings.DEBUG = settings.DEMO = True
    start.refuse_open(host)


def test_the_demo_says_how_it_is_shown_elsewhere(settings: Settings) -> None:
    settings.DEMO = True
    with pytest.raises(command._CannotStartError, match="forward its port: ssh -L"):
        command._refuse_open(EVERYWHERE)


@pytest.mark.django_db(transaction=True)
def test_accounts_with_the_demos_password_keep_others_from_being_served(settings: Settings) -> None:
    make_user("rosa", password=PASSWORD)
    make_user("olga", password="something of her own")
    make_user("vera", password=PASSWORD, is_active=False)
    make_user("somebody", password="difference engine")
    assert surroundings.with_known_passwords() == ["rosa"]
    settings.GIVEN_SECRET_KEY = "an-example-of-a-long-enough-key-0123456789"
    with pytest.raises(start.CannotStart, match="Anybody knows the password of rosa: it is that of the demo"):
        start.prepare(shares_work=False, host=EVERYWHERE)
    start.prepare(shares_work=False)


@pytest.mark.django_db(transaction=True)
def test_a_weak_audit_key_keeps_a_process_from_starting(settings: Settings) -> None:
    settings.GIVEN_SECRET_KEY = "an-example-of-a-long-enough-key-0123456789"
    settings.AUDIT_KEY = "short"
    with pytest.raises(start.CannotStart, match="The audit key has 5 characters; the least is 32"):
        start.prepare(shares_work=False)
    settings.AUDIT_KEY = ""
    start.prepare(shares_work=False)


@pytest.mark.django_db(transaction=True)
def test_credentials_without_their_key_keep_a_process_from_starting(settings: Settings) -> None:
    settings.GIVEN_SECRET_KEY = key = "an-example-of-a-long-enough-key-0123456789"
    settings.CREDENTIALS_KEYS = []
    start.prepare(shares_work=False)  # nobody has any
    settings.CREDENTIALS_KEYS = [key]
    create_credential(
        by=actor(make_user("ada")), name="hf", kind=CredentialKind.TOKEN, content={"token": "value"}
    )
    start.prepare(shares_work=False)
    settings.CREDENTIALS_KEYS = []
    with pytest.raises(
        start.CannotStart, match="no key that decrypts them: name the file with the key of before"
    ):
        start.prepare(shares_work=False)
