"""Settings that cannot be: a command refuses them in one sentence, before it asks any server."""

import pytest

from rig import servers
from tests.deployment_fixtures import refused

NOWHERE = {"CHAMBER_DATABASE": "postgresql://x@127.0.0.1:1/x", "CHAMBER_REDIS": "redis://127.0.0.1:1/0"}


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"CHAMBER_SECRET_KEY": ""}, "No secret key is given"),
        ({"CHAMBER_SECRET_KEY": "short"}, "has 5 characters"),
        (
            {"CHAMBER_SECRET_KEY_FILE": "/nowhere"},
            "CHAMBER_SECRET_KEY_FILE is '/nowhere'; allowed is a readable file",
        ),
        ({"CHAMBER_DATABASE": "mysql://x/y"}, "CHAMBER_DATABASE begins with 'mysql'"),
        ({"CHAMBER_DATABASE": "postgresql://host:port/x"}, "CHAMBER_DATABASE cannot be read as a URL"),
        ({"CHAMBER_DATABASE": "postgresql://host"}, "CHAMBER_DATABASE names no database"),
        ({"CHAMBER_REDIS": "localhost:6379"}, "CHAMBER_REDIS cannot be read as a URL"),
        ({"CHAMBER_REDIS": ""}, "need a Redis between them"),
        ({"CHAMBER_DATABASE": ""}, "need PostgreSQL"),
        ({"CHAMBER_TRUSTED_PROXIES": "10.0.0.0/99"}, "CHAMBER_TRUSTED_PROXIES is '10.0.0.0/99'"),
        ({"CHAMBER_MAIL_URL": "smtp://mail"}, "set CHAMBER_PUBLIC_URL to that at which people reach Chamber"),
        (
            {"CHAMBER_PUBLIC_URL": "chamber.example.org"},
            "CHAMBER_PUBLIC_URL is 'chamber.example.org'; allowed is a URL",
        ),
        ({"CHAMBER_PUBLIC_URL": "https://x.example.org/chamber"}, "without a path"),
        ({"CHAMBER_PUBLIC_URL": "https://a b"}, "CHAMBER_PUBLIC_URL is 'https://a b'; allowed is"),
        ({"CHAMBER_PUBLIC_URL": 'https://x"><b>'}, "allowed is a URL with a name and without a path"),
        ({"CHAMBER_DATABASE_CONNECTIONS": "1"}, "allowed is a whole number from 2 to 500"),
    ],
)
def test_a_setting_that_cannot_be_is_one_sentence_and_status_2(
    environment: dict[str, str], said: str
) -> None:
    assert said in refused(2, "beat", **{**NOWHERE, **environment})


def test_debugging_is_served_to_this_machine_alone() -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - it is refused
    port = {"CHAMBER_LISTEN_PORT": str(servers.free_port())}
    said = refused(2, "serve", "--host", everywhere, **NOWHERE, **port, CHAMBER_DEBUG="1")
    assert "CHAMBER_DEBUG is on" in said
    assert "it listens on 0.0.0.0" in said


@pytest.mark.parametrize(
    "words",
    [("serve", "--part", "web"), ("serve", "--part", "all"), ("worker", "--queue", "duties"), ("beat",)],
)
def test_nothing_is_served_without_a_secret_key(words: tuple[str, ...]) -> None:
    port = {"CHAMBER_LISTEN_PORT": str(servers.free_port())}
    assert "No secret key is given" in refused(2, *words, **NOWHERE, **port, CHAMBER_SECRET_KEY="")
