"""Names of images and patterns of them, with the registry that is meant where none is written."""

HUB = "docker.io"
"""The registry of names that begin with none."""


def full_name(image: str) -> str:
    """Return the name with its registry, as Kubernetes completes it: `python:3.12` is that of Docker Hub."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"{HUB}/library/{image}"
    is_registry = "." in first or ":" in first or first == "localhost"
    return image if is_registry else f"{HUB}/{image}"


def full_pattern(pattern: str) -> str:
    """Return the pattern as whole names match it: one that begins with `*` as it is, else completed as a name is.

    So `train:*` is about tags of one image, and not about whatever a registry `train:5000` may have.
    """
    return pattern if pattern.startswith("*") else full_name(pattern)
