"""The page of rules names every case, and nothing that is not there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
CASES = {path.stem for path in (TESTS / "scenario" / "cases").glob("*.yaml")}
PAGE = (TESTS.parent.parent / "docs" / "rules.md").read_text()
ROWS = re.findall(r"^\| (?!rule \||-)(.+?) \| (.+) \|$", PAGE, flags=re.MULTILINE)


def test_every_case_is_on_the_page() -> None:
    shown = {name for _, names in ROWS for name in re.findall(r"`([^`]+)`", names)}
    assert {name for name in shown if "::" not in name} == CASES


@pytest.mark.parametrize(("rule", "names"), ROWS, ids=[rule[:50] for rule, _ in ROWS])
def test_what_shows_a_rule_is_there(rule: str, names: str) -> None:
    assert rule[0].isupper() or rule.startswith("`")
    for name in re.findall(r"`([^`]+)`", names):
        module, _, test = name.partition("::")
        if test:
            folder = TESTS if "/" in module else TESTS / "engine"
            assert f"def {test}(" in (folder / module.removeprefix("../")).read_text(), name
        else:
            assert name in CASES, name
