"""The pages of scheduling name the modules where rules and short cuts stand: `docs/scheduling.md`, in the heads of its
sections, each of the engine; `docs/acceleration.md`, in its tables, each of the acceleration."""

import re
from pathlib import Path

SCHEDULING = Path(__file__).resolve().parent.parent
ENGINE, ACCELERATION = SCHEDULING / "engine", SCHEDULING / "acceleration"
DOCS = SCHEDULING.parent / "docs"


def modules_of(folder: Path) -> set[str]:
    """The modules of a folder, by their names from it on."""
    paths = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py"))
    return {".".join(path.parts) for path in paths if path.name != "__init__"}


def test_each_module_of_the_engine_stands_in_the_head_of_a_section() -> None:
    text = (DOCS / "scheduling.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## .*\[(.*)\]$", text, flags=re.MULTILINE)
    named = {module for head in heads for module in re.findall(r"`([\w.]+)`", head)}
    assert named == modules_of(ENGINE)


def test_each_module_of_the_acceleration_has_a_row() -> None:
    text = (DOCS / "acceleration.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, flags=re.MULTILINE)
    named = {module for cell in cells for module in re.findall(r"`(\w+)`", cell)}
    assert named == modules_of(ACCELERATION)
