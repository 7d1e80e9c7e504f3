"""Labels and annotations that people give their workloads: which they may be, as Kubernetes takes them.

What steers Kubernetes, Chamber or a scheduler by such names is not for a submission to say.
"""

import re
from collections.abc import Mapping

MOST = 20
"""Labels, or annotations, of one workload."""
LONGEST_VALUE = 63
"""Of a label."""
MOST_BYTES = 16 * 1024
"""All annotations of a workload together: their Job bears its plan as well, and a cluster takes 256 KiB."""

RESERVED = (
    "chamber.internal",
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "karpenter.sh",
    "volcano.sh",
    "run.ai",
    "kai.scheduler",
)
"""Domains whose names, and those below them, steer something."""
RESERVED_NAMES = ("job-name", "controller-uid")
"""What the Jobs' controller sets."""

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def checked_labels(labels: dict[str, str]) -> dict[str, str]:
    """Return the labels; raise `ValueError` with a sentence for the first that may not be."""
    _check(labels, "label")
    for key, value in labels.items():
        if value and not _NAME.fullmatch(value):
            raise ValueError(
                f"The label {key} is {value[:80]!r}; a value has at most {LONGEST_VALUE} letters, digits, "
                "hyphens, underscores and dots, and begins and ends with a letter or digit."
            )
    return labels


def checked_annotations(annotations: dict[str, str]) -> dict[str, str]:
    """Return the annotations; raise `ValueError` with a sentence for the first that may not be."""
    _check(annotations, "annotation")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MOST_BYTES:
        raise ValueError(f"The annotations have {size:,} bytes together; at most {MOST_BYTES:,} are allowed.")
    return annotations


def _check(given: Mapping[str, str], noun: str) -> None:
    if len(given) > MOST:
        raise ValueError(f"It has {len(given)} {noun}s; at most {MOST} are allowed.")
    for key in given:
        domain, slash, name = key.rpartition("/")
        if not _NAME.fullmatch(name) or (slash and (len(domain) > 253 or not _DOMAIN.fullmatch(domain))):
            raise ValueError(
                f"{key[:80]!r} cannot name {noun}s: use at most 63 letters, digits, hyphens, underscores and dots, "
                "with a domain and a slash before them where it is not only yours."
            )
        kept = next((each for each in RESERVED if domain == each or domain.endswith(f".{each}")), "")
        if kept or key in RESERVED_NAMES:
            whose = f"the names of {kept}" if kept else "the names of Kubernetes itself"
            raise ValueError(f"The {noun} {key} cannot be given: {whose} are not for submissions to set.")
