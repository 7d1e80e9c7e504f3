"""Files of workloads: several documents, JSON, and what is refused before anything is sent."""

import io
import sys
from pathlib import Path

import pytest

from chamber.cli import manifests
from chamber.cli.status import Failure


def read(tmp_path: Path, content: str) -> list[dict[str, object]]:
    file = tmp_path / "workloads.yaml"
    file.write_text(content)
    found = manifests.read(str(file))
    if found.problems:
        raise found.failure(found.problems)
    return found.documents


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("name: a", ["a"]),
        ("name: a\n---\nname: b\n---\n", ["a", "b"]),
        ("workloads: [{name: a}, {name: b}]\n---\nname: c", ["a", "b", "c"]),
        ('{"name": "a"}', ["a"]),
    ],
)
def test_one_workload_or_several(tmp_path: Path, content: str, names: list[str]) -> None:
    assert [workload["name"] for workload in read(tmp_path, content)] == names


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("name: [", "line 1: "),
        ("a: &a [1]\nb: *a", "line 2: aliases are not taken, write it out."),
        ("name: a\nteam: nlp\nname: b", "line 3: name is given again."),
        ("a: {b: {c: 1, 'c': 2}}", "line 1: a.b.c is given again."),
        ("- a", "is not a workload"),
        ("workloads: 3", "workloads must be a list"),
        ("", "holds no workload."),
        ("name: \x07", "is not YAML"),
        ("when: 2020-13-45", "is not YAML"),
        ("{" * 5000, "is not YAML"),
        ("team: nlp\nname: 2030-01-31", "line 2: name is the date 2030-01-31; put quotes around it."),
        ("environment: {deadline: 2030-01-31}", "environment.deadline is the date 2030-01-31; put quotes"),
        ("team: nlp\n\ngpus: .inf", "line 3: gpus is .inf; it must be a number that ends."),
        (
            "workloads: [{name: a}]\n---\ngpus: -.inf\ncpu: .nan",
            "  line 4: workloads[1].cpu is .nan; it must be a number that",
        ),
        ("environment: {2030-01-31: a}", "the name 2030-01-31 is no text; put quotes"),
        ("name: !!binary aGk=", "name is b'hi'; it must be text, a number, a list or a mapping."),
        ("name: a\n---\n- b\n", "line 3: workloads[1]: ['b'] is not a workload"),
    ],
)
def test_what_is_no_manifest_is_a_usage_error(tmp_path: Path, content: str, sentence: str) -> None:
    with pytest.raises(Failure) as raised:
        read(tmp_path, content)

    assert raised.value.exit_code == 2
    assert sentence in raised.value.message


def test_times_need_no_quotes(tmp_path: Path) -> None:
    content = "start_after: 2030-01-31T20:00:00Z\n---\nworkloads: [{deadline: 2030-01-31 20:00:00 +01:00}]"
    assert read(tmp_path, content) == [
        {"start_after": "2030-01-31 20:00:00+00:00"},
        {"deadline": "2030-01-31 20:00:00+01:00"},
    ]


def test_ten_megabytes_are_rejected_without_being_parsed(tmp_path: Path) -> None:
    with pytest.raises(Failure) as raised:
        read(tmp_path, "a: " + "x" * 10_000_000)

    assert raised.value.exit_code == 6
    assert "larger than 1,048,576 bytes" in raised.value.message


def test_a_missing_file_is_named() -> None:
    with pytest.raises(Failure, match=r"/nowhere/w\.yaml cannot be read: No such file or directory\."):
        manifests.read("/nowhere/w.yaml")


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"name: a")))

    assert manifests.read("-").documents == [{"name": "a"}]
