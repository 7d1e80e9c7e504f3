"""How tests are spread over processes: by file, by what files share, and the longest first."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rig.deployment import ROOT
from rig.spreading import FIRST, TOGETHER, in_order, unit_of
from tests import shared


def test_a_file_stays_together() -> None:
    assert unit_of("teams/tests/test_tree.py::test_a[1::2]") == "teams/tests/test_tree.py"


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("tests/test_deployment_logs.py", "tests/test_deployment_proxy.py", True),
        ("tests/test_deployment.py", "tests/test_deployment_stopping.py", True),
        ("tests/test_deployment.py", "tests/test_deployment_proxy.py", False),
        ("tests/test_demo.py", "tests/test_browser.py", True),
        ("tests/test_demo.py", "tests/test_deployment.py", False),
        ("tests/test_deployment.py", "tests/test_deployment_doctor.py", False),
        ("tests/test_deployment_logs.py", "tests/test_documented_commands.py", True),
        ("tests/test_deployment_doctor.py", "tests/test_chart.py", False),
    ],
)
def test_files_that_share_a_server_stay_together(one: str, other: str, together: bool) -> None:
    assert (unit_of(f"{one}::test_a") == unit_of(f"{other}::test_b")) is together


@pytest.mark.parametrize(
    ("what", "unit"), [("demo: Demo", {"the demo"}), ("team: Deployment", set(TOGETHER.values()) - {""})]
)
def test_whatever_asks_for_what_is_shared_is_of_the_unit_with_which_it_ends(
    what: str, unit: set[str]
) -> None:
    files = [path for path in (ROOT / "tests").glob("test_*.py") if what in path.read_text()]
    files = [path for path in files if path.name not in {"test_spreading.py", "test_deployment_doctor.py"}]
    assert len(files) > 2
    assert {
        path.name: unit_of(f"tests/{path.name}")
        for path in files
        if unit_of(f"tests/{path.name}") not in unit
    } == {}


def test_what_takes_long_begins_first_and_the_rest_stays_as_it_is() -> None:
    files = ["teams/b.py", "tests/test_image.py", "teams/a.py", "tests/test_deployment_logs.py"]
    items: list[Any] = [SimpleNamespace(nodeid=f"{file}::test") for file in files]
    found = [item.nodeid.split("::")[0] for item in in_order(items)]
    assert found == ["tests/test_deployment_logs.py", "tests/test_image.py", "teams/b.py", "teams/a.py"]


def test_what_files_share_ends_with_the_last_test_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = SimpleNamespace(stash=pytest.Stash())
    names = ("test_deployment_backup.py", "test_deployment_logs.py", "test_image.py")
    first, second, other = (
        cast("pytest.Item", SimpleNamespace(nodeid=f"tests/{name}::test", config=config)) for name in names
    )
    ended: list[str] = []

    @contextmanager
    def made() -> Iterator[str]:
        yield "a server"
        ended.append("a server")

    with shared.until_the_last(config, made()) as given:
        assert given == "a server"
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
        shared.end_with(second, other)  # one process for all files takes them in any order
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
        shared.end_with(first, second)
        shared.end_with(second, None)
        assert ended == []
        shared.end_with(second, other)
        assert ended == ["a server"]
    assert ended == ["a server"]


@pytest.mark.parametrize("beginning", [*TOGETHER, *FIRST])
def test_each_name_is_that_of_files_that_there_are(beginning: str) -> None:
    assert [*ROOT.glob(f"{beginning}*")]
