"""One name means one class in the whole product; what a framework names is left out."""

import ast
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
OF_FRAMEWORKS = {"Meta", "Command", "Config"}
"""Django's options of models and forms, and its commands; what is read of each is where it stands."""


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    for path in listed.stdout.splitlines():
        if {"tests", "migrations"} & set(Path(path).parts) or not (ROOT / path).exists():
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ClassDef) and node.name not in OF_FRAMEWORKS:
                places[node.name].append(path)
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
