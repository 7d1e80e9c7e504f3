"""The container's image: what it is made of, and what the builder gets to see."""

import re

from rig.deployment import ROOT


def copied() -> set[str]:
    """Return what the Dockerfile copies from the project's folder."""
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
    return {source for line in lines if line.startswith("COPY ") for source in line.split()[1:-1]}


def test_the_builder_is_sent_what_the_dockerfile_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]

    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied()


def test_the_image_has_every_package_and_all_that_the_project_file_reads() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    [listed] = re.findall(r"^root_packages = \[(.*)\]$", project, re.MULTILINE)

    needed = {*re.findall(r'"(\w+)"', listed), *re.findall(r'file = \["([^"]+)"\]', project)}
    assert needed <= copied()
    assert all((ROOT / name).exists() for name in copied())


def test_secrets_and_certificates_of_a_deployment_are_never_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()

    assert {"/deploy/secrets/", "/deploy/tls/"} <= set(ignored)
