"""How tests are spread over processes: by file, by what files share, and the longest first."""

from types import SimpleNamespace
from typing import Any

import pytest

from rig.deployment import ROOT
from rig.spreading import FIRST, TOGETHER, in_order, unit_of


def test_a_file_stays_together() -> None:
    assert unit_of("teams/tests/test_tree.py::test_a[1::2]") == "teams/tests/test_tree.py"


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("tests/test_deployment.py", "tests/test_deployment_proxy.py", True),
        ("tests/test_demo.py", "tests/test_browser.py", True),
        ("tests/test_demo.py", "tests/test_deployment.py", False),
        ("tests/test_deployment.py", "tests/test_deployment_doctor.py", False),
        ("tests/test_deployment_doctor.py", "tests/test_chart.py", False),
    ],
)
def test_files_that_share_a_server_stay_together(one: str, other: str, together: bool) -> None:
    assert (unit_of(f"{one}::test_a") == unit_of(f"{other}::test_b")) is together


def test_what_takes_long_begins_first_and_the_rest_stays_as_it_is() -> None:
    files = ["teams/b.py", "tests/test_image.py", "teams/a.py", "tests/test_deployment_logs.py"]
    items: list[Any] = [SimpleNamespace(nodeid=f"{file}::test") for file in files]
    found = [item.nodeid.split("::")[0] for item in in_order(items)]
    assert found == ["tests/test_deployment_logs.py", "tests/test_image.py", "teams/b.py", "teams/a.py"]


@pytest.mark.parametrize("beginning", [*TOGETHER, *FIRST])
def test_each_name_is_that_of_files_that_there_are(beginning: str) -> None:
    assert [*ROOT.glob(f"{beginning}*")]
