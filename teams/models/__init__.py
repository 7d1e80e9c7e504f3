"""The organisation: its tree of teams, who belongs to them, the pools they share and what was changed."""

from teams.models.audit import AuditEvent
from teams.models.binding import Binding, Role
from teams.models.chain import AuditChain, AuditCheck, AuditSeal, AuditUnsealed
from teams.models.horizon import Horizon
from teams.models.job_class import (
    ClassNarrowing,
    DeviceSharing,
    JobClass,
    OnPreemption,
    PriorityTier,
)
from teams.models.policy import ANY, VOLUME_KINDS, PriorityRange, TeamPolicy, TeamRules
from teams.models.pool import (
    CLUSTER_LABEL,
    ElasticPreemptionPolicy,
    FairnessPolicy,
    PlacementPolicy,
    Pool,
    PoolPolicy,
    QueueingPolicy,
    Share,
    SharingPolicy,
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
    "ClassNarrowing",
    "DeviceSharing",
    "ElasticPreemptionPolicy",
    "FairnessPolicy",
    "Horizon",
    "JobClass",
    "OnPreemption",
    "PlacementPolicy",
    "Pool",
    "PoolPolicy",
    "PriorityRange",
    "PriorityTier",
    "ProviderGroup",
    "QueueingPolicy",
    "Role",
    "Share",
    "SharingPolicy",
    "SignInPolicy",
    "Team",
    "TeamPolicy",
    "TeamRules",
]
