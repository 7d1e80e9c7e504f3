"""The chart of `deploy/` through the real helm: rendered, linted, installed."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rig import kubernetes

CHART = Path(__file__).resolve().parent.parent / "deploy" / "chart"
Values = Mapping[str, Any]


class HelmFailed(Exception):  # noqa: N818 - an answer of the program
    """What helm said."""


def helm(*words: str, kubeconfig: Path | None = None, values: Values | None = None) -> str:
    """Run helm with these values and return what it wrote; raise `HelmFailed`."""
    home = {} if kubeconfig is None else {"KUBECONFIG": str(kubeconfig)}
    given = [] if values is None else ["--values", "-"]
    done = subprocess.run(
        [kubernetes.program("helm"), *words, *given],
        input=yaml.safe_dump(dict(values or {})),
        env=os.environ | home,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise HelmFailed(done.stderr or done.stdout)
    return done.stdout


def rendered(values: Values, *, release: str = "chamber", namespace: str = "chamber") -> list[dict[str, Any]]:
    """Return the objects that an installation would make; raise `HelmFailed`."""
    text = helm("template", release, str(CHART), "--namespace", namespace, values=values)
    return [body for body in yaml.safe_load_all(text) if body]
