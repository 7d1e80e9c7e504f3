"""What the settings alone tell: the secret, debugging, who may reach it and how, and names that mean nothing."""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import validate_host

from chamber import env
from chamber.doctor.database import on_postgresql
from chamber.doctor.finding import DoctorFinding
from chamber.serving.secret import audit_weakness, weakness

OF_COMMANDS = frozenset(
    {
        "CHAMBER_BACKUPS_KEPT",
        "CHAMBER_CA",
        "CHAMBER_CLUSTER",
        "CHAMBER_DEMO_URL",
        "CHAMBER_DEVICE_CLASSES",
        "CHAMBER_ENVIRONMENT",
        "CHAMBER_EXPORTERS",
        "CHAMBER_DISRUPTION_BUDGETS",
        "CHAMBER_DO_NOT_DISRUPT",
        "CHAMBER_EXPORTER_PORT",
        "CHAMBER_GPU_DRIVERS",
        "CHAMBER_GPU_RESOURCES",
        "CHAMBER_GRACE_SECONDS",
        "CHAMBER_HEALTH_PORT",
        "CHAMBER_HSTS_SECONDS",
        "CHAMBER_LISTEN_HOST",
        "CHAMBER_LISTEN_PORT",
        "CHAMBER_NODE_SELECTOR",
        "CHAMBER_PARTITION_LABEL",
        "CHAMBER_TEST_CRDS",
        "CHAMBER_TEST_KUBECONFIG",
        "CHAMBER_TEST_RECORD",
        "CHAMBER_TEST_REQUIRE",
        "CHAMBER_TOKEN",
        "CHAMBER_URL",
        "CHAMBER_WEB_WORKERS",
        "CHAMBER_WORKER_THREADS",
        "CHAMBER_WORKLOADS_ROLE",
        "CHAMBER_WORKLOAD_NAMESPACE",
    }
)
"""Names that single commands and the scripts of a deployment read, besides those of the settings."""


def secret() -> Iterator[DoctorFinding]:
    """Look at the keys that sign sessions and the audit trail."""
    for problem in (
        weakness(settings.GIVEN_SECRET_KEY),
        audit_weakness(settings.AUDIT_KEY, settings.AUDIT_KEYS_BEFORE),
    ):
        if problem is not None and not settings.DEMO:
            sentence, _, advice = problem.partition(". ")
            yield DoctorFinding(f"{sentence}.", advice)


def debug() -> Iterator[DoctorFinding]:
    """Look whether faults are shown to whoever causes them."""
    if settings.DEBUG:
        yield DoctorFinding(
            "Debugging is on: whoever meets a fault is shown settings and code.", "Remove CHAMBER_DEBUG."
        )


def hosts() -> Iterator[DoctorFinding]:
    """Look by which names it may be reached."""
    names = set(settings.ALLOWED_HOSTS)
    if "*" in names:
        yield DoctorFinding(
            "Any host name is accepted: links in answers can be made to point elsewhere.",
            "Name the hosts in CHAMBER_HOSTS.",
        )
    elif _is_shared() and not _public_hosts():
        yield DoctorFinding(
            "It can only be reached by the names of this machine itself.",
            "Give the host name that people use in CHAMBER_HOSTS, such as chamber.example.org.",
        )


def origins() -> Iterator[DoctorFinding]:
    """Look whether forms are taken from where they are shown."""
    for origin in settings.CSRF_TRUSTED_ORIGINS:
        host = urlsplit(origin).hostname or ""
        if not validate_host(host.removeprefix("*."), settings.ALLOWED_HOSTS):
            yield DoctorFinding(
                f"CHAMBER_ORIGINS names {host}, which CHAMBER_HOSTS does not.",
                "Name it in both, or in neither.",
            )
    if settings.TLS and not settings.TRUSTED_PROXIES and not settings.CSRF_TRUSTED_ORIGINS:
        yield DoctorFinding(
            "Pages are reached over TLS, but no request is known to be: forms will be refused.",
            "Name the proxy in CHAMBER_TRUSTED_PROXIES, or the pages' origin in CHAMBER_ORIGINS.",
        )


def tls() -> Iterator[DoctorFinding]:
    """Look whether cookies travel in the clear."""
    if _is_shared() and _public_hosts() and not settings.SESSION_COOKIE_SECURE:
        yield DoctorFinding(
            "Cookies of a session are sent over plain HTTP, where others can read them.",
            "Put a proxy with TLS in front, and set CHAMBER_TRUSTED_PROXIES (or CHAMBER_TLS=1).",
        )


def proxies() -> Iterator[DoctorFinding]:
    """Look whether a proxy in front is believed, and nobody else."""
    if settings.TLS and not settings.TRUSTED_PROXIES:
        yield DoctorFinding(
            "No proxy is trusted, so that every client seems to have the proxy's address.",
            "Name the proxy's address or network in CHAMBER_TRUSTED_PROXIES.",
        )
    for network in settings.TRUSTED_PROXIES:
        if network.prefixlen == 0:
            yield DoctorFinding(
                f"CHAMBER_TRUSTED_PROXIES has {network}, which is everybody: each client may make up its address.",
                "Name only the proxy's own address or network.",
            )


def names() -> Iterator[DoctorFinding]:
    """Look for names that were probably misspelt."""
    known = env.asked | OF_COMMANDS
    for name in sorted(os.environ):
        if not name.startswith("CHAMBER_") or name in known:
            continue
        near = get_close_matches(name, known, n=1)
        advice = f"Did you mean {near[0]}?" if near else "Remove it."
        yield DoctorFinding(f"{name} is set, but nothing has that name.", advice)


def _is_shared() -> bool:
    """Return whether this is more than a process on somebody's own machine."""
    return bool(settings.REDIS) or on_postgresql()


def _public_hosts() -> set[str]:
    return set(settings.ALLOWED_HOSTS) - set(settings.OWN_HOSTS)
