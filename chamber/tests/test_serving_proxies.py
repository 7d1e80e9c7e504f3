"""Whose word counts about the client's address and scheme."""

from ipaddress import ip_network

import pytest
from django.test import Client

from chamber.serving.proxies import FORWARDED, take_word

PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8::/32")]


def seen(remote: str, **headers: str) -> dict[str, str]:
    meta = {"REMOTE_ADDR": remote, **{f"HTTP_{name.upper()}": value for name, value in headers.items()}}
    take_word(meta, PROXIES)
    assert bool(meta.pop(FORWARDED, "")) is any(headers.values())
    return meta


def test_a_proxy_of_ours_is_believed() -> None:
    meta = seen("10.1.2.3", x_forwarded_for="192.0.2.1", x_forwarded_proto="https")
    assert meta == {"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_PROTO": "https"}


def test_nobody_else_is() -> None:
    headers = {
        "x_forwarded_for": "192.0.2.1",
        "x_forwarded_proto": "https",
        "x_forwarded_host": "evil",
        "forwarded": "x",
    }
    assert seen("192.0.2.9", **headers) == {"REMOTE_ADDR": "192.0.2.9"}


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        ("1.1.1.1, 192.0.2.1", "192.0.2.1"),  # the first one is the client's own word
        ("192.0.2.1, 10.9.9.9", "192.0.2.1"),  # two proxies of ours
        ("192.0.2.1, 10.9.9.9, 2001:db8::7", "192.0.2.1"),
        ("10.9.9.9", "10.9.9.9"),
        ("192.0.2.1, nonsense", "10.1.2.3"),
        ("nonsense, 192.0.2.1", "192.0.2.1"),
        ("", "10.1.2.3"),
        (" , ,", "10.1.2.3"),
    ],
)
def test_the_address_is_the_last_one_that_is_no_proxy_of_ours(forwarded: str, expected: str) -> None:
    assert seen("10.1.2.3", x_forwarded_for=forwarded)["REMOTE_ADDR"] == expected


def test_an_address_of_version_4_inside_version_6_is_the_same() -> None:
    assert seen("::ffff:10.1.2.3", x_forwarded_for="192.0.2.1")["REMOTE_ADDR"] == "192.0.2.1"


def test_of_several_schemes_the_nearest_proxys_holds() -> None:
    assert seen("10.1.2.3", x_forwarded_proto="https, http")["HTTP_X_FORWARDED_PROTO"] == "http"


@pytest.mark.django_db
@pytest.mark.parametrize(("remote", "secure"), [("10.1.2.3", True), ("192.0.2.9", False)])
def test_only_behind_our_proxy_a_request_counts_as_secure(
    client: Client, settings: object, remote: str, secure: bool
) -> None:
    settings.TRUSTED_PROXIES = PROXIES  # type: ignore[attr-defined]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")  # type: ignore[attr-defined]
    settings.SECURE_HSTS_SECONDS = 3600  # type: ignore[attr-defined]
    answer = client.get("/livez", REMOTE_ADDR=remote, HTTP_X_FORWARDED_PROTO="https")
    assert ("Strict-Transport-Security" in answer) is secure
