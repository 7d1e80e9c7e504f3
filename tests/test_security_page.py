"""`docs/security.md` has a row for each requirement, and names tests that there are."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
STATES = {"met", "not met", "not applicable"}
# fmt: off
UP_TO_LEVEL_2 = {
    "1.1": "1-7", "1.2": "1-4", "1.4": "1 4-5", "1.5": "1-4", "1.6": "1-4", "1.7": "1-2", "1.8": "1-2",
    "1.9": "1-2", "1.10": "1", "1.11": "1-2", "1.12": "2", "1.14": "1-6", "2.1": "1-12", "2.2": "1-3",
    "2.3": "1-3", "2.4": "1-5", "2.5": "1-7", "2.6": "1-3", "2.7": "1-6", "2.8": "1-7", "2.9": "1-3",
    "2.10": "1-4", "3.1": "1", "3.2": "1-4", "3.3": "1-4", "3.4": "1-5", "3.5": "1-3", "3.7": "1",
    "4.1": "1-3 5", "4.2": "1-2", "4.3": "1-3", "5.1": "1-5", "5.2": "1-8", "5.3": "1-10", "5.4": "1-3",
    "5.5": "1-4", "6.1": "1-3", "6.2": "1-6", "6.3": "1-2", "6.4": "1-2", "7.1": "1-4", "7.2": "1-2",
    "7.3": "1 3-4", "7.4": "1-3", "8.1": "1-4", "8.2": "1-3", "8.3": "1-8", "9.1": "1-3", "9.2": "1-4",
    "10.2": "1-2", "10.3": "1-3", "11.1": "1-8", "12.1": "1-3", "12.2": "1", "12.3": "1-6",
    "12.4": "1-2", "12.5": "1-2", "12.6": "1", "13.1": "1 3-5", "13.2": "1-3 5-6", "13.3": "1-2",
    "13.4": "1-2", "14.1": "1-4", "14.2": "1-6", "14.3": "2-3", "14.4": "1-7", "14.5": "1-4",
}
# fmt: on
"""The requirements of ASVS 4.0.3 of levels 1 and 2: numbers within each section."""


def expanded(section: str, numbers: str) -> set[str]:
    """Return `1-3 5` of a section as whole numbers of requirements."""
    found = set()
    for part in numbers.split():
        first, _, last = part.partition("-")
        found |= {f"{section}.{number}" for number in range(int(first), int(last or first) + 1)}
    return found


EXPECTED = set().union(*(expanded(*item) for item in UP_TO_LEVEL_2.items()))


def told() -> list[tuple[str, list[str]]]:
    """Return each requirement that the page has a row for, with the cells of the row."""
    found = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not re.fullmatch(r"[\d., –]+", cells[0]) or "." not in cells[0]:
            continue
        for part in cells[0].split(", "):
            first, _, last = part.partition("–")
            section, _, number = first.rpartition(".")
            among = expanded(section, f"{number}-{(last or first).rpartition('.')[2]}")
            found += [(each, cells) for each in sorted(among & EXPECTED or among)]
    return found


def test_each_requirement_up_to_level_2_has_one_row_with_its_state() -> None:
    rows = told()
    assert {
        number: times for number, times in Counter(number for number, _ in rows).items() if times > 1
    } == {}
    assert {number for number, _ in rows} == EXPECTED
    for number, cells in rows:
        assert len(cells) == 4, number
        assert cells[2] in STATES, number
        assert cells[3], number


def test_each_test_that_it_names_is_there() -> None:
    known = Counter[tuple[str, str]]()
    for file in ROOT.rglob("tests/**/test_*.py"):
        if ".venv" not in file.parts:
            for name in re.findall(
                r"^(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE
            ):
                known[file.name, name] += 1
    named = set(re.findall(r"`(test_\w+\.py)::(\w+)`", PAGE))
    assert len(named) > 100
    assert sorted(named - known.keys()) == []


def test_the_sums_that_it_tells_are_those_of_its_rows() -> None:
    sums = Counter(cells[2] for _, cells in told())
    said = re.search(r"Of (\d+) requirements (\d+) are met, (\d+) are not, and (\d+) do not apply", PAGE)
    assert said
    assert [int(each) for each in said.groups()] == [
        len(EXPECTED),
        sums["met"],
        sums["not met"],
        sums["not applicable"],
    ]
