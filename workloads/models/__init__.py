"""What users submit, its attempts, and everything that happened to it."""

from teams.models import OnPreemption
from workloads.models.array import WorkloadArray
from workloads.models.attempt import Attempt, EndReason, Phase
from workloads.models.credential import Credential, CredentialKind, NamedCredential
from workloads.models.data_source import DataSource, MountedSource, SourceKind
from workloads.models.environment import Environment, EnvironmentVersion
from workloads.models.event import Event, EventKind
from workloads.models.notes import AttemptNotes, Checkpoint
from workloads.models.submission import Dependency, DependencyKind, SubmissionKey
from workloads.models.workload import OnDeadline, Status, Workload

__all__ = [
    "Attempt",
    "AttemptNotes",
    "Checkpoint",
    "Credential",
    "CredentialKind",
    "DataSource",
    "Dependency",
    "DependencyKind",
    "EndReason",
    "Environment",
    "EnvironmentVersion",
    "Event",
    "EventKind",
    "MountedSource",
    "NamedCredential",
    "OnDeadline",
    "OnPreemption",
    "Phase",
    "SourceKind",
    "Status",
    "SubmissionKey",
    "Workload",
    "WorkloadArray",
]
