"""Where rows, announcements and bells are kept, as Django and Celery want it said: settings made from two URLs."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import dj_database_url
from kombu.entity import Queue
from redis.backoff import NoBackoff
from redis.connection import URL_QUERY_ARGUMENT_PARSERS, ConnectionPool, parse_url
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry

from chamber.sentinels import SCHEME, MasterPool, Sentinels

if TYPE_CHECKING:
    from celery import Celery

LOCK_SECONDS = 30
"""How long a statement waits for a lock, on either database, before it fails with an error that callers answer."""
IDLE_IN_TRANSACTION_SECONDS = 60
"""After which PostgreSQL ends a transaction whose process sleeps (or was stopped) with its locks held."""
CONNECT_SECONDS = 5
RECONNECT_SECONDS = 1
REDIS_PARAMETERS = {*URL_QUERY_ARGUMENT_PARSERS, "client_name", "username", "password"} - {"retry_on_error"}
"""Beside those that begin with `ssl_`. redis-py's others are objects; given as text, they fail when it connects."""
QUOTING = "a password in it is written with %2F for a slash, and so on. What was given is not shown."
"""Where such a URL goes wrong, its password may stand in any part of it."""

BROKER_OPTIONS: dict[str, Any] = {
    # A Redis that hangs, or a network that swallows, is an error after this time and not a wait without end.
    "socket_timeout": 4,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "health_check_interval": 10,
}


CLOCKS_APART_SECONDS = 60
"""How far the clocks of two machines may be apart: one writes until when a message is good, another reads it."""


def duty(task: str, *, every_seconds: float) -> dict[str, Any]:
    """Return an entry of the table of duties: nobody takes up one that is much older than its interval.

    So little piles up while no worker runs, and what two beats send twice is done once or twice, and does no harm.
    """
    lasts = every_seconds + CLOCKS_APART_SECONDS
    return {"task": task, "schedule": every_seconds, "options": {"expires": lasts}}


def queues(*names: str) -> list[Queue]:
    """Return queues whose messages are taken at most once: after who takes one and dies, the next beat comes.

    An acknowledgement that Redis' absence swallowed would leave a worker waiting for ever: it takes no further message
    before the last is acknowledged.
    """
    return [Queue(name, no_ack=True) for name in names]  # type: ignore[no-untyped-call]  # kombu has no types


def database(url: str, data_folder: Path, *, pool: int, password: str = "") -> dict[str, Any]:
    """Return Django's settings of the database at `url`; an empty one is SQLite in the data folder.

    `pool` is the most connections that one process keeps to PostgreSQL; `password` goes before the URL's own.
    Raises `SystemExit` with a sentence.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        raise SystemExit(f"CHAMBER_DATABASE cannot be read as a URL: {QUOTING}") from None
    if not url or scheme == "sqlite":
        path = url.removeprefix("sqlite://").removeprefix("/") if url else data_folder / "chamber.sqlite3"
        return _sqlite(Path(path))
    if scheme not in {"postgres", "postgresql"}:
        raise SystemExit(
            f"CHAMBER_DATABASE begins with {scheme!r}; allowed is postgresql://user:password@host:port/name, "
            "sqlite:////absolute/path, or nothing for SQLite in the data folder."
        )
    try:
        settings: dict[str, Any] = dict(dj_database_url.parse(url))
    except ValueError:
        raise SystemExit(f"CHAMBER_DATABASE cannot be read as a URL: {QUOTING}") from None
    if not settings["NAME"]:
        raise SystemExit("CHAMBER_DATABASE names no database: postgresql://user:password@host:port/name.")
    settings["PASSWORD"] = password or settings["PASSWORD"]
    given = settings.get("OPTIONS") or {}
    limits = f"-c lock_timeout={LOCK_SECONDS}s -c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_SECONDS}s"
    # Compiling a query of ours takes longer than any of them runs.
    limits += " -c jit=off"
    settings["OPTIONS"] = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "chamber",
        # A server that vanished without a word is noticed within half a minute.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
        "options": limits,
        "pool": {
            "min_size": 0,
            "max_size": pool,
            "timeout": CONNECT_SECONDS,
            # Then whoever asks next tries at once: the pauses between the pool's own tries grow to minutes.
            "reconnect_timeout": RECONNECT_SECONDS,
        },
        **given,
    }
    # A connection that the server closed meanwhile is noticed before it is used.
    settings["CONN_HEALTH_CHECKS"] = True
    settings["CONN_MAX_AGE"] = 0  # the pool keeps them
    return settings


def _sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            # Writers queue at BEGIN instead of failing midway; readers never wait for them.
            "transaction_mode": "IMMEDIATE",
            "timeout": LOCK_SECONDS,
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; "
                "PRAGMA mmap_size=134217728; PRAGMA cache_size=-32000;"
            ),
        },
        # A file, as in use: a test's threads have connections of their own, and several runs may go on at once.
        "TEST": {"NAME": str(Path(tempfile.gettempdir()) / f"chamber-test-{os.getpid()}.sqlite3")},
    }


def redis_url(url: str, password: str = "") -> str:
    """Return the URL of a Redis, or an empty text for none; raise `SystemExit` with a sentence for what is neither.

    `password` goes before the URL's own.
    """
    if _scheme(url) == SCHEME:
        return _with_password(_of_sentinels(url), password)
    try:
        parts = urlsplit(url)
        fits = not url or (parts.scheme in {"redis", "rediss"} and bool(parts.hostname) and parts.port != 0)
        number = parts.path.removeprefix("/")
    except ValueError:
        fits, number = False, ""
    if not fits:
        raise SystemExit(
            "CHAMBER_REDIS cannot be read as a URL; allowed is redis://host:6379/0, with rediss:// over TLS, "
            "redis://:password@host:6379/0 with a password, and redis+sentinel://host,host,host/master where sentinels "
            f"watch it; {QUOTING}"
        )
    if number and not (number.isascii() and number.isdigit()):
        # redis-py would take the database 0 instead.
        raise SystemExit(
            "CHAMBER_REDIS names a database after the slash that is no number; allowed is a number, as in "
            f"redis://host:6379/0; {QUOTING}"
        )
    if url and not _takes_parameters(url):
        raise SystemExit(
            "CHAMBER_REDIS has parameters that a Redis at such a URL does not take; after the question mark stand "
            "those of redis-py's connections, such as ssl_ca_certs=/path with rediss://."
        )
    return _with_password(url, password)


def _with_password(url: str, password: str) -> str:
    if not url or not password:
        return url
    parts = urlsplit(url)
    userinfo, _, places = parts.netloc.rpartition("@")
    username = userinfo.partition(":")[0]
    return parts._replace(netloc=f"{username}:{quote(password, safe='')}@{places}").geturl()


def _scheme(url: str) -> str:
    """Return the scheme of what may be no URL; an empty text where it has none."""
    return url.partition("://")[0] if "://" in url else ""


def _of_sentinels(url: str) -> str:
    try:
        Sentinels.parse(url)
    except ValueError:
        raise SystemExit(
            "CHAMBER_REDIS names sentinels in a way that cannot be read; allowed is "
            "redis+sentinel://:password@host:26379,host:26379,host:26379/master/0, with the password of the Redis "
            f"itself and the name by which the sentinels know it; {QUOTING}"
        ) from None
    return url


def broker(url: str) -> tuple[str, dict[str, Any]]:
    """Return Celery's address of the Redis at `url`, and the options of its transport."""
    watched = Sentinels.parse(url) if url else None
    if watched is None:
        return url or "memory://", BROKER_OPTIONS
    waits = {name: value for name, value in BROKER_OPTIONS.items() if name.startswith("socket_")}
    return watched.broker_url, {**BROKER_OPTIONS, "master_name": watched.master, "sentinel_kwargs": waits}


BEAT_NAME = "chamber-beat"
"""What the beat's connections to Redis are called there."""


def worker_name(queue: str) -> str:
    """Return what the connections to Redis of the workers for a queue are called there."""
    return f"chamber-worker-{queue}"


def name_connections(app: "Celery", name: str) -> None:
    """Have this process's connections to the broker bear a name there, by which others know that it lives."""
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, "client_name": name}


def _takes_parameters(url: str) -> bool:
    """Return whether a connection can be made of the URL's parameters; nobody is connected to yet."""
    names = parse_qs(urlsplit(url).query)
    if any(name not in REDIS_PARAMETERS and not name.startswith("ssl_") for name in names):
        return False
    try:
        ConnectionPool.from_url(url).make_connection()
    except (RedisError, TypeError, ValueError):
        return False
    return True


def broker_tls(url: str) -> dict[str, Any] | None:
    """Return how the certificate of the Redis at `url` is checked, where it is reached over TLS.

    As redis-py does for the cache and the announcements, with the `ssl_...` parameters of the URL; Celery on its own
    takes any certificate.
    """
    if urlsplit(url).scheme != "rediss":
        return None
    given = {name: value for name, value in parse_url(url).items() if name.startswith("ssl_")}  # type: ignore[no-untyped-call]  # redis
    return {"ssl_cert_reqs": "required", **given}


def channel_layers(redis: str) -> dict[str, Any]:
    """Return the layer that carries announcements: Redis' publish and subscribe, or memory within one process."""
    if not redis:
        return {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}}}
    # Without a socket timeout: redis-py's own default would drop a subscription that is idle for five seconds.
    waits = {"socket_timeout": None, "socket_connect_timeout": CONNECT_SECONDS}
    watched = Sentinels.parse(redis)
    where: dict[str, Any] = {"address": redis}
    if watched is not None:
        where = {"sentinels": list(watched.hosts), "master_name": watched.master, **watched.login}
    host = {**where, **waits}
    return {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [host], "prefix": "chamber"},
        }
    }


def caches(redis: str) -> dict[str, Any]:
    """Return where what may be lost is kept: `default` for all processes (Redis), the others for this one alone.

    `viewers` and `parts` hold what open pages ask for again and again (`chamber.remembered`).
    """
    memory = "django.core.cache.backends.locmem.LocMemCache"
    counted = {"MAX_ENTRIES": 20_000}  # of who came within the hour
    own = {
        "process": {"BACKEND": memory, "LOCATION": "process", "OPTIONS": counted},
        "viewers": {"BACKEND": memory, "LOCATION": "viewers", "OPTIONS": {"MAX_ENTRIES": 20_000}},
        "parts": {"BACKEND": memory, "LOCATION": "parts", "OPTIONS": {"MAX_ENTRIES": 400}},
    }
    if not redis:
        return {"default": {"BACKEND": memory, "OPTIONS": counted}, **own}
    shared = {
        "BACKEND": "chamber.remembered.SharedCache",
        # Lists of servers are written with commas; an address with sentinels has some of its own.
        "LOCATION": [redis],
        # Not that of releases which kept pickles: neither reads what the other one keeps.
        "KEY_PREFIX": "chamber-json",
        # What may be lost is not waited for: a request goes on without it.
        "OPTIONS": {
            "serializer": "chamber.remembered.Plain",
            "socket_timeout": 1,
            "socket_connect_timeout": 1,
            "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
            **({"pool_class": MasterPool} if Sentinels.parse(redis) else {}),
        },
    }
    return {"default": shared, **own}
