"""What the doctor says of settings alone."""

import re
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

import chamber
from chamber import env
from chamber.doctor import environment
from chamber.doctor.finding import DoctorFinding
from chamber.tests.doctor.conftest import Named

GOOD_KEY = "k3V9xq-0Zr7LwYt2mB8pQf5sJd1HnUc6EaGi4TvXoR"
IN_SCRIPTS = re.compile(r"CHAMBER_[A-Z_]*[A-Z]")
READ = re.compile(r'(?:env\.\w+\(|environ(?:\.get)?[\(\[]|envvar=)\s*"(CHAMBER_[A-Z_]+)"')


def problems(check: Callable[[], Iterator[DoctorFinding]]) -> list[str]:
    return [found.problem for found in check()]


@pytest.fixture
def shared(settings: Settings) -> Settings:
    """Settings of a deployment behind a proxy with TLS, as they should be."""
    settings.REDIS = "redis://redis/0"
    settings.GIVEN_SECRET_KEY = GOOD_KEY
    settings.ALLOWED_HOSTS = ["chamber.example.org", *settings.OWN_HOSTS]
    settings.CSRF_TRUSTED_ORIGINS = []
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.0/8")]
    settings.TLS = settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    settings.DEBUG = settings.DEMO = False
    return settings


CHECKS = (
    environment.secret,
    environment.debug,
    environment.hosts,
    environment.origins,
    environment.tls,
    environment.proxies,
)


def test_a_deployment_as_it_should_be(shared: Settings) -> None:
    assert [problem for check in CHECKS for problem in problems(check)] == []


def test_the_embedded_default_may_be_reached_by_its_own_names(settings: Settings, named: Named) -> None:
    settings.REDIS = ""
    named("sqlite:////nowhere/chamber.sqlite3")
    assert problems(environment.hosts) == problems(environment.tls) == []


@pytest.mark.parametrize("key", ["", "short", "a" * 60, "django-insecure-" + GOOD_KEY])
def test_a_weak_secret(shared: Settings, key: str) -> None:
    shared.GIVEN_SECRET_KEY = key
    [found] = environment.secret()
    assert found.problem
    assert "CHAMBER_SECRET_KEY_FILE" in found.advice
    assert key == "" or key not in found.problem


def test_a_weak_audit_key(shared: Settings) -> None:
    shared.AUDIT_KEY = "short"
    [found] = environment.secret()
    assert found.problem == "The audit key has 5 characters; the least is 32."
    assert "CHAMBER_AUDIT_KEY_FILE" in found.advice


def test_debugging(shared: Settings) -> None:
    shared.DEBUG = True
    assert problems(environment.debug) == [
        "Debugging is on: whoever meets a fault is shown settings and code."
    ]


def test_no_hosts(shared: Settings) -> None:
    shared.ALLOWED_HOSTS = shared.OWN_HOSTS
    assert problems(environment.hosts) == ["It can only be reached by the names of this machine itself."]


def test_any_host(shared: Settings) -> None:
    shared.ALLOWED_HOSTS = ["*"]
    assert len(problems(environment.hosts)) == 1


def test_origins_of_other_hosts(shared: Settings) -> None:
    shared.CSRF_TRUSTED_ORIGINS = [
        "https://other.example.org",
        "https://chamber.example.org",
        "https://*.example.com",
        "https://gpus.example.com",
    ]
    shared.ALLOWED_HOSTS = [*shared.ALLOWED_HOSTS, ".example.com"]
    assert problems(environment.origins) == [
        "CHAMBER_ORIGINS names other.example.org, which CHAMBER_HOSTS does not.",
    ]


def test_tls_that_no_request_tells_of(shared: Settings) -> None:
    shared.TRUSTED_PROXIES = []
    assert problems(environment.origins) == [
        "Pages are reached over TLS, but no request is known to be: forms will be refused."
    ]
    assert problems(environment.proxies) == [
        "No proxy is trusted, so that every client seems to have the proxy's address."
    ]


def test_cookies_in_the_clear(shared: Settings) -> None:
    shared.TLS = shared.SESSION_COOKIE_SECURE = False
    assert problems(environment.tls) == [
        "Cookies of a session are sent over plain HTTP, where others can read them."
    ]


def test_everybody_as_a_trusted_proxy(shared: Settings) -> None:
    shared.TRUSTED_PROXIES = [ip_network("0.0.0.0/0")]
    assert "0.0.0.0/0, which is everybody" in problems(environment.proxies)[0]


def test_a_misspelt_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAMBER_DATABSE", "postgresql://db/chamber")
    [found] = environment.names()
    assert found == DoctorFinding(
        "CHAMBER_DATABSE is set, but nothing has that name.", "Did you mean CHAMBER_DATABASE?"
    )


def test_every_name_that_the_scripts_of_a_deployment_read_is_known() -> None:
    files = [path for path in (Path(chamber.__file__).parents[1] / "deploy").rglob("*") if path.is_file()]
    read = {name for path in files for name in IN_SCRIPTS.findall(path.read_text(errors="replace"))}
    assert {"CHAMBER_BACKUPS_KEPT", "CHAMBER_ENVIRONMENT", "CHAMBER_HOSTS"} <= read
    assert {name.removesuffix("_FILE") for name in read} - env.asked - environment.OF_COMMANDS == set()


def test_every_name_that_the_code_reads_is_known() -> None:
    root = Path(chamber.__file__).parent
    sources = [path.read_text() for path in root.rglob("*.py") if "tests" not in path.parts]
    read = {name for source in sources for name in READ.findall(source)}
    assert len(read) > 20
    assert read - env.asked - environment.OF_COMMANDS == set()
