"""For load balancers and probes: alive, and ready to answer."""

from contextlib import closing

import psycopg
import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from chamber import sentinels
from chamber.serving.surroundings import compare_migrations
from chamber.words import count, plural

DATABASE_PATIENCE_SECONDS = 2.0
"""Less than a request waits for a connection: who probes gives up after a few seconds, and would hear nothing."""
REDIS_PATIENCE_SECONDS = 1.0

_fitted = False
"""Whether the database has been what this code expects: a newer one that comes later is an upgrade under way."""


@require_safe
@login_not_required
def livez(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - a view takes the request
    """Return 200 as long as the process answers at all."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 when this process can do its work, else 503 with a sentence.

    The live part needs Redis besides the database: without it, its pages would hear of nothing.
    """
    sentence = _database() or (_redis() if _is_live(request) else None)
    status = 503 if sentence else 200
    answer = HttpResponse(f"{sentence or 'ok'}\n", status=status, content_type="text/plain")
    answer["Cache-Control"] = "no-store"
    answer._has_been_logged = True  # type: ignore[attr-defined]  # it is asked every few seconds, and tells who asks
    return answer


def _database() -> str | None:
    """Return what is wrong with the database, if anything (2 queries)."""
    global _fitted  # noqa: PLW0603 - one per process
    try:
        _await_connection()
        missing, unknown = compare_migrations(connection)
    except (DatabaseError, psycopg.OperationalError):
        return "The database does not answer."
    if missing:
        return f"{count(len(missing), 'migration')} {plural(len(missing), 'is')} not applied; run `chamber migrate`."
    if unknown and not _fitted:
        newer = count(len(unknown), "migration")
        return f"The database has {newer} that this version does not know; start the newer version."
    _fitted = True
    return None


def _await_connection() -> None:
    """Raise psycopg's error where the pool of this process has no connection to give within two seconds."""
    pool = getattr(connection, "pool", None)
    if pool is not None and connection.connection is None:
        pool.open()
        pool.putconn(pool.getconn(timeout=DATABASE_PATIENCE_SECONDS))


def _is_live(request: HttpRequest) -> bool:
    """Return whether this is the part with the sockets: the one that is served over ASGI."""
    return hasattr(request, "scope")


def _redis() -> str | None:
    """Return what is wrong with Redis, if anything; nothing where there is none to be."""
    if not settings.REDIS:
        return None
    patience = {"socket_timeout": REDIS_PATIENCE_SECONDS, "socket_connect_timeout": REDIS_PATIENCE_SECONDS}
    try:
        with closing(sentinels.client(settings.REDIS, **patience)) as client:
            client.ping()
    except redis.RedisError:
        return "Redis does not answer."
    return None
