"""`chamber submit`: by flags, from files, all or none, and never twice."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from django.core.wsgi import get_wsgi_application

from agentlink.models import Cluster
from agentlink.tests.factories import make_cluster, make_node
from chamber.cli import client
from chamber.cli.commands import follow
from chamber.models import Scope, User
from chamber.tests.cli.conftest import Run
from teams.models import Pool, Role, Team
from teams.tests.factories import member
from workloads import known
from workloads.models import Status, Workload

NEEDED = ("submit", "--team", "nlp", "--image", "registry.example/team/train:3")


@pytest.fixture(autouse=True)
def _as_ada(run: Run, ada: User, pool: Pool, become: Callable[..., str]) -> None:
    become(ada)


def test_flags_become_a_workload_and_its_name_is_printed(run: Run) -> None:
    flags = ["--gpus", "0.5", "--pods", "3", "--min-pods", "2", "--priority", "high", "--class", "training"]
    more = [
        "--pool",
        "main",
        "--time-limit",
        "2h",
        "--env",
        "A=1=2",
        "--label",
        "team-cost=42",
        "--annotation",
        "example.org/note=Ask Ada.",
        "--shm-mib",
        "512",
        "--cpu",
        "1.5",
        "--max-retries",
        "2",
        "--read-notes",
        "--hold",
    ]

    result = run(*NEEDED, *flags, *more, "--", "python", "train.py", "--epochs", "3")

    assert result.exit_code == 0, result.stderr
    workload = Workload.objects.get()
    assert result.stdout == f"{workload.slug}\n"
    assert (workload.name, workload.team.slug, workload.owner.username) == ("train", "nlp", "ada")
    assert (workload.gpu_milli, workload.pods, workload.min_pods, workload.cpu_milli) == (500, 3, 2, 1500)
    assert (workload.priority, workload.job_class, workload.time_limit_seconds) == (75, "training", 7200)
    assert workload.command == ["python", "train.py", "--epochs", "3"]
    assert (workload.environment, workload.max_retries, workload.held) == ({"A": "1=2"}, 2, True)
    assert (workload.labels, workload.annotations) == ({"team-cost": "42"}, {"example.org/note": "Ask Ada."})
    assert (workload.shm_mib, workload.read_notes) == (512, True)
    assert len(workload.pool_choice) == 1


def test_times_are_given_from_now_or_with_their_zone(run: Run) -> None:
    times = ["--start-after", "2036-06-01 20:00 Europe/Berlin", "--deadline", "2036-06-02T20:00Z"]

    result = run(*NEEDED, *times, "--on-deadline", "cancel")

    assert result.exit_code == 0, result.stderr
    workload = Workload.objects.get()
    assert (f"{workload.start_after:%d %H:%M}", f"{workload.deadline:%d %H:%M}") == ("01 18:00", "02 20:00")
    described = run("describe", workload.slug).stdout
    assert "Earliest start" in described
    assert "It is cancelled" in described
    refused = run(*NEEDED, "--start-after", "3h", "--deadline", "2h")
    assert refused.exit_code == 6
    assert "is not after the earliest start" in refused.stderr


def test_what_no_node_can_hold_is_submitted_with_a_warning(run: Run, pool: Pool) -> None:
    make_node(make_cluster(), "n1", gpus=8, pool=pool)
    make_node(Cluster.objects.get(), "n2", gpus=8, pool=pool)
    known.forget()
    result = run(*NEEDED, "--gpus", "9")
    slug = Workload.objects.get().slug
    assert (result.exit_code, result.stdout) == (0, f"{slug}\n")
    assert result.stderr == (
        f"Warning: {slug}: A pod asks for 9 GPUs, but the largest node it may use has 8. Ask for less per pod, and for "
        "more pods if need be, for example --pods 2 --gpus 8.\n"
    )
    assert run(*NEEDED, "--gpus", "8").stderr == ""


def test_json_is_a_list_of_the_apis_objects(run: Run) -> None:
    made = json.loads(run(*NEEDED, "-o", "json").stdout)

    assert [workload["slug"] for workload in made] == [Workload.objects.get().slug]


def test_a_file_of_several_is_submitted_in_its_order_and_changed_by_flags(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: a\nteam: nlp\nimage: i\ntime_limit: 1h\n---\nworkloads: [{name: b, team: nlp, image: i}]\n"
    )

    result = run("submit", "-f", str(file), "--priority", "low", "--time-limit", "30m")

    assert result.exit_code == 0, result.stderr
    rows = Workload.objects.order_by("id").values_list("name", "priority", "time_limit_seconds")
    assert list(rows) == [("a", 25, 1800), ("b", 25, 1800)]
    assert [line.rpartition("-")[0] for line in result.stdout.split()] == ["a", "b"]


def test_of_a_file_with_a_mistake_nothing_is_taken(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "w.json"
    file.write_text(
        json.dumps({"workloads": [{"name": "a", "team": "nlp", "image": "i"}, {"name": "b", "team": "nlp"}]})
    )

    result = run("submit", "-f", str(file))

    assert result.exit_code == 6
    assert "workloads[1].image" in result.stderr
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("flags", "exit_status", "sentence"),
    [
        (("--gpus", "1.25"), 6, "The nearest legal values are 1 and 2."),
        (("--pods", "0"), 6, "pods is 0; at least 1 is allowed."),
        (("--pods", "many"), 2, "--pods is 'many'; it must be a whole number."),
        (("--priority", "80"), 6, "Priority 80 is outside your range in NLP"),
        (("--team", "nobody"), 3, "'nobody'"),
        (("--team", "nlpp"), 3, "There is no team 'nlpp'. Did you mean 'nlp'?"),
        (("--team", "vision"), 3, "There is no team 'vision'.\n"),
        (("--team", "visionn"), 3, "There is no team 'visionn'.\n"),
        (("--pool", "mian"), 6, "There is no pool 'mian'. Did you mean 'main'?"),
        (("--time-limit", "soon"), 6, "'soon'"),
        (("--env", "A"), 2, "--env is 'A'; it must be NAME=VALUE."),
        (("--label", "A"), 2, "--label is 'A'; it must be NAME=VALUE."),
        (
            ("--label", "kubernetes.io/arch=x"),
            6,
            "the names of kubernetes.io are not for submissions to set.",
        ),
        (("--image", ""), 6, "image is missing."),
    ],
)
def test_what_cannot_be_is_refused_with_the_value(
    run: Run, vision: Team, flags: tuple[str, ...], exit_status: int, sentence: str
) -> None:
    result = run(*NEEDED, *flags)

    assert result.exit_code == exit_status, result.stderr
    assert sentence in result.stderr
    assert not Workload.objects.exists()


def test_who_may_only_view_may_not_submit(run: Run, nlp: Team, become: Callable[..., str]) -> None:
    become(member(nlp, Role.VIEWER, "vic"))

    assert run(*NEEDED).exit_code == 4


def test_a_reading_token_does_not_submit(run: Run, ada: User, become: Callable[..., str]) -> None:
    become(ada, Scope.READ)

    result = run(*NEEDED)

    assert result.exit_code == 4
    assert "'read'" in result.stderr


@pytest.mark.parametrize("missing", ["--team", "--image"])
def test_without_team_or_image_it_is_a_usage_error(run: Run, missing: str) -> None:
    given = [word for pair in (("--team", "nlp"), ("--image", "i")) for word in pair if pair[0] != missing]

    result = run("submit", *given)

    assert result.exit_code == 2
    assert f"Give {missing}" in result.stderr


def test_the_same_key_submits_once(run: Run) -> None:
    first = run(*NEEDED, "--idempotency-key", "k1")

    assert run(*NEEDED, "--idempotency-key", "k1").stdout == first.stdout
    assert Workload.objects.count() == 1


def test_a_used_key_with_another_body_is_a_conflict(run: Run) -> None:
    run(*NEEDED, "--idempotency-key", "k1")

    result = run(*NEEDED, "--pods", "2", "--idempotency-key", "k1")

    assert result.exit_code == 5
    assert "'k1'" in result.stderr
    assert Workload.objects.count() == 1


class AnswerLost(httpx.BaseTransport):
    """The server does as it is told, but the first answers never arrive."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.server = httpx.WSGITransport(app=get_wsgi_application())

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.server.handle_request(request)
        self.losses -= 1
        if self.losses >= 0:
            answer.close()
            raise httpx.ReadError("Connection reset by peer")
        return answer


def test_an_answer_that_is_lost_is_asked_for_again_and_submits_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_AFTER_SECONDS", 0)

    result = run(*NEEDED, transport=AnswerLost(1))

    assert result.stdout == f"{Workload.objects.get().slug}\n"


def test_where_the_answer_stays_away_the_key_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_AFTER_SECONDS", 0)

    result = run(*NEEDED, transport=AnswerLost(2))

    assert result.exit_code == 1
    key = result.stderr.rpartition("--idempotency-key ")[2].strip()
    assert run(*NEEDED, "--idempotency-key", key).stdout == f"{Workload.objects.get().slug}\n"


@pytest.mark.parametrize(("status", "exit_status"), [(Status.COMPLETED, 0), (Status.FAILED, 8)])
def test_waiting_tells_how_it_ended(
    run: Run, monkeypatch: pytest.MonkeyPatch, status: Status, exit_status: int
) -> None:
    asked: list[str] = []

    def ended(_client: object, name: str, *_: object) -> dict[str, str]:
        asked.append(name)
        return {"slug": name, "status": status}

    monkeypatch.setattr(follow, "_wait_for_one", ended)

    assert run(*NEEDED, "--wait").exit_code == exit_status
    assert asked == [Workload.objects.get().slug]


def test_mistakes_of_a_file_are_told_with_their_lines_and_keys_as_written(
    run: Run, ada: User, become: Callable[..., str]
) -> None:
    become(ada)
    text = (
        "name: a\nteam: nlp\nimage: x\n---\n"
        "name: b\nteam: nlp\nimage: x\ntime_limit: 4 fortnights\ngrace: 2d\n---\n"
        "workloads:\n- name: c\n  team: nlp\n  pods: 0\n"
    )
    result = run("submit", "-f", "-", stdin=text)
    assert result.exit_code == 6
    assert result.stderr.splitlines() == [
        "Error: standard input has 4 mistakes:",
        "  line 8: workloads[1].time_limit: '4 fortnights' is not a duration: write seconds, or numbers with w, d, h, "
        "m or s, such as 30m, 4h or 1h 30m.",
        "  line 9: workloads[1].grace is '2d'; at most 1d is allowed.",
        "  line 12: workloads[2].image is missing.",
        "  line 14: workloads[2].pods is 0; at least 1 is allowed.",
    ]


def test_what_cannot_be_read_of_a_file_is_told_with_what_the_server_finds_in_the_rest(
    run: Run, ada: User, become: Callable[..., str]
) -> None:
    become(ada)
    text = (
        "name: 2030-01-31\nteam: nlp\nimage: x\npods: .nan\ngpus: 1.25\nfrobs: 1\n---\n"
        "- b\n---\n"
        "team: elsewhere\nworkloads:\n- {name: c, team: nowhere, image: x}\n"
    )
    result = run("submit", "-f", "-", stdin=text)
    assert (result.exit_code, Workload.objects.count()) == (2, 0)
    told = result.stderr.splitlines()
    assert [line.partition(";")[0] for line in told] == [
        "Error: standard input has 7 mistakes:",
        "  line 1: workloads[0].name is the date 2030-01-31",
        "  line 4: workloads[0].pods is .nan",
        "  line 5: workloads[0].gpus: A pod cannot have 1.25 GPUs: a part of a GPU is 0.25, 0.5 or 0.75, more than one "
        "are whole. The nearest legal values are 1 and 2.",
        "  line 6: workloads[0].frobs: There is no field 'frobs'.",
        "  line 8: workloads[1]: ['b'] is not a workload, which is a mapping.",
        "  line 10: team: there is no 'team' beside workloads, which are all of a document.",
        "  line 12: workloads[2].team: There is no team 'nowhere'.",
    ]
    alone = run("submit", "-f", "-", stdin="name: a\nteam: nlp\nimage: x\nwhen: 2030-01-31\npods: 0\n")
    assert [line.partition(": ")[2] for line in alone.stderr.splitlines()[1:]] == [
        "when is the date 2030-01-31; put quotes around it.",
        "pods is 0; at least 1 is allowed.",
    ]
    fine_but_for_that = run("submit", "-f", "-", stdin="name: 2030-01-31\nteam: nlp\nimage: x\n")
    assert (fine_but_for_that.exit_code, Workload.objects.count()) == (2, 0)


def test_a_single_workload_s_mistake_has_its_line_but_not_that_of_what_a_flag_says(
    run: Run, ada: User, become: Callable[..., str]
) -> None:
    become(ada)
    text = "name: a\nteam: nlp\nimage: x\npods: 2\ntime_limit: 4 fortnights\n"
    told = run("submit", "-f", "-", stdin=text)
    assert told.stderr.startswith(
        "Error: standard input, line 5: time_limit: '4 fortnights' is not a duration"
    )
    flag = run("submit", "-f", "-", "--pods", "0", "--time-limit", "2h", stdin=text)
    assert flag.stderr == "Error: standard input: pods is 0; at least 1 is allowed.\n"
    both = run("submit", "--team", "nlp", "--image", "x", "--time-limit", "4 fortnights")
    assert "  time_limit: '4 fortnights'" in both.stderr or "'4 fortnights' is not a duration" in both.stderr


def test_a_dry_run_tells_the_scheduler_s_answer_and_submits_nothing(run: Run) -> None:
    told = run(*NEEDED, "--gpus", "4", "--dry-run")
    assert told.exit_code == 0, told.stderr
    assert "OUTCOME" in told.stdout.upper()
    rows = json.loads(run(*NEEDED, "--gpus", "4", "--dry-run", "-o", "json").stdout)
    assert [row["name"] for row in rows] == ["train"]
    assert rows[0]["outcome"] in {"starts", "waits"}
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--gpus", "1.25"), 6, "nearest legal values are 1 and 2"),
        (("--class", "trianing"), 6, "There is no job class 'trianing'. Did you mean 'training'?"),
        (("--priority", "hgih"), 6, "There is no priority tier 'hgih'"),
        (("--wait",), 2, "--dry-run submits nothing"),
    ],
)
def test_a_dry_run_refuses_what_a_submission_refuses(
    run: Run, words: tuple[str, ...], code: int, told: str
) -> None:
    result = run(*NEEDED, *words, "--dry-run")
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr


def test_a_limit_of_none_and_returns_are_flags(run: Run) -> None:
    assert run(*NEEDED, "--time-limit", "none", "--max-requeues", "3").exit_code == 0
    workload = Workload.objects.get()
    assert (workload.time_limit_seconds, workload.max_requeues) == (None, 3)
