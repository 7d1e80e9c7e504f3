"""Making and bringing up to date what is in the database: migrations, and the first organisation with its admin."""

import logging
import time
from contextlib import closing

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, OperationalError, connection, transaction

from chamber.cli.status import Exit
from chamber.errors import Refusal
from chamber.models import User
from chamber.serving import surroundings
from chamber.serving.absence import cannot_be_used
from chamber.serving.outages import first_line
from chamber.serving.start import CannotStart
from teams import actions
from teams.actors import Actor
from teams.models import Role, Team

logger = logging.getLogger(__name__)

SETUP = Actor.system("set-up")
ONE_AT_A_TIME = 5_291_104
"""The advisory lock that a migrating process holds: of several that start together, the others wait."""


def migrate(*, wait_seconds: int) -> list[str]:
    """Apply what is missing, and return the names of what was applied; raise `CannotStart`."""
    _await_database(wait_seconds)
    with closing(surroundings.connection_without_pool()) as found:
        for sentence in surroundings.too_old(found):
            raise CannotStart(sentence)
        missing, unknown = surroundings.compare_migrations(found)
    if missing and unknown:
        raise CannotStart(
            f"The database has the migration {unknown[0]}, which this Chamber does not know, and lacks {missing[0]}: "
            "it belongs to another version. Nothing was done."
        )
    if unknown:
        logger.warning(
            "The database was migrated by a newer Chamber (%s); there is nothing to do.", unknown[0]
        )
    try:
        _migrate()
    except CommandError as error:
        raise CannotStart(str(error)) from error
    except DatabaseError as error:
        raise CannotStart(
            f"A migration failed and was undone: {first_line(error)} "
            "The database does not look as its list of migrations says; compare it with a backup, or restore one."
        ) from error
    return missing


def _await_database(seconds: int) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with closing(surroundings.connection_without_pool()) as found:
                found.ensure_connection()
                return
        except OperationalError as error:
            if time.monotonic() >= deadline:
                raise CannotStart(cannot_be_used("The database", first_line(error))) from error
        time.sleep(0.5)


def _migrate() -> None:
    if connection.vendor != "postgresql":
        call_command("migrate", verbosity=0, interactive=False)
        return
    with closing(surroundings.connection_without_pool()) as held, held.cursor() as cursor:
        # As long as the other one's migrations take, and no 30 seconds only.
        cursor.execute("SET lock_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [ONE_AT_A_TIME])
        call_command("migrate", verbosity=0, interactive=False)


def require_new() -> None:
    """Raise `CannotStart` where there is an organisation."""
    if Team.objects.filter(depth=0).exists():
        raise CannotStart("There is an organisation already; its admin adds people.", Exit.CONFLICT)


def set_up(*, organisation: str, username: str, password: str, email: str) -> Team:
    """Make the organisation and its first admin; raise `CannotStart` where there is one, or a value cannot be taken."""
    user = User(username=username.strip(), email=email.strip().lower())
    user.set_password(password)
    user.organisation = organisation  # type: ignore[attr-defined]  # read by the validators of passwords
    try:
        validate_password(password, user)
        with transaction.atomic():
            require_new()
            user.full_clean(validate_unique=True)
            user.save()
            team = actions.create_organisation(by=SETUP, name=organisation)
            actions.add_member(by=SETUP, team=team, who=user.username, role=Role.ORG_ADMIN)
    except ValidationError as error:
        raise CannotStart(" ".join(error.messages), Exit.REJECTED) from error
    except Refusal as refusal:
        raise CannotStart(refusal.message, Exit.REJECTED) from refusal
    return team
