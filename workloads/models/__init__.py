"""What users submit, its attempts, and everything that happened to it."""

from workloads.models.attempt import Attempt, EndReason, Phase
from workloads.models.event import Event, EventKind
from workloads.models.notes import AttemptNotes, Checkpoint
from workloads.models.submission import Dependency, SubmissionKey
from workloads.models.workload import JobClass, OnPreemption, Status, Workload

__all__ = [
    "Attempt",
    "AttemptNotes",
    "Checkpoint",
    "Dependency",
    "EndReason",
    "Event",
    "EventKind",
    "JobClass",
    "OnPreemption",
    "Phase",
    "Status",
    "SubmissionKey",
    "Workload",
]
