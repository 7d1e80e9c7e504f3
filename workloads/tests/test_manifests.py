"""Submissions as YAML: bounded, without aliases, and with the line of each mistake."""

import pytest

from chamber.errors import Refusal, TooLarge
from chamber.models import User
from teams.models import Team
from workloads import manifests
from workloads.requests import SubmissionRequest
from workloads.tests.factories import make_workload

GOOD = "name: bert\nteam: nlp\nimage: train:1\n"


def test_one_workload_is_read() -> None:
    (asked,) = manifests.parse(GOOD + "gpus: 0.5\ntime_limit: 4h\nenvironment:\n  EPOCHS: 3\n")
    assert (asked.name, asked.gpu_milli, asked.time_limit_seconds) == ("bert", 500, 14400)
    assert asked.environment == {"EPOCHS": "3"}


def test_several_are_read() -> None:
    text = "workloads:\n- {name: a, team: nlp, image: x}\n- {name: b, team: nlp, image: x}\n"
    assert [asked.name for asked in manifests.parse(text)] == ["a", "b"]


def test_documents_are_workloads_of_one_submission() -> None:
    second = "workloads:\n- {name: b, team: nlp, image: x}\n- {name: c, team: nlp, image: x}\n"
    text = f"# all\n---\n{GOOD}---\n{second}---\n"
    assert [asked.name for asked in manifests.parse(text)] == ["bert", "b", "c"]
    assert [asked.name for asked in manifests.parse(f"---\n{GOOD}---\n")] == ["bert"]
    with pytest.raises(Refusal, match="Line 9: pods is 0"):
        manifests.parse(f"---\n{GOOD}---\n{GOOD}pods: 0\n")
    with pytest.raises(Refusal, match="Line 6 gives 'name' again"):
        manifests.parse(f"{GOOD}---\nname: a\nname: b\n")
    with pytest.raises(Refusal, match="or parted by ---"):
        manifests.parse(f"{GOOD}---\n- a\n")


def test_ten_megabytes_are_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yaml.parse", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(TooLarge, match=r"has 10,485,760 bytes; at most 262,144 are taken"):
        manifests.parse("a" * 10 * 1024 * 1024)


BAD = {
    "an alias": (GOOD + "command: &c [x]\ngpu_types: *c\n", "Line 5 uses the alias *c"),
    "too deep": (GOOD + "command: " + "[" * 30 + "]" * 30, "Line 4 is nested deeper than 20 levels"),
    "deeper than Python goes": ("[" * 100_000, "nested deeper"),
    "a key twice": (GOOD + "pods: 1\npods: 2\n", "Line 5 gives 'pods' again"),
    "an unknown key": (GOOD + "gpuss: 1\n", "Line 4: There is no field 'gpuss'; did you mean 'gpus'?"),
    "a bad value": (GOOD + "pods: 0\n", "Line 4: pods is 0; at least 1 is allowed"),
    "a time limit": (
        GOOD + "time_limit: 4 fortnights\n",
        "Line 4: time_limit: '4 fortnights' is not a duration: write seconds, or numbers with w, d, h, m or s",
    ),
    "a number without end": (GOOD + "cpu: .nan\ngpus: .inf\n", "Line 4: cpu is nan; it must be a number."),
    "a bad value in a list": (
        "workloads:\n- {name: a, team: n, image: x,\n   pods: 0}\n",
        "Line 3: pods is 0",
    ),
    "not YAML": (GOOD + "pods: [1\n", "is not YAML"),
    "a tag": (GOOD + "command: !!python/object:os.system x\n", "Line 4 cannot be read"),
    "a list": ("- a\n", "A manifest is a mapping"),
    "nothing": ("", "A manifest is a mapping"),
    "a bell": ("name: \x07\n", "is not YAML"),
    "not a day": (GOOD + "partition: 2026-13-45\n", "cannot be read"),
}


def test_every_mistake_is_told_on_a_line_of_its_own() -> None:
    told = {
        GOOD + "pods: 0\ncpu: many\ngpuss: 1\n": [
            "Line 4: pods is 0; at least 1 is allowed.",
            "Line 5: cpu is 'many'; it must be a number.",
            "Line 6: There is no field 'gpuss'; did you mean 'gpus'?",
        ],
        "workloads:\n- {name: a, team: n, image: x, pods: 0}\nteam: n\nteam: n\n": [
            "Line 2: pods is 0; at least 1 is allowed.",
            "Line 4 gives 'team' again.",
            "Line 4: There is no 'team' beside workloads; known are workloads.",
        ],
        "workloads:\n- {name: a, team: n, image: x, pods: 0}\n- {name: b,\n   team: n, hold: maybe}\n": [
            "Line 2: pods is 0; at least 1 is allowed.",
            "Line 3: image is missing.",
            "Line 4: hold is 'maybe'; it must be true or false.",
        ],
        GOOD + "pods: 1\npods: 2\nname: c\n": ["Line 5 gives 'pods' again.", "Line 6 gives 'name' again."],
    }
    for text, lines in told.items():
        with pytest.raises(Refusal) as refused:
            manifests.parse(text)
        assert sorted(refused.value.fields[manifests.FIELD].splitlines()) == lines


@pytest.mark.parametrize(("text", "sentence"), BAD.values(), ids=BAD.keys())
def test_a_mistake_names_its_line(text: str, sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        manifests.parse(text)
    assert list(refused.value.fields) == [manifests.FIELD]
    assert sentence in refused.value.message


def test_a_workload_written_and_read_again_asks_for_the_same(team: Team, owner: User) -> None:
    workload = make_workload(
        team,
        owner,
        pods=4,
        min_pods=2,
        gpu_milli=500,
        cpu_milli=1500,
        memory_mib=4096,
        time_limit_seconds=5400,
        command=["sh", "-c", "echo 'a: b'"],
        environment={"A": "1"},
        gpu_types=["H100"],
        priority=100,
        read_notes=True,
    )
    text = manifests.to_yaml(manifests.content_of(workload, {}, user=owner))
    (asked,) = manifests.parse(text)
    assert isinstance(asked, SubmissionRequest)
    assert (asked.pods, asked.starting_pods, asked.gpu_milli) == (4, 2, 500)
    assert (asked.cpu, asked.memory_mib, asked.time_limit_seconds) == (1.5, 4096, 5400)
    assert (asked.command, asked.environment) == (workload.command, {"A": "1"})
    assert (asked.gpu_types, asked.priority, asked.read_notes) == (["H100"], 100, True)
