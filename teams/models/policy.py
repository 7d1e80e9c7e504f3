"""What a team's members may ask for; inherited down the tree, the nearer team's word wins key by key."""

import re
from typing import Annotated, ClassVar

from django.db import models
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from teams.models.team import Team


class PriorityRange(BaseModel):
    """Highest priorities of a role: elastic below 100, reserved from 100 up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    elastic_max: int = Field(ge=0, le=99)
    reserved_max: int | None = Field(default=None, ge=100, le=1_000_000)


MOST_NAME = 253
"""Characters of a name in Kubernetes."""
_ACCOUNT = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
VOLUME_KINDS = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "nfs"),
        *("persistentVolumeClaim", "projected", "secret"),
    }
)
"""Kinds of volumes that a policy may allow; a path of the node's own disk is among none of them."""


def _account(name: str) -> str:
    if not _ACCOUNT.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a service account")
    return name


def _volume(kind: str) -> str:
    if kind not in VOLUME_KINDS:
        raise ValueError(f"{kind!r} is none of {', '.join(sorted(VOLUME_KINDS))}")
    return kind


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


Account = Annotated[str, StringConstraints(max_length=MOST_NAME), AfterValidator(_account)]
Volume = Annotated[str, AfterValidator(_volume)]
Accounts = Annotated[tuple[Account, ...], Field(max_length=50), AfterValidator(_sorted)]
Volumes = Annotated[tuple[Volume, ...], Field(max_length=50), AfterValidator(_sorted)]


ANY = "*"
"""Stands for every name in a list of names."""


def _named(name: str) -> str:
    if name != ANY and not _ACCOUNT.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name of a Secret or ConfigMap; {ANY} stands for all")
    return name


Named = Annotated[str, StringConstraints(max_length=MOST_NAME), AfterValidator(_named)]
AllNamed = Annotated[tuple[Named, ...], Field(max_length=200), AfterValidator(_sorted)]
"""Names of Secrets, or ConfigMaps."""

_SECRET_PATTERN = re.compile(
    r"(([a-z0-9*]([a-z0-9.*-]*[a-z0-9*])?)/){0,2}[a-z0-9*]([a-z0-9.*-]*[a-z0-9*])?", re.ASCII
)
_VARIABLE_PATTERN = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*", re.ASCII)


def _secret_pattern(text: str) -> str:
    if not _SECRET_PATTERN.fullmatch(text):
        raise ValueError(
            f"{text[:80]!r} is no pattern of Secrets: write NAME, NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, where "
            f"{ANY} stands for any characters"
        )
    return text


def _variable_pattern(text: str) -> str:
    if not _VARIABLE_PATTERN.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no name of a variable; {ANY} stands for any characters")
    return text


SecretPattern = Annotated[str, StringConstraints(max_length=3 * MOST_NAME), AfterValidator(_secret_pattern)]
SecretPatterns = Annotated[tuple[SecretPattern, ...], Field(max_length=200), AfterValidator(_sorted)]
VariablePattern = Annotated[str, StringConstraints(max_length=MOST_NAME), AfterValidator(_variable_pattern)]
VariablePatterns = Annotated[tuple[VariablePattern, ...], Field(max_length=200), AfterValidator(_sorted)]

_IMAGE_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9*._/:@-]*", re.ASCII)
MOST_IMAGE = 300
"""Characters of the name of an image."""


def _image_pattern(text: str) -> str:
    if not _IMAGE_PATTERN.fullmatch(text):
        raise ValueError(
            f"{text[:80]!r} is no pattern of images: write a name such as registry.example.org/team/{ANY}, where {ANY} "
            "stands for any characters"
        )
    if problem := _matches_nothing(text):
        raise ValueError(f"{text[:80]!r} matches no image: {problem}")
    return text


def _matches_nothing(pattern: str) -> str:
    """Return why no image can match; "" where one can, as far as the pattern tells."""
    name, at, digest = pattern.partition("@")
    if at and ANY not in digest and not DIGEST.fullmatch(digest):
        return "after @ stands sha256: and 64 small hexadecimal digits"
    path = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    repository = path.partition("/")[2]
    if repository != repository.lower():
        return "repositories are written in small letters"
    return "a part of the name is empty" if "//" in name or name.endswith(("/", ":")) else ""


DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
"""What names the content of an image."""
ImagePattern = Annotated[str, StringConstraints(max_length=MOST_IMAGE), AfterValidator(_image_pattern)]
ImagePatterns = Annotated[tuple[ImagePattern, ...], Field(max_length=200), AfterValidator(_sorted)]

_PRIORITY_CLASS = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
MOST_CLASSES = 200


def _priority_class(name: str) -> str:
    if not _PRIORITY_CLASS.fullmatch(name) or len(name) > MOST_NAME:
        raise ValueError(f"{name[:80]!r} is no name of a PriorityClass")
    return name


ClassName = Annotated[str, AfterValidator(_priority_class)]


class TeamRules(BaseModel):
    """The content of a `TeamPolicy`, typed; an absent key is inherited."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    researcher_priority: PriorityRange | None = None
    lead_priority: PriorityRange | None = None
    largest_workload_milli: int | None = Field(default=None, ge=0)
    longest_time_limit_seconds: int | None = Field(default=None, ge=1)
    # What Jobs created with kubectl in the team's namespaces may name.
    service_accounts: Accounts | None = None
    volumes: Volumes | None = None
    secrets: AllNamed | None = None
    config_maps: AllNamed | None = None
    # Which Secrets of clusters workloads may be handed, by credentials that refer to one.
    cluster_secrets: SecretPatterns | None = None
    # Variables whose names look like those of secrets and whose values are none.
    plain_variables: VariablePatterns | None = None
    # Which images workloads may run, and whether only by digest.
    images: ImagePatterns | None = None
    digest_required: bool | None = None
    # Whether teams below may be given wider rules than these.
    may_be_widened: bool | None = None


class TeamPolicy(models.Model):
    """The rules set at one team; beside them, as `readable`, what the release before this one cannot read of them."""

    team = models.OneToOneField(Team, on_delete=models.CASCADE, primary_key=True, related_name="policy")
    rules = models.JSONField(default=dict)
    # Read by the release before this one only, while both run: `PriorityTier` has it now.
    priority_classes = models.JSONField(
        null=True, help_text="Priorities by PriorityClass, for the whole organisation; of the root alone."
    )
    readable = models.JSONField(
        null=True,
        help_text="Which Secrets and ConfigMaps Jobs created with kubectl may read, by the rules' keys.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        verbose_name_plural: ClassVar = "team policies"

    def __str__(self) -> str:
        return f"Policy of {self.team}"

    @property
    def typed(self) -> TeamRules:
        """Return the rules, typed."""
        return TeamRules.model_validate(self.rules | (self.readable or {}))
