"""`docs/scheduling.md` names, in the head of each section, the modules of the engine where its rules stand."""

import re
from pathlib import Path

ENGINE = Path(__file__).resolve().parent.parent / "engine"
PAGE = ENGINE.parent.parent / "docs/scheduling.md"


def test_the_modules_in_the_heads_of_sections_are_there() -> None:
    heads = re.findall(r"^## .*\[(.*)\]$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = [module for head in heads for module in re.findall(r"`([\w.]+)`", head)]
    assert len(named) > 40
    paths = {module: ENGINE / module.replace(".", "/") for module in named}
    missing = [
        module for module, path in paths.items() if not (path.is_dir() or path.with_suffix(".py").is_file())
    ]
    assert not missing
