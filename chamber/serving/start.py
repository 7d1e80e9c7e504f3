"""What every process of a deployment does before its own work: refuse a bad configuration, load Django, look around.

What only an operator can put right (a missing secret, a URL that is none) ends the process with status 2. What may heal
by itself (a server that is away, migrations under way) is said once, and the process goes on.
"""

import gc
import logging
import os
import socket
from importlib import import_module

from chamber.cli.status import Exit
from chamber.collecting import without_collecting
from chamber.serving.secret import audit_weakness, weakness

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"


class CannotStart(Exception):  # noqa: N818 - an answer to whoever started the process
    """Why a process cannot start, as a sentence with what to do; with its exit status."""

    def __init__(self, message: str, status: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.status = status


def prepare(*, shares_work: bool, host: str = LOOPBACK) -> None:
    """Load Django with its settings, and log what is not ready yet; raise `CannotStart`.

    `shares_work`: the process works together with others, so that there must be a Redis between them. `host` is where
    it listens, if it does.
    """
    load()
    from django.conf import settings

    refuse_open(host)
    wrong = weakness(settings.GIVEN_SECRET_KEY) or audit_weakness(
        settings.AUDIT_KEY, settings.AUDIT_KEYS_BEFORE
    )
    if wrong is not None and not (settings.DEMO or settings.DEBUG):
        raise CannotStart(wrong, Exit.USAGE)
    if shares_work and not settings.REDIS:
        raise CannotStart(
            "Several processes need a Redis between them: set CHAMBER_REDIS to redis://host:6379/0, or run all in one "
            "process by `chamber serve --part all`.",
            Exit.USAGE,
        )
    if shares_work and settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        raise CannotStart(
            "Several processes need PostgreSQL: set CHAMBER_DATABASE to postgresql://user:password@host:5432/name, or "
            "run all in one process by `chamber serve --part all`.",
            Exit.USAGE,
        )
    from chamber.serving import surroundings
    from workloads.credentials import keys

    if not keys.is_there() and surroundings.has_credentials():
        raise CannotStart(
            "Credentials are stored and there is no key that decrypts them: name the file with the key of before in "
            f"CHAMBER_CREDENTIALS_KEY_FILE. Where it is lost, {keys.ADVICE}, and have them given other values.",
            Exit.USAGE,
        )
    if not settings.DEMO and opened(host) and (known := surroundings.with_known_passwords()):
        raise CannotStart(
            f"Anybody knows the password of {', '.join(known)}: it is that of the demo. Give them others, or disable "
            "them, before others than this machine are served (see `chamber people`, or the page of each).",
            Exit.USAGE,
        )
    for sentence in surroundings.complaints():
        logger.warning("%s", sentence)


def refuse_open(host: str) -> None:
    """Raise `CannotStart` where what is for this machine alone would be served to others."""
    from django.conf import settings

    why = opened(host)
    for is_on, name, danger in (
        (settings.DEBUG, "CHAMBER_DEBUG", "shows whoever meets a fault its settings and code"),
        (settings.DEMO, "CHAMBER_DEMO", "has accounts whose passwords anybody knows"),
    ):
        if is_on and why:
            raise CannotStart(
                f"{name} is on, which {danger}, and {why}. Leave it out, or serve this machine alone: listen on "
                f"{LOOPBACK}, and set neither CHAMBER_HOSTS nor CHAMBER_TRUSTED_PROXIES.",
                Exit.USAGE,
            )


def opened(host: str) -> str:
    """Return why others than this machine may reach a process that listens on `host`, as half a sentence; "" where
    they may not.
    """
    from django.conf import settings

    from agentlink.installing import is_loopback

    if not is_loopback(f"[{host}]" if ":" in host else host):
        return f"it listens on {host}"
    if settings.TRUSTED_PROXIES:
        return f"a proxy is in front (CHAMBER_TRUSTED_PROXIES names {settings.TRUSTED_PROXIES[0]})"
    names = [name for name in settings.ALLOWED_HOSTS if not is_loopback(name)]
    return f"it is reached as {names[0]} (CHAMBER_HOSTS)" if names else ""


def load() -> None:
    """Load Django, without walks of the garbage collector over what stays; raise `CannotStart` where the settings
    cannot be used.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chamber.settings")
    try:
        with without_collecting():
            import django

            django.setup()
    except SystemExit as stop:
        raise CannotStart(str(stop), Exit.USAGE) from stop
    gc.freeze()


def load_pages() -> None:
    """Load what answers requests, once for all processes that are forked off: the first request of each would wait for
    it, and all sockets of the live part with it.
    """
    from django.conf import settings

    with without_collecting():
        import_module(settings.ROOT_URLCONF)
        import_module("chamber.scim.views").load()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; raise `CannotStart` where the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise CannotStart(
            f"Chamber cannot listen on {host} port {port}: {error.strerror or error}."
        ) from error
    listener.set_inheritable(True)
    return listener
