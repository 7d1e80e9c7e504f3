"""Accounts: who signs in, and the tokens of the API and the command line; what a deployment notes of itself."""

import hashlib
import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Self

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.crypto import salted_hmac

from chamber import live
from chamber.bounds import TokenBounds, bind
from chamber.ids import new_id

ENDS_SESSIONS = frozenset({"password", "is_active", "session_generation"})
"""What of a user's row ends sessions when it changes."""


class User(AbstractUser):
    """Somebody who signs in. What they may do follows from their bindings in the tree, never from this row."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    session_generation = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Raised to end every session that there is, known by name or not."
    )

    invited_by = models.ForeignKey(
        "self",
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Who may make their invitation anew, besides organisation admins.",
    )

    class Meta(AbstractUser.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                Lower("email"),
                condition=~Q(email=""),
                name="user_email_once",
                violation_error_message="There is an account with this e-mail address already.",
            ),
        ]

    def __str__(self) -> str:
        return self.get_full_name() or self.username

    @property
    def audit_name(self) -> str:
        """What the audit trail calls them: the name that nobody gives themselves, and that two never share."""
        return self.username

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the row, address trimmed, in small letters; what may end sessions has open pages looked at again."""
        self.email = self.email.strip().lower()
        known, fields = not self._state.adding, kwargs.get("update_fields")
        super().save(*args, **kwargs)
        if known and (fields is None or ENDS_SESSIONS.intersection(fields)):
            live.announce(f"user:{self.pk}")

    def end_links(self) -> None:
        """Make the links of no use that were made for this person and not used yet."""
        self.links.filter(used_at=None).delete()

    def get_session_auth_hash(self) -> str:
        """Return what a session has to hold to be good: another one after each change of password or generation."""
        return self._session_hash(None)

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        """Return the same by keys that were the server's before."""
        yield from map(self._session_hash, settings.SECRET_KEY_FALLBACKS)

    def _session_hash(self, secret: str | bytes | None) -> str:
        # Of the first generation as Django makes it.
        generation = f"#{self.session_generation}" if self.session_generation else ""
        salt = "django.contrib.auth.models.AbstractBaseUser.get_session_auth_hash"
        return salted_hmac(salt, self.password + generation, secret=secret, algorithm="sha256").hexdigest()


class LinkPurpose(models.TextChoices):
    """What a link lets its reader do: both set a password, the first for the first time."""

    INVITATION = "invitation", "Invitation"
    RESET = "reset", "New password"


class AccountLink(models.Model):
    """A link by which whoever has it sets a person's password, once: stored hashed, expiring, one for each person."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="links")
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.CASCADE,
        related_name="links_made",
        help_text="Who may have read it; null: whoever has the server's console.",
    )
    purpose = models.CharField(max_length=10, choices=LinkPurpose.choices)
    token_hash = models.CharField(max_length=64, unique=True)
    mailed_to = models.EmailField(
        blank=True, help_text="Who uses the link has shown that this address is theirs."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user"], condition=Q(used_at=None), name="link_open_once"),
            models.CheckConstraint(condition=Q(purpose__in=LinkPurpose.values), name="link_purpose_known"),
        ]

    def __str__(self) -> str:
        return f"{self.get_purpose_display()} of {self.user}"

    @staticmethod
    def hash_of(secret: str) -> str:
        """Return what is stored of a link's secret. It has too much chance in it to need a slow hash."""
        return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class Scope(models.TextChoices):
    """What a token may be used for; each includes the ones before it (`teams.permissions.OF_SCOPE`)."""

    READ = "read", "Read"
    SUBMIT = "submit", "Submit"
    MANAGE = "manage", "Manage"
    ADMIN = "admin", "Admin"


class ScopeField(models.CharField):  # type: ignore[type-arg]  # Django's own takes none
    """A scope, stored so that releases which know three allow no token more than it may.

    What is stored as `manage` let them do everything, as `admin` does now; what only manages, they do not know.
    """

    STORED: ClassVar = {"admin": "manage", "manage": "lead"}
    READ: ClassVar = {"manage": "admin", "lead": "manage"}

    def from_db_value(self, value: str, *_: object) -> str:
        """Return the scope of what is stored."""
        return str(self.READ.get(value, value))

    def get_prep_value(self, value: Any) -> Any:
        """Return what is stored of a scope."""
        return self.STORED.get(value, value)


class BearerToken(models.Model):
    """A bearer token of the API: stored hashed, shown once, scoped, expiring, revocable; for a team alone, or not."""

    PREFIX: ClassVar = ""
    """With this its secret begins, so that nobody takes one kind of token for another."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=80)
    token_hash = models.CharField(max_length=64, unique=True)
    prefix = models.CharField(
        max_length=12, help_text="The token's first characters, to tell it from others."
    )
    scope = ScopeField(max_length=8, choices=Scope.choices)
    team = models.ForeignKey(
        "teams.Team",
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="It reaches this team and all below it; empty: all that its holder's roles reach.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_address = models.GenericIPAddressField(null=True, help_text="From where it was last used.")

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @classmethod
    def new_secret(cls) -> str:
        """Return a new token with 256 bits of chance."""
        return cls.PREFIX + secrets.token_urlsafe(32)

    @staticmethod
    def hash_of(secret: str) -> str:
        """Return what is stored of a token. It has too much chance in it to need a slow hash."""
        return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()

    @property
    def bounds(self) -> TokenBounds:
        """What it leaves of its holder's roles for reading. Its team should be loaded."""
        return TokenBounds(path=self.team.path) if self.team is not None else TokenBounds()

    @property
    def holder(self) -> User:
        """Who it is used as."""
        raise NotImplementedError

    def is_valid(self, now: datetime) -> bool:
        """Return whether the token may still be used at `now`."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)

    def lets_in(self, now: datetime) -> bool:
        """Return whether its holder is let in with it. What it was `read` with should be loaded."""
        return self.is_valid(now) and self.holder.is_active

    @classmethod
    def read(cls) -> models.QuerySet[Self]:
        """Return all, with what says who is let in where."""
        return cls._default_manager.select_related("team")

    def holder_now(self) -> User | None:
        """Return who it is used as, as they are now and bound by it; None where it lets nobody in (one query)."""
        row = self.read().filter(pk=self.pk).first()
        if row is None or not row.lets_in(timezone.now()):
            return None
        bind(row.holder, row.bounds)
        return row.holder


class ApiToken(BearerToken):
    """A token of a person."""

    PREFIX = "chb_"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(scope__in=Scope.values), name="apitoken_scope_known"),
        ]

    @property
    def holder(self) -> User:
        """Who it is used as."""
        return self.user

    @classmethod
    def read(cls) -> models.QuerySet[Self]:
        """Return all, with what says who is let in where."""
        return super().read().select_related("user")


class ServiceAccount(models.Model):
    """What a program is known as: owned by a team, with roles like a person, without a password.

    Its `user` is whom its roles, workloads and acts name; nobody signs in as that.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="service_account"
    )
    name = models.CharField(max_length=40, unique=True)
    description = models.CharField(max_length=200, blank=True)
    team = models.ForeignKey(
        "teams.Team",
        on_delete=models.PROTECT,
        related_name="service_accounts",
        help_text="Whose leads and admins make its tokens; while it is archived, these let nobody in.",
    )
    limits = models.JSONField(
        null=True, help_text="Where they differ from everybody's, set by an organisation admin."
    )
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def lets_in(self) -> bool:
        """Whether its tokens let anybody in. User and team should be loaded."""
        return self.user.is_active and not self.team.is_archived


class ServiceToken(BearerToken):
    """A token of a service account."""

    PREFIX = "chs_"

    account = models.ForeignKey(ServiceAccount, on_delete=models.PROTECT, related_name="tokens")
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Who has read it; null: whoever has the server's console.",
    )

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(scope__in=Scope.values), name="servicetoken_scope_known"),
        ]

    @property
    def holder(self) -> User:
        """Who it is used as."""
        return self.account.user

    def lets_in(self, now: datetime) -> bool:
        """Return whether it is let in with it. What it was `read` with should be loaded."""
        return self.is_valid(now) and self.account.lets_in

    @classmethod
    def read(cls) -> models.QuerySet[Self]:
        """Return all, with what says who is let in where."""
        return super().read().select_related("account__user", "account__team")


class ProvisionedPerson(models.Model):
    """Somebody whom an identity provider keeps here over SCIM, with what it told of them.

    One whom it deleted stays, so that they are known where it tells of them again.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="provisioned")
    provider = models.CharField(max_length=30, help_text="Its id in the settings.")
    user_name = models.CharField(max_length=255, help_text="As the provider writes it.")
    external_id = models.CharField(max_length=255, blank=True)
    put_out = models.BooleanField(
        default=False, help_text="Whether it disabled the account: only then it enables it again."
    )
    is_deleted = models.BooleanField(default=False)
    told = models.JSONField(default=dict, help_text="All that it told, but for a password.")
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["provider", "user"], name="provisionedperson_once"),
            models.UniqueConstraint(
                "provider",
                Lower("user_name"),
                condition=Q(is_deleted=False),
                name="provisionedperson_name_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_name} of {self.provider}"


class ProvisionedGroup(models.Model):
    """A group that an identity provider keeps here over SCIM, whether it gives a role or not."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    provider = models.CharField(max_length=30, help_text="Its id in the settings.")
    name = models.CharField(max_length=255, help_text="As the provider writes it.")
    external_id = models.CharField(max_length=255, blank=True)
    people = models.ManyToManyField(ProvisionedPerson, related_name="groups")
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["provider", "name"], name="provisionedgroup_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.provider}"


class Mark(models.Model):
    """When a part of a deployment last showed that it works, and which process that was.

    Names: `beat`, `worker:<queue>` for each queue that carries the heartbeat, `part:<web, live or all>:<host>`, and
    `watch:agents`. The scheduler's own trace is its `Turn` and its cycles.
    """

    name = models.CharField(primary_key=True, max_length=60)
    at = models.DateTimeField()
    said_by = models.CharField(max_length=200)
    details = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.name} by {self.said_by} at {self.at:%Y-%m-%d %H:%M:%S}"


class Total(models.Model):
    """A running total of /metrics that only grows, whatever history is pruned: a counter, or a histogram.

    `labels` is canonical JSON. `count` says how often something happened and `amount` how much of it, all added up;
    `buckets` counts what was observed by its upper bound ("+Inf" is above all), each observation once.
    """

    name = models.CharField(max_length=60)
    labels = models.CharField(max_length=300)
    count = models.PositiveBigIntegerField(default=0)
    amount = models.FloatField(default=0.0)
    buckets = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["name", "labels"], name="total_once")]

    def __str__(self) -> str:
        return f"{self.name}{self.labels}"
