"""Rows for tests, made directly: what the actions would refuse can be set up, and nothing is announced."""

import itertools
from typing import Any

from django.utils import timezone

from chamber.ids import new_id
from chamber.models import User
from teams.actors import Actor, Via
from teams.models import Binding, Pool, Role, Share, Team, TeamPolicy
from teams.usual_classes import make_usual_classes

_numbers = itertools.count(1)


def make_org(name: str = "Acme", **fields: Any) -> Team:
    """Return the root of the tree, without any team below it, with the usual job classes and tiers."""
    make_usual_classes()
    return _team(None, name, fields)


def make_team(parent: Team, name: str = "", **fields: Any) -> Team:
    """Return a team below `parent`; name and slug are made up where they are not given."""
    return _team(parent, name or f"Team {next(_numbers)}", fields)


def _team(parent: Team | None, name: str, fields: dict[str, Any]) -> Team:
    team_id = fields.pop("id", None) or new_id()
    return Team.objects.create(
        id=team_id,
        name=name,
        slug=fields.pop("slug", None) or name.lower().replace(" ", "-"),
        parent=parent,
        path=Team.path_under(parent, team_id),
        depth=parent.depth + 1 if parent else 0,
        **fields,
    )


def make_user(username: str = "", **fields: Any) -> User:
    """Return an account without a role; it signs in by password where one is given, else it did so by other means."""
    username = username or f"user{next(_numbers)}"
    password = fields.pop("password", None)
    user = User(username=username, email=fields.pop("email", f"{username}@example.org"), **fields)
    if password is None:
        user.set_unusable_password()
        user.last_login = user.last_login or timezone.now()
    else:
        user.set_password(password)
    user.save()
    return user


def bind(user: User, team: Team, role: Role | str) -> Binding:
    """Give the user the role on the team, and forget the roles kept on the user object."""
    user.__dict__.pop("_chamber_roles", None)
    return Binding.objects.create(user=user, team=team, role=Role(role))


def member(team: Team, role: Role | str, username: str = "", **fields: Any) -> User:
    """Return a new user with the role on the team."""
    user = make_user(username, **fields)
    bind(user, team, role)
    return user


def actor(user: User, via: Via = Via.PAGE) -> Actor:
    """Return the user as somebody who acts."""
    return Actor.person(user, via)


def make_pool(name: str = "Main", **fields: Any) -> Pool:
    """Return a pool; `policy` is a dict of what differs from the defaults. The clusters of tests may serve it."""
    fields.setdefault("clusters", ["east", "west", "lab"])
    slug = fields.pop("slug", None) or name.lower().replace(" ", "-")
    return Pool.objects.create(name=name, slug=slug, **fields)


def set_share(team: Team, pool: Pool, *, gpus: float = 0, maximum: float | None = None) -> Share:
    """Set what the team is guaranteed of the pool and at most may hold, in GPUs."""
    limits = {
        "reservation_milli": round(gpus * 1000),
        "maximum_milli": None if maximum is None else round(maximum * 1000),
    }
    return Share.objects.update_or_create(team=team, pool=pool, defaults=limits)[0]


def set_rules(team: Team, **rules: Any) -> TeamPolicy:
    """Set the rules of the team, as `TeamRules` writes them."""
    return TeamPolicy.objects.update_or_create(team=team, defaults={"rules": rules})[0]
