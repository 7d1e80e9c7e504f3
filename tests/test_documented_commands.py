"""Every shell block of README and docs/ is run here, or listed with the reason why it is not."""

import gzip
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from rig import servers
from rig.deployment import ROOT, Deployment
from rig.organisation import PASSWORD
from tests.documented import Block, Machine, blocks, commands, run, script
from tests.proxies import certificate

OPERATIONS, CLI, PEOPLE = "docs/operations.md", "docs/cli.md", "docs/people.md"
CHECKPOINTS = "docs/checkpoints.md"
DOCKER = "needs a Docker daemon; tests/test_deployment.py runs the file's commands as processes"
KUBERNETES = "needs a cluster that keeps what is installed; tests/test_chart.py renders and runs the chart"
SERVICES = "needs systemd as process 1; tests/test_deployment_rolling.py replaces the processes one by one"

NOT_HERE = {
    "README.md: make demo": "runs until Ctrl-C; tests/test_demo.py runs it",
    "README.md: make test": "would run this very test",
    "docs/people.md: chamber audit verify": "of a trail that was changed; chamber/tests/cli/test_audit.py changes one",
    "docs/kubernetes.md: docker build --file deploy/Dockerfile --tag registry.example.org/chamber:0.2.0 .": DOCKER,
    "docs/kubernetes.md: helm upgrade --install chamber-agent deploy/chart --namespace chamber-agent"
    " --create-namespace --values agent.yaml": KUBERNETES,
    "docs/kubernetes.md: kubectl create namespace chamber": KUBERNETES,
    "docs/kubernetes.md: helm upgrade --install chamber deploy/chart --namespace chamber"
    " --values server.yaml": KUBERNETES,
    "docs/kubernetes.md: .venv/bin/python -m rig.kubernetes /tmp/cluster": (
        "runs until Ctrl-C, and needs what `make kube` builds; tests/test_kubernetes_rig.py runs it"
    ),
    "docs/releasing.md: CHAMBER_TEST_RECORD=agentlink/tests/fixtures .venv/bin/python -m pytest"
    " agentlink/tests/test_recording.py": "writes into the repository, and tags it; the recording is a test itself",
    f"{OPERATIONS}: cd deploy": DOCKER,
    f"{OPERATIONS}: docker compose up --detach --build": DOCKER,
    f"{OPERATIONS}: docker compose build && docker compose run --rm migrate": DOCKER,
    f"{OPERATIONS}: docker compose stop web web-2 live live-2 worker scheduler beat": DOCKER,
    f"{OPERATIONS}: sudo apt-get install --yes git openssl nginx postgresql redis-server python3-venv": (
        "asks registries for packages and a server for the code; .ci/run sets a bare machine up"
    ),
    f"{OPERATIONS}: sudo systemctl start chamber-migrate": SERVICES,
    f"{OPERATIONS}: kubectl get jobs,pods,services --selector chamber.internal/workload=0190c6f2-..."
    " --label-columns chamber.internal/pod": KUBERNETES,
    f'{OPERATIONS}: kubectl annotate --overwrite job/train chamber.internal/retry="$(date +%s)"': KUBERNETES,
    f'{CHECKPOINTS}: curl --silent --show-error --max-time 5 "$CHAMBER_NOTES_URL" \\\n'
    '    --header "Authorization: Bearer $CHAMBER_NOTES_TOKEN" --header "Content-Type: application/json" \\\n'
    '    --data \'{"checkpoint": {"step": 1200}, "progress": 0.42, "links": {"wandb": '
    '"https://wandb.example/run/7"}}\'': "runs in a pod; workloads/tests/test_api_notes.py says the same",
    f'{CHECKPOINTS}: kubectl annotate --overwrite job/train chamber.internal/checkpoint="step=1200'
    ' at=$(date -u +%FT%TZ)"': KUBERNETES,
    f"{OPERATIONS}: kubectl annotate node gpu-7 chamber.internal/drain-elastic-at=now"
    " chamber.internal/drain-reserved-at=2026-12-01T18:00:00Z": KUBERNETES,
}
"""Blocks that cannot be run here, by page and first command, with the reason."""

ON_A_MACHINE = [
    f"{OPERATIONS}: {first}"
    for first in (
        "sudo install --directory --mode 750 --owner chamber --group chamber /var/lib/chamber /var/backups/chamber",
        "sudo -u postgres createuser chamber",
        "sudo chamber-server migrate",
        "sudo install --mode 644 /opt/chamber/deploy/systemd/chamber*.service"
        " /opt/chamber/deploy/systemd/chamber*.t* /etc/systemd/system/",
        "sudo install --directory --mode 700 /etc/nginx/tls",
        "sudo chamber-server doctor",
        "sudo systemctl start chamber-backup",
        "sudo systemctl stop chamber.target",
    )
]
WITH_A_SERVER = [
    "README.md: .venv/bin/chamber login --url http://127.0.0.1:8000 --username rosa",
    "docs/api.md: curl -s $URL/api/v1/login/ -H 'Content-Type: application/json' \\\n"
    '    -d \'{"username": "ada", "password": "…", "name": "nightly job", "scope": "submit", "expires_in_days": 30}\'',
    f"{CLI}: chamber login --url https://chamber.example.org",
    f"{CLI}: chamber submit --team nlp --image registry.example/train:3 --gpus 1 --pods 2"
    " -- python train.py --epochs 3",
    f"{CLI}: chamber submit -f workloads.yaml --priority high",
    f"{CLI}: chamber list --status pending --all -o name | xargs --no-run-if-empty chamber cancel",
    f'{PEOPLE}: chamber people add ada --name "Ada Lovelace" --team nlp --role researcher --no-mail',
    f'{PEOPLE}: curl -s $URL/api/v1/people/ -H "Authorization: Bearer $TOKEN"'
    " -H 'Content-Type: application/json' \\\n"
    """    -d '{"username": "bob", "name": "Bob Noyce", "team": "nlp", "role": "viewer", "mail": false}'""",
    f'{PEOPLE}: chamber service-accounts create ci --team nlp --role researcher --description "GitLab, group nlp"',
    f"{PEOPLE}: chamber audit --who ada --since 2030-01-31",
]
BY_ITSELF = [
    "README.md: .venv/bin/chamber simulate my-organisation.yaml",
    f'{CLI}: eval "$(_CHAMBER_COMPLETE=bash_source chamber)"          # bash: ~/.bashrc',
    "docs/scenarios.md: .venv/bin/chamber simulate my-organisation.yaml",
    "docs/simulate.md: chamber simulate organisation.yaml",
    "docs/simulate.md: chamber simulate organisation.yaml --format json > before.json",
    "docs/simulate.md: chamber simulate organisation.yaml --trace jobs.csv.gz --until 30d --interval 30s",
]

BY_NAME = {block.name: block for block in blocks()}


def test_every_block_is_run_or_listed_with_a_reason() -> None:
    names = [block.name for block in blocks()]
    assert len(names) == len(BY_NAME), "two blocks of a page begin alike: name them apart"
    listed = [*NOT_HERE, *ON_A_MACHINE, *WITH_A_SERVER, *BY_ITSELF]
    assert sorted(listed) == sorted(names)


def test_no_page_hides_commands_in_blocks_without_a_language() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert (
            re.findall(r"^    (?:\$ |chamber |\.venv/|make |kubectl |sudo ).*", outside, re.MULTILINE) == []
        )
        assert (
            re.findall(r"^```\n", re.sub(r"^```\w+\n.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
            == []
        )


def test_a_command_goes_on_after_a_backslash_and_output_is_none() -> None:
    assert commands("$ one \\\n    two\nprinted\n$ three\n") == ["one \\\n    two", "three"]


# A machine by hand


class Guarded(servers.PostgreSQL):
    """As a distribution sets it up: everybody has a password, and Chamber's role is nobody special."""

    PASSWORD = "postgres-own-password"

    def url_of(self, database: str) -> str:
        """Return the URL of a database, for the superuser."""
        return f"postgresql://postgres:{self.PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        """Make the cluster's files and start it; databases are made by the page's own commands."""
        user = self.user()
        secret = self.folder / "password"
        secret.write_text(self.PASSWORD)
        if user is not None:
            shutil.chown(self.folder, user)
            shutil.chown(secret, user)
        words = ["-D", str(self._data), "-U", "postgres", "-A", "scram-sha-256", f"--pwfile={secret}"]
        words += ["--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        subprocess.run(
            [str(self._programs / "initdb"), *words],
            user=user,
            cwd=self.folder,
            check=True,
            capture_output=True,
        )
        self.start()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Machine, Guarded]]:
    monkeypatch.setattr(servers, "PostgreSQL", Guarded)
    with servers.postgresql() as database, servers.redis() as redis:
        assert isinstance(database, Guarded)
        yield Machine(tmp_path, database, redis, Guarded.PASSWORD), database


def value(url: str, query: str) -> list[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return [str(row[0]) for row in connection.execute(query.encode()).fetchall()]


@pytest.mark.postgres
@pytest.mark.redis
@pytest.mark.nginx
def test_the_page_for_operators_sets_a_machine_up_backs_it_up_and_restores_it(
    machine: tuple[Machine, Guarded],
) -> None:
    here, database = machine
    folders, role, tables, units, proxy, doctor, backup, restore = (BY_NAME[name] for name in ON_A_MACHINE)
    here.run(folders)
    secrets = here.root / "etc/chamber"
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets.iterdir()} == {0o640}
    environment = (secrets / "environment").read_text()
    assert "CHAMBER_HOSTS=gpus.example.org\n" in environment
    assert "#CHAMBER_MAIL_FROM=Chamber <chamber@example.org>\n" in environment
    here.run(role)
    # Restarted by nobody here, the server is told what the page wrote for it.
    [line] = (here.root / "etc/redis/redis.conf").read_text().splitlines()
    with redis.Redis(port=here.redis_port) as server:
        server.config_set(*line.split())
    answers = " --organisation Acme --username olga --password-stdin <<< 'difference engine'"
    here.run(tables, {"chamber-server setup": f"chamber-server setup{answers}"})
    here.run(units)
    installed = {path.name for path in (here.root / "etc/systemd/system").iterdir()}
    assert {
        "chamber-web@.service",
        "chamber-migrate.service",
        "chamber.target",
        "chamber-backup.timer",
    } <= installed
    certificate(here.home)
    (here.home / "chamber.crt").rename(here.home / "fullchain.pem")
    (here.home / "chamber.key").rename(here.home / "privkey.pem")
    here.run(proxy)
    # Its processes do not run here, which the doctor says; it finds no fault with settings, database and Redis.
    said = here.run(doctor, {"chamber-server doctor": "chamber-server doctor --json || true"})
    faults = set(re.findall(r'"check": "([a-z-]+)"', said))
    assert "secret" in said
    assert not faults & {
        "secret",
        "hosts",
        "tls",
        "proxies",
        "names",
        "database",
        "migrations",
        "tables",
        "redis",
    }
    here.run(backup)

    url = database.url_of("chamber")
    # By this alone it can tell, as the user that it has, how full the disk is.
    assert value(url, "SELECT pg_has_role('chamber', 'pg_read_all_settings', 'USAGE')") == ["True"]
    before = value(url, "SELECT name FROM teams_team")
    value(url, "UPDATE teams_team SET name = 'Changed since' RETURNING name")
    here.run(restore)

    assert value(url, "SELECT name FROM teams_team") == before == ["Acme"]
    owners = (
        "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    )
    assert value(url, owners) == ["chamber"]
    assert value(database.url_of("chamber_before"), "SELECT name FROM teams_team") == ["Changed since"]
    calls = here.calls.read_text().splitlines()
    assert calls[-2:] == ["stop chamber.target", "start chamber.target"]


@pytest.mark.postgres
@pytest.mark.redis
def test_backups_are_whole_or_have_no_name_and_the_newest_are_kept(
    machine: tuple[Machine, Guarded], tmp_path: Path
) -> None:
    here, _ = machine
    for name in ON_A_MACHINE[:2]:
        here.run(BY_NAME[name])
    folder = here.root / "var/backups/chamber"
    for day in (1, 2, 3):
        (folder / f"chamber-2020010{day}T000000Z.dump").write_text("old")
    program = [str(here.root / "opt/chamber/deploy/backup.sh"), str(folder)]
    said = dict(
        line.split("=", 1)
        for line in (here.root / "etc/chamber/environment").read_text().splitlines()
        if line.startswith("CHAMBER_")
    )
    environment = {**here.environment, **said, "CHAMBER_BACKUPS_KEPT": "2"}

    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept = sorted(path.name for path in folder.iterdir())
    assert kept[0] == "chamber-20200103T000000Z.dump"
    assert len(kept) == 2
    assert stat.S_IMODE((folder / kept[1]).stat().st_mode) == 0o600

    away = {**environment, "CHAMBER_DATABASE": "postgresql://chamber@127.0.0.1:1/chamber"}
    failed = subprocess.run(program, env=away, capture_output=True, text=True, check=False)
    assert failed.returncode != 0
    assert sorted(path.name for path in folder.iterdir() if path.suffix == ".dump") == kept


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.postgres
@pytest.mark.redis
def test_systemd_takes_the_units(machine: tuple[Machine, Guarded]) -> None:
    here, _ = machine
    units = sorted((here.root / "opt/chamber/deploy/systemd").glob("chamber*.[st]*"))
    assert len(units) == 9
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, units)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "chamber" in line]
    assert complaints == []


def test_each_process_of_the_compose_file_has_a_unit_with_its_command() -> None:
    folder = ROOT / "deploy/systemd"
    found = {
        path.stem.removeprefix("chamber-").rstrip("@"): path.read_text() for path in folder.glob("*.service")
    }
    commands_of = {name: re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE) for name, text in found.items()}
    program = "/opt/chamber/.venv/bin/chamber"
    assert commands_of == {
        "web": [f"{program} serve --part web --port %i"],
        "live": [f"{program} serve --part live --port %i"],
        "worker": [f"{program} worker --queue duties"],
        "scheduler": [f"{program} worker --queue scheduling"],
        "beat": [f"{program} beat"],
        "migrate": [f"{program} migrate --wait 60"],
        "backup": ["/opt/chamber/deploy/backup.sh /var/backups/chamber"],
    }
    wanted = re.findall(r"[\w@.-]+\.service", (folder / "chamber.target").read_text())
    named = {unit.removesuffix(".service").removeprefix("chamber-").split("@")[0] for unit in wanted}
    assert named == set(commands_of) - {"backup"}
    ports = re.findall(r"127\.0\.0\.1:(\d+)", (folder / "upstreams.conf").read_text())
    assert {unit.split("@")[1].removesuffix(".service") for unit in wanted if "@" in unit} == set(ports)


# The command line


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that has `chamber`."""
    script(tmp_path / "bin/chamber", f'exec {sys.executable} -m chamber.cli "$@"')
    if shutil.which("jq") is None:
        script(tmp_path / "bin/jq", "exec cat")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}


def by_chamber(block: Block) -> Block:
    """Return the block with `chamber` from the path."""
    return Block(
        block.page, tuple(command.replace(".venv/bin/chamber", "chamber") for command in block.commands)
    )


@pytest.mark.postgres
@pytest.mark.redis
@pytest.mark.usefixtures("mended")
def test_what_the_pages_say_of_the_command_line_works(
    team: Deployment, shell: dict[str, str], tmp_path: Path
) -> None:
    readme, api, login, submit, several, listing, people, by_api, programs, trail = (
        by_chamber(BY_NAME[name]) for name in WITH_A_SERVER
    )
    signed_in = f"--url {team.web_url} --username rosa --password-stdin <<< {PASSWORD}"

    def here(block: Block, **replaced: str) -> str:
        return run(block, environment=shell, folder=tmp_path, replaced=replaced)

    def replacing(block: Block, replaced: dict[str, str]) -> str:
        return run(block, environment=shell, folder=tmp_path, replaced=replaced)

    replacing(login, {"--url https://chamber.example.org": signed_in})
    replacing(
        readme,
        {
            "--url http://127.0.0.1:8000 --username rosa": signed_in,
            "chamber submit": "name=$(chamber submit",
            "sleep 60": "sleep 1)",
            "NAME": "$name",
        },
    )
    shell["URL"] = team.web_url
    answer = replacing(api, {'"ada"': '"rosa"', '"…"': f'"{PASSWORD}"'})
    assert '"token":"chb_' in answer.replace(" ", "")
    followed = replacing(
        submit,
        {
            "chamber submit": "name=$(chamber submit",
            "python train.py --epochs 3": "sleep 1)",
            "train-x7k2qd": "$name",
        },
    )
    assert "Completed" in followed or "completed" in followed
    page = (ROOT / CLI).read_text()
    [file] = [found for found in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "---" in found]
    (tmp_path / "workloads.yaml").write_text(file)
    assert len(here(several).split()) == 2
    here(listing)
    replacing(login, {"--url https://chamber.example.org": signed_in.replace("rosa", "lena")})
    assert here(people).count("/welcome/") == 2
    assert "chs_" in here(programs)
    with team.api("lena") as lead:
        shell["TOKEN"] = lead.headers["Authorization"].removeprefix("Bearer ")
    assert "/welcome/" in here(by_api)
    replacing(login, {"--url https://chamber.example.org": signed_in.replace("rosa", "olga")})
    assert "The chain holds: " in here(trail)


ORGANISATION = """
version: 1
pools:
  - {name: main, topology: [rack], nodes: [{count: 4, name: "n{i}", gpus: 8, labels: {rack: r1}}]}
  - {name: spare, nodes: [{name: s0, gpus: 8}]}
teams:
  - {name: research}
  - {name: guests}
workloads:
  - {name: one, team: research, pool: main, gpus: 1}
"""


def test_what_the_pages_say_of_simulating_works(shell: dict[str, str], tmp_path: Path) -> None:
    for name in ("my-organisation.yaml", "organisation.yaml", "draft.yaml"):
        (tmp_path / name).write_text(ORGANISATION)
    page = (ROOT / "docs/simulate.md").read_text()
    [trace] = re.findall(r"```csv\n(.*?)```", page, re.DOTALL)
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(trace.encode()))
    readme, completion, scenarios, decision, draft, month = (by_chamber(BY_NAME[name]) for name in BY_ITSELF)
    for block in (readme, scenarios, decision, draft, month):
        run(block, environment=shell, folder=tmp_path)
    others = {
        'eval "$(_CHAMBER_COMPLETE=zsh_source chamber)"': "_CHAMBER_COMPLETE=zsh_source chamber > zsh",
        "| source ": "> fish ",
    }
    run(completion, environment=shell, folder=tmp_path, replaced=others)
    assert "_CHAMBER_COMPLETE" in (tmp_path / "zsh").read_text() + (tmp_path / "fish").read_text()
