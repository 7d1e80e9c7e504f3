"""`chamber diff` and `chamber apply`: what a file declares, what of it is other, and that all or nothing is lost."""

import json
from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from agentlink.tests.factories import make_cluster, make_node
from chamber.models import Scope, User
from chamber.tests.cli.conftest import Run
from teams.models import AuditEvent, ClassNarrowing, JobClass, Pool, PriorityTier, Role, Share, Team
from teams.tests.factories import make_team, member, set_share

Become = Callable[..., str]

FILE = """
pools:
  - {slug: main, policy: {elastic_preemption: fair-share}}
  - {slug: spare, name: Spare, node_selector: {zone: b}}
---
teams:
  - slug: speech
    parent: nlp
    shares: {main: {reservation: 2}}
  - {slug: vision, parent: nlp, bursting_priority: 4}
  - slug: nlp
    maximum: 16
    shares: {main: {reservation: 8, maximum: null}, spare: {reservation: 0.5}}
"""


@pytest.fixture
def olga(org: Team) -> User:
    return member(org, Role.ORG_ADMIN, "olga")


@pytest.fixture
def as_olga(run: Run, olga: User, become: Become) -> None:
    become(olga)


@pytest.fixture
def shared(pool: Pool, nlp: Team, vision: Team) -> None:
    set_share(nlp, pool, gpus=4)


@pytest.mark.usefixtures("shared")
def test_a_file_is_made_true_and_then_nothing_differs(run: Run, olga: User, become: Become) -> None:
    become(olga)
    shown = run("diff", "-f", "-", "-o", "json", stdin=FILE)
    assert not Team.objects.filter(slug="speech").exists()

    applied = run("apply", "-f", "-", "-o", "json", stdin=FILE)

    assert (shown.exit_code, applied.exit_code) == (0, 0)
    assert shown.stdout == applied.stdout
    differences = {
        (row["name"], row["field"]): (row["before"], row["after"]) for row in json.loads(shown.stdout)
    }
    assert differences[("nlp", "main reservation")] == (4, 8)
    assert differences[("nlp", "maximum")] == (None, 16)
    assert differences[("main", "policy.elastic_preemption")] == ("priority", "fair-share")
    assert ("nlp", "main maximum") not in differences
    assert Team.objects.get(slug="vision").parent.slug == "nlp"  # type: ignore[union-attr]
    assert Share.objects.get(team__slug="speech").reservation_milli == 2000
    assert Share.objects.get(team__slug="nlp", pool__slug="spare").reservation_milli == 500
    again = run("diff", "-f", "-", "--check", stdin=FILE)
    assert (again.exit_code, again.stderr) == (0, "Nothing differs.\n")


@pytest.mark.usefixtures("shared")
def test_limits_and_shares_are_saved_together_or_not_at_all(run: Run, olga: User, become: Become) -> None:
    become(olga)
    text = "teams: [{slug: nlp, bursting_priority: 3}, {slug: vision, bursting_priority: 30}]"
    result = run("apply", "-f", "-", stdin=text)
    assert result.exit_code == 6
    assert "from 1 to 10, not 30" in result.stderr
    assert Team.objects.get(slug="nlp").bursting_priority == 1
    assert not AuditEvent.objects.filter(action__startswith="team").exists()


@pytest.mark.usefixtures("shared", "as_olga")
@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("teams: [{slug: speech, parent: nlp}, {slug: vision, bursting_priority: 30}]", 6, "not 30"),
        (
            "teams: [{slug: vision, parent: nlp, shares: {main: {reservation: 900}}}]",
            6,
            "the teams below it would be guaranteed 900 GPUs",
        ),
        (
            "teams: [{slug: deep, parent: nlp}, {slug: nlp, parent: deep}]",
            2,
            "no team can be below itself, as in deep below nlp",
        ),
        (
            "teams: [{slug: acme, parent: nlp}]",
            6,
            "teams.acme.parent: Acme is the organisation; it cannot be moved.",
        ),
        (
            "teams: [{slug: speech, parent: elsewhere}]",
            3,
            "teams.speech.parent: There is no team 'elsewhere'",
        ),
        ("teams: [{slug: nlp, parent: elsewhere}]", 3, "teams.nlp.parent: There is no team 'elsewhere'"),
        ("pools: [{slug: Spare}]", 6, "pools.Spare.slug: A short name has 1 to 60 small letters"),
        (
            "pools: [{slug: main, order: 100000}]",
            6,
            "pools.main.order: An order is from 0 to 10,000, not 100000.",
        ),
        ("pools: [{slug: main, policy: {queueing: slow}}]", 6, "slow"),
        (
            "teams: [{slug: nlp, shares: {main: {reservation: many}}}]",
            6,
            "main.reservation is 'many'; it must be a number of GPUs",
        ),
        ("tiers: {high: {priority: 1000001}}", 6, "priority is 1000001; at most 1,000,000 is allowed"),
    ],
)
def test_what_apply_refuses_diff_refuses_and_nothing_of_it_is_done(
    run: Run, text: str, code: int, words: str
) -> None:
    before = AuditEvent.objects.count()
    told = {command: run(command, "-f", "-", stdin=text) for command in ("diff", "apply")}
    assert {result.exit_code for result in told.values()} == {code}, told["diff"].output
    assert words in told["diff"].stderr
    assert told["diff"].stderr == told["apply"].stderr
    assert told["diff"].stdout == ""
    assert AuditEvent.objects.count() == before
    assert not Team.objects.filter(slug="speech").exists()


@pytest.mark.usefixtures("shared", "as_olga")
@pytest.mark.parametrize("command", ["diff", "apply"])
def test_nodes_that_another_pool_picks_are_counted(run: Run, pool: Pool, command: str) -> None:
    cluster = make_cluster()
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "b")):
        make_node(cluster, name, pool=pool, labels={"zone": zone})
    text = "pools: [{slug: spare, order: 0, node_selector: {zone: b}CLUSTERS}, {slug: main, order: 1}]"
    unserved = run("diff", "-f", "-", stdin=text.replace("CLUSTERS", ""))
    assert unserved.stderr.splitlines()[0] == "No node changes its pool."
    assert "Warning: No cluster may serve the pool spare" in unserved.stderr
    text = text.replace("CLUSTERS", ", clusters: [east]")
    result = run(command, "-f", "-", "-o", "json", stdin=text)
    moved = [row for row in json.loads(result.stdout) if row["kind"] == "nodes"]
    assert moved == [{"kind": "nodes", "name": "2", "field": "pool", "before": "main", "after": "spare"}]
    assert "Warning:" not in result.stderr
    assert Pool.objects.filter(slug="spare").exists() == (command == "apply")
    assert run("diff", "-f", "-", stdin="pools: [{slug: main, clusters: [west, lab, east]}]").stdout == ""


@pytest.mark.usefixtures("shared", "as_olga")
def test_it_says_that_no_node_moves_and_what_is_promised_above_capacity(run: Run, pool: Pool) -> None:
    make_node(make_cluster(), "n1", pool=pool, labels={"zone": "b"})
    quiet = run("diff", "-f", "-", stdin="pools: [{slug: main, order: 7}]")
    assert (quiet.exit_code, quiet.stderr) == (0, "No node changes its pool.\n")
    taken = run("diff", "-f", "-", stdin="pools: [{slug: main, node_selector: {zone: c}}]")
    assert taken.stdout.splitlines()[-1].split() == ["nodes", "1", "pool", "main", "none"]
    assert taken.stderr == (
        "Warning: 4 GPUs of Main are guaranteed, and its nodes have 0 GPUs: 4 GPUs are promised that are not there.\n"
    )


@pytest.mark.usefixtures("shared", "as_olga")
def test_a_team_that_moves_with_the_one_above_it_is_edited_too(run: Run, org: Team, nlp: Team) -> None:
    make_team(nlp, "Speech")
    make_team(org, "Lab")
    text = "teams: [{slug: nlp, parent: lab}, {slug: speech, bursting_priority: 3}]"
    result = run("apply", "-f", "-", stdin=text)
    assert (result.exit_code, result.stderr) == (0, "")
    assert Team.objects.get(slug="speech").bursting_priority == 3


def test_an_edit_of_a_team_that_somebody_changed_is_a_conflict(olga: User, nlp: Team) -> None:
    client = APIClient()
    client.force_authenticate(olga)
    edits = [{"team": "nlp", "version": 7, "bursting_priority": 3}]
    answer = client.post("/api/v1/declared/", {"edits": edits}, format="json")
    assert answer.status_code == 412
    assert "you edited version 7, and it is at 1 now" in answer.json()["detail"]
    nlp.refresh_from_db()
    assert nlp.bursting_priority == 1


@pytest.mark.usefixtures("shared")
def test_what_differs_can_be_asked_for_by_a_script(run: Run, olga: User, become: Become) -> None:
    become(olga)
    result = run("diff", "-f", "-", "--check", stdin="teams: [{slug: nlp, bursting_priority: 3}]")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].split() == ["team", "nlp", "bursting_priority", "1", "3"]


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            "teams: [{slug: nlp, burst: 3}]",
            (2, "nlp.burst: there is no 'burst' here; known are slug, parent,"),
        ),
        ("teams: [{name: NLP}]", (2, "is a mapping with a slug")),
        ("teams: {nlp: 3}", (2, "teams must be a list")),
        ("teams: [{slug: nlp}, {slug: nlp}]", (2, "the team nlp comes twice")),
        ("pools: [{slug: main}]\n---\npools: [{slug: main}]", (2, "the pool main comes twice")),
        (
            "tiers: {a: {priority: 1}}\n---\ntiers: {a: {priority: 2}}",
            (2, "the tier a comes twice"),
        ),
        ("teams: [{slug: nlp, shares: [main]}]", (2, "nlp.shares must be a mapping")),
        (
            "teams: [{slug: nlp, shares: {main: {gpus: 3}}}]",
            (2, "nlp.shares.main.gpus: there is no 'gpus' here"),
        ),
        ("pools: [{slug: main, policy: [strict]}]", (2, "main.policy must be a mapping, not ['strict']")),
        (
            "workloads: []",
            (2, "line 1: workloads: there is no 'workloads' here; known are pools, teams, tiers"),
        ),
        ("- nlp", (2, "give pools and teams, each a list")),
        ("", (2, "declares no pools and no teams")),
        ("teams: [", (2, "line 1")),
        ("teams: [{slug: nlp, shares: {elsewhere: {reservation: 1}}}]", (3, "There is no pool 'elsewhere'")),
        (
            "teams: [{slug: nobody}]",
            (3, "There is no team 'nobody' that you may see; to make it, name its parent."),
        ),
    ],
)
def test_what_a_file_cannot_say_is_a_sentence(
    run: Run, olga: User, become: Become, text: str, answer: tuple[int, str]
) -> None:
    become(olga)
    for command in ("diff", "apply"):
        result = run(command, "-f", "-", stdin=text)
        assert result.exit_code == answer[0]
        assert answer[1] in result.stderr


@pytest.mark.usefixtures("shared")
def test_who_may_not_change_a_team_changes_nothing(run: Run, ada: User, become: Become) -> None:
    become(ada)
    result = run("apply", "-f", "-", stdin="teams: [{slug: nlp, bursting_priority: 3}]")
    assert result.exit_code == 4
    assert "are changed by an admin above NLP" in result.stderr


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("who", "told"),
    [
        ((Role.ORG_ADMIN, Scope.READ), ["The token's scope is 'read'; this needs 'manage'."]),
        (
            (Role.VIEWER, Scope.ADMIN),
            [
                "pool main: Your role does not let you change pools.",
                "team nlp: The limits and reservations of NLP are changed by an admin above NLP.",
            ],
        ),
    ],
)
def test_diff_only_reads_and_says_what_may_not_be_changed(
    run: Run, org: Team, become: Become, who: tuple[Role, Scope], told: list[str]
) -> None:
    become(member(org, who[0], "rolf"), who[1])
    text = "pools: [{slug: main, order: 7}]\nteams: [{slug: nlp, bursting_priority: 3}]"
    shown = run("diff", "-f", "-", "--check", stdin=text)
    assert shown.exit_code == 1, shown.stderr
    assert [line.split()[2] for line in shown.stdout.splitlines()[1:]] == ["order", "bursting_priority"]
    lines = shown.stderr.splitlines()
    assert lines == ["Applying it needs rights that you do not have:", *(f"  {line}" for line in told)]
    assert run("diff", "-f", "-", stdin=text).exit_code == 0
    refused = run("apply", "-f", "-", stdin=text)
    assert (refused.exit_code, told[0] in refused.stderr) == (4, True)
    assert not AuditEvent.objects.exclude(action="token.created").exists()


@pytest.mark.usefixtures("shared")
def test_diff_does_not_check_what_may_not_be_changed_as_its_help_says(
    run: Run, org: Team, become: Become
) -> None:
    set_share(org, Pool.objects.get(slug="main"), gpus=100)
    become(member(org, Role.VIEWER, "rolf"), Scope.READ)
    too_much = "teams: [{slug: nlp, shares: {main: {reservation: 5000}}}]"
    assert run("diff", "-f", "-", stdin=too_much).exit_code == 0
    become(member(org, Role.ORG_ADMIN, "olga2"), Scope.ADMIN)
    assert run("diff", "-f", "-", stdin=too_much).exit_code == 6
    told = " ".join(run("diff", "--help").stdout.split())
    assert "not checked against what teams above have to give" in told


@pytest.mark.usefixtures("shared", "as_olga")
def test_a_file_is_right_where_its_end_is_though_no_order_of_its_parts_would_be(run: Run, nlp: Team) -> None:
    set_share(Team.objects.get(slug="vision"), Pool.objects.get(slug="main"), gpus=5)
    text = "teams: [{slug: vision, parent: nlp}, {slug: nlp, shares: {main: {reservation: 6}}}]"
    for command in ("diff", "apply"):
        result = run(command, "-f", "-", stdin=text)
        assert result.exit_code == 0, result.stderr
    assert Team.objects.get(slug="vision").parent == nlp


@pytest.mark.usefixtures("shared")
def test_a_parent_may_stand_after_its_children(run: Run, olga: User, become: Become) -> None:
    become(olga)
    text = "teams: [{slug: deep, parent: lab}, {slug: nlp, parent: lab}, {slug: lab, parent: acme}]"
    result = run("apply", "-f", "-", stdin=text)
    assert result.exit_code == 0, result.stderr
    parents = Team.objects.filter(slug__in=["deep", "nlp", "lab"]).values_list("slug", "parent__slug")
    assert dict(parents) == {"deep": "lab", "nlp": "lab", "lab": "acme"}


def test_a_circle_of_parents_is_refused(run: Run, olga: User, become: Become) -> None:
    become(olga)
    result = run(
        "apply", "-f", "-", stdin="teams: [{slug: a, parent: b}, {slug: b, parent: c}, {slug: c, parent: a}]"
    )
    assert result.exit_code == 2
    assert "no team can be below itself, as in a below b below c below a." in result.stderr
    assert not Team.objects.filter(slug__in=["a", "b", "c"]).exists()


CLASSES = """\
tiers:
  high: {least_role: lead, priority_classes: [training-high]}
  urgent: {priority: 90}
job_classes:
  training: {time_limit: 12h, max_retries: 3}
  sweep: {tier: urgent, time_limit: none}
"""


def test_tiers_and_classes_are_made_true_value_by_value(
    run: Run, org: Team, olga: User, become: Become
) -> None:
    become(olga)
    shown = run("diff", "-f", "-", "-o", "json", stdin=CLASSES)
    assert not PriorityTier.objects.filter(slug="urgent").exists()
    applied = run("apply", "-f", "-", "-o", "json", stdin=CLASSES)
    assert (applied.exit_code, applied.stderr) == (0, "")
    assert applied.stdout == shown.stdout
    assert [
        (row["kind"], row["name"], row["field"], row["before"], row["after"])
        for row in json.loads(applied.stdout)
    ] == [
        ("tier", "high", "least_role", "researcher", "lead"),
        ("tier", "high", "priority_classes", [], ["training-high"]),
        ("tier", "urgent", "", None, "new"),
        ("tier", "urgent", "priority", None, 90),
        ("job class", "training", "max_retries", 1, 3),
        ("job class", "training", "time_limit_seconds", 86400, 43200),
        ("job class", "sweep", "", None, "new"),
        ("job class", "sweep", "tier", None, "urgent"),
        ("job class", "sweep", "time_limit_seconds", None, None),
    ]
    sweep = JobClass.objects.select_related("tier").get(slug="sweep")
    assert (sweep.tier.priority, sweep.time_limit_seconds, sweep.name) == (90, None, "Sweep")
    assert JobClass.objects.get(slug="training").time_limit_seconds == 43200
    check = run("diff", "-f", "-", "--check", stdin=CLASSES)
    assert (check.exit_code, check.stderr) == (0, "Nothing differs.\n")


def test_what_a_team_narrows_is_made_true_value_by_value(
    run: Run, nlp: Team, olga: User, become: Become
) -> None:
    become(olga)
    text = "teams: [{slug: nlp, job_classes: {training: {time_limit: 2h, max_retries: 0}}}]"
    applied = run("apply", "-f", "-", "-o", "json", stdin=text)
    assert (applied.exit_code, applied.stderr) == (0, "")
    assert [(row["field"], row["before"], row["after"]) for row in json.loads(applied.stdout)] == [
        ("training max_retries", None, 0),
        ("training time_limit_seconds", None, 7200),
    ]
    more = "teams: [{slug: nlp, job_classes: {training: {time_limit: none, sharing: never}}}]"
    assert run("apply", "-f", "-", stdin=more).exit_code == 0
    own = ClassNarrowing.objects.get(team=nlp)
    assert (own.time_limit_seconds, own.max_retries, own.sharing) == (None, 0, "never")
    assert run("diff", "-f", "-", "--check", stdin=more).exit_code == 0
    wider = run("apply", "-f", "-", stdin="teams: [{slug: nlp, job_classes: {training: {max_retries: 5}}}]")
    assert wider.exit_code == 6
    assert "line 1: teams.nlp.job_classes.training.max_retries: 5 retries are more than 1" in wider.stderr
    new = "teams: [{slug: lab, parent: nlp, job_classes: {serving: {tier: low}}}]"
    assert run("apply", "-f", "-", stdin=new).exit_code == 0
    assert ClassNarrowing.objects.get(team__slug="lab").tier == PriorityTier.objects.get(slug="low")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("teams: [{slug: nlp, job_classes: {nix: {tier: low}}}]", 3, "There is no job class 'nix'"),
        ("teams: [{slug: nlp, job_classes: {training: {colour: red}}}]", 2, "there is no 'colour' here"),
        ("teams: [{slug: nlp, job_classes: [training]}]", 2, "must be a mapping"),
        ("tiers: [high]", 2, "must be a mapping"),
        ("tiers: {high: 3}", 2, "high must be a mapping with name, priority,"),
        ("tiers: {Urgent: {priority: 5}}", 6, "A tier is called by 1 to 40 small letters"),
        ("tiers: {urgent: {}}", 6, "priority is missing: urgent is new."),
        ("tiers: {urgent: {priority: 50}}", 6, "Normal has the priority 50 already."),
        ("tiers: {normal: {retired: true}}", 5, "Normal is the tier of the job class Training"),
        ("job_classes: {sweep: {tier: hgih}}", 6, "There is no tier 'hgih'. Did you mean 'high'?"),
        ("job_classes: {serving: {tier: low, max_retries: 101}}", 6, "max_retries is 101; at most 100"),
        ("job_classes: {experiment: {retired: true}}", 5, "cannot be retired: make another class"),
    ],
)
@pytest.mark.usefixtures("as_olga", "nlp")
def test_classes_that_cannot_be_are_refused_and_nothing_is_done(
    run: Run, text: str, code: int, words: str
) -> None:
    before = AuditEvent.objects.count()
    refused = run("apply", "-f", "-", stdin=text)
    assert (refused.exit_code, words in refused.stderr) == (code, True), refused.stderr
    assert AuditEvent.objects.count() == before


def test_nobody_but_an_organisation_admin_changes_classes(run: Run, nlp: Team, become: Become) -> None:
    become(member(nlp, Role.ADMIN, "nora"))
    refused = run("apply", "-f", "-", stdin=CLASSES)
    assert refused.exit_code == 4, refused.stderr
    assert "are changed by organisation admins" in refused.stderr
    assert not PriorityTier.objects.filter(slug="urgent").exists()


MISTAKES = """\
pools:
  - slug: main
    order: soon
    policy:
      queueing: slow
      max_preemptions: 5000
  - slug: Spare
teams:
  - slug: nlp
    burst_limit_percent: -3
    bursting_priority: 4.5
    shares:
      main: {reservation: 1e30}
      elsewhere: {reservation: 1}
  - slug: vision
    maximum: 2000001
    shares:
      main:
        reservation: -1
  - slug: nobody
  - slug: speech
    parent: nlp
    bursting_priority: 30
  - slug: below
    parent: speech
---
tiers:
  high: {priority: 1000001}
"""
TOLD = [
    "  line 3: pools.main.order is 'soon'; it must be a whole number.",
    "  line 5: 'slow' is not allowed for queueing; allowed are 'strict-fifo', 'best-effort-fifo' or 'backfill'.",
    "  line 6: max_preemptions is 5000; at most 1,000 is allowed.",
    "  line 7: A short name has 1 to 60 small letters, digits and single hyphens; 'Spare' does not.",
    "  line 10: A burst limit is from 0 (no bursting) to 1,000,000 %, or empty for none; not -3 %.",
    "  line 11: bursting_priority is 4.5; it must be a whole number.",
    "  line 13: reservation is '1e30'; it must be a number of GPUs of at most 1,000,000, in steps of 0.001.",
    "  line 14: There is no pool 'elsewhere', in which nlp is to have a share.",
    "  line 16: maximum is 2000001; it must be a number of GPUs of at most 1,000,000, in steps of 0.001.",
    "  line 19: A reservation is from 0 to 1,000,000 GPUs, not -1 GPU.",
    "  line 20: There is no team 'nobody' that you may see; to make it, name its parent.",
    "  line 23: A bursting priority is a whole number from 1 to 10, not 30.",
    "  line 28: priority is 1000001; at most 1,000,000 is allowed.",
]


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("role", [Role.ORG_ADMIN, Role.VIEWER])
def test_all_mistakes_are_told_at_once_with_their_lines_whoever_asks(
    run: Run, org: Team, become: Become, role: Role
) -> None:
    become(member(org, role, "olga"))
    for command in ("diff", "apply"):
        result = run(command, "-f", "-", stdin=MISTAKES)
        assert result.exit_code in {4, 6}, result.stderr
        assert result.stdout == ""
        for line in TOLD:
            number, _, text = line.partition(": ")
            told = [each for each in result.stderr.splitlines() if each.startswith(f"{number}: ")]
            assert len(told) == 1, (line, result.stderr)
            assert told[0].endswith(text), result.stderr
        assert result.stderr.count("\n  line ") == len(TOLD), result.stderr
        rights = "Applying it needs rights that you do not have:\n  job classes"
        assert (rights in result.stderr) == (role == Role.VIEWER), result.stderr
    assert not AuditEvent.objects.exclude(action="token.created").exists()


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pools: [{slug: main, order: -1}]", "pools.main.order: An order is from 0 to 10,000, not -1."),
        (
            "pools: [{slug: new, policy: {min_runtime_seconds: -1}}]",
            "pools.new.policy.min_runtime_seconds is -1; at least 0 is allowed.",
        ),
        (
            "teams: [{slug: nlp, maximum: 1, shares: {main: {reservation: 2}}}]",
            "teams.nlp.shares.main.reservation: NLP's reservation of 2 GPUs in Main is above its maximum of 1 GPU.",
        ),
        ("teams: [{slug: nlp, name: ''}]", "teams.nlp.name is ''; it may not be empty."),
        ("tiers: {x: {priority: 1, priority_classes: [Training]}}", "is no name of a PriorityClass"),
    ],
)
def test_who_may_only_read_is_told_of_values_that_cannot_be(
    run: Run, org: Team, become: Become, text: str, told: str
) -> None:
    become(member(org, Role.VIEWER, "rolf"))
    result = run("diff", "-f", "-", stdin=text)
    assert (result.exit_code, result.stdout) == (6, ""), result.stderr
    assert told in result.stderr


@pytest.mark.usefixtures("shared", "as_olga")
def test_a_new_pool_and_a_new_team_are_shown_with_what_the_file_says_of_them(run: Run) -> None:
    text = (
        "pools: [{slug: spare, order: 3, node_selector: {zone: b}, policy: {queueing: strict-fifo}}]\n"
        "teams: [{slug: speech, parent: nlp, bursting_priority: 3}]"
    )
    shown = run("diff", "-f", "-", "-o", "json", stdin=text)
    rows = {(row["name"], row["field"]): row["after"] for row in json.loads(shown.stdout)}
    assert rows == {
        ("spare", ""): "new",
        ("spare", "order"): 3,
        ("spare", "node_selector"): {"zone": "b"},
        ("spare", "policy.queueing"): "strict-fifo",
        ("speech", ""): "new, below nlp",
        ("speech", "bursting_priority"): 3,
    }


FORM = """\
teams:
  - slug: nlp
    burst: 3
    burst: 4
    maximum: .inf
    bursting_priority: 30
    shares: {elsewhere: {reservation: 1}, main: 3, spare: {gpus: 2}}
  - name: x
  - {slug: deep, parent: without-a-name}
---
workloads: []
pools:
  main: 3
tiers:
  a: high
  b: {priority: 1000001}
  c: {priority: 2030-01-31, colour: red}
job_classes:
  d: {tier: low, time_limit: soon}
"""
FORM_TOLD = [
    "  line 4: teams.nlp.burst is given again.",
    "  line 5: teams.nlp.maximum is .inf; it must be a number that ends.",
    "  line 6: teams.nlp.bursting_priority: A bursting priority is a whole number from 1 to 10, not 30.",
    "  line 7: teams.nlp.shares.main must be a mapping with reservation and maximum, not 3.",
    "  line 7: teams.nlp.shares.spare.gpus: there is no 'gpus' here; known are reservation, maximum.",
    "  line 8: teams[1]: each of teams is a mapping with a slug, not {'name': 'x'}.",
    "  line 11: workloads: there is no 'workloads' here; known are pools, teams, tiers, job_classes, sign_in.",
    "  line 12: pools must be a list, not {'main': 3}.",
    "  line 15: tiers.a must be a mapping with name, priority, least_role, priority_classes, retired; not 'high'.",
    "  line 16: tiers.b.priority is 1000001; at most 1,000,000 is allowed.",
    "  line 17: tiers.c.priority is the date 2030-01-31; put quotes around it.",
    "  line 17: tiers.c.colour: there is no 'colour' here; known are name, priority, least_role, priority_classes, "
    "retired.",
    "  line 19: job_classes.d.time_limit: 'soon' is not a duration: write seconds, or numbers with w, d, h, m or s, "
    "such as 30m, 4h or 1h 30m.",
]


@pytest.mark.usefixtures("shared", "as_olga")
def test_mistakes_of_a_file_s_form_are_told_at_once_with_what_else_is_wrong(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("diff", "apply"):
        result = run(command, "-f", "-", stdin=FORM)
        assert result.exit_code == 2
        assert result.stderr.splitlines() == [
            f"Error: standard input has {len(FORM_TOLD)} mistakes:",
            *FORM_TOLD,
        ]
    monkeypatch.delenv("CHAMBER_TOKEN")
    signed_out = run("diff", "-f", "-", stdin=FORM).stderr
    assert signed_out.splitlines()[1:] == [
        line for line in FORM_TOLD if "1,000,000" not in line and " 30." not in line
    ]


@pytest.mark.usefixtures("shared", "as_olga")
def test_a_reservation_may_be_any_thousandth_of_a_gpu(run: Run, nlp: Team) -> None:
    text = "teams: [{slug: nlp, shares: {main: {reservation: %s}}}]"
    assert run("apply", "-f", "-", stdin=text % "2.143").exit_code == 0
    assert Share.objects.get(team=nlp).reservation_milli == 2143
    finer = run("apply", "-f", "-", stdin=text % "2.1434")
    assert (finer.exit_code, "reservation is 2.1434; it must be a number of GPUs" in finer.stderr) == (
        6,
        True,
    )
    for endless in (".nan", ".inf", "-.inf"):
        result = run("apply", "-f", "-", stdin=text % endless)
        sentence = f"line 1: teams.nlp.shares.main.reservation is {endless}; it must be a number that ends."
        assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr


@pytest.mark.usefixtures("shared")
def test_peak_hours_of_a_pool_are_made_true_or_refused_with_their_line(
    run: Run, olga: User, become: Become, pool: Pool
) -> None:
    become(olga)
    hours = "{peak_hours: [mon-fri 08:00-18:00], peak_zone: Europe/Berlin, peak_max_gpus: 16}"
    assert run("apply", "-f", "-", stdin=f"pools:\n  - {{slug: main, policy: {hours}}}\n").exit_code == 0
    pool.refresh_from_db()
    assert (pool.rules.peak_hours, pool.rules.peak_max_gpus) == (["mon-fri 08:00-18:00"], 16)
    classes = "{peak_classes: [training, experiment, training]}"
    for differs in ("policy.peak_classes", "Nothing differs."):
        result = run("apply", "-f", "-", stdin=f"pools:\n  - {{slug: main, policy: {classes}}}\n")
        assert differs in result.stdout + result.stderr
    wrong = hours.replace("08:00-18:00", "8-18")
    refused = run("apply", "-f", "-", stdin=f"pools:\n  - {{slug: main, policy: {wrong}}}\n")
    assert refused.exit_code == 6
    assert "'mon-fri 8-18' are no hours" in refused.stderr
    assert "line 2" in refused.stderr.lower()
