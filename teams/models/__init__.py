"""The organisation: its tree of teams, who belongs to them, the pools they share and what was changed."""

from teams.models.audit import AuditEvent
from teams.models.binding import Binding, Role
from teams.models.chain import AuditChain, AuditCheck, AuditSeal, AuditUnsealed
from teams.models.horizon import Horizon
from teams.models.policy import ANY, VOLUME_KINDS, PriorityRange, TeamPolicy, TeamRules
from teams.models.pool import (
    CLUSTER_LABEL,
    ElasticPreemption,
    Fairness,
    Placement,
    Pool,
    PoolPolicy,
    Queueing,
    Share,
    Sharing,
)
from teams.models.provider_group import ProviderGroup
from teams.models.sign_in import SignInPolicy
from teams.models.team import Team

__all__ = [
    "ANY",
    "CLUSTER_LABEL",
    "VOLUME_KINDS",
    "AuditChain",
    "AuditCheck",
    "AuditEvent",
    "AuditSeal",
    "AuditUnsealed",
    "Binding",
    "ElasticPreemption",
    "Fairness",
    "Horizon",
    "Placement",
    "Pool",
    "PoolPolicy",
    "PriorityRange",
    "ProviderGroup",
    "Queueing",
    "Role",
    "Share",
    "Sharing",
    "SignInPolicy",
    "Team",
    "TeamPolicy",
    "TeamRules",
]
