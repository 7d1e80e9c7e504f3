"""Every alert fires at what it is for, and stays quiet where all is well; Prometheus itself judges, by promtool."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES = Path(__file__).resolve().parents[3] / "deploy/alerts.yaml"
UP = {'up{job="chamber"}': "1x200", "chamber_database_up": "1x200"}


@dataclass(frozen=True)
class Provocation:
    """What provokes an alert, and what does not, as series a minute; where a label tells one alert from another, it.

    The clock begins at zero: what was last seen at second 0 is silent for as long as the test has run.
    """

    series: Mapping[str, str]
    well: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    minutes: int = 120
    every_minutes: int = 1
    """How often Prometheus looks at the rules; a week of minutes takes promtool more than a minute."""
    with_up: bool = True


def only(series: str, at_fault: str, well: str, **labels: str) -> Provocation:
    """Return the provocation by one series."""
    return Provocation({series: at_fault}, {series: well}, labels)


LIVE = 'chamber_part_last_seen_timestamp_seconds{part="live"}'
NOW = "0+60x200"
"""A time that is always the present one."""
WEEK = 7 * 24 * 60

PROVOCATIONS: dict[str, Provocation] = {
    "ChamberDown": Provocation(
        {'up{job="chamber"}': "0x200", "chamber_database_up": "1x200"}, UP, {"job": "chamber"}, with_up=False
    ),
    "ChamberScrapeGone": Provocation({'up{job="other"}': "1x200"}, UP, {"job": "chamber"}, with_up=False),
    "ChamberMetricsGone": Provocation({'up{job="chamber"}': "1x200"}, UP, with_up=False),
    "ChamberPartSilent": only(
        'chamber_part_last_seen_timestamp_seconds{part="live"}', "0x200", NOW, part="live"
    ),
    "ChamberPartGone": Provocation(
        {'chamber_part_last_seen_timestamp_seconds{part="web"}': NOW},
        {f'chamber_part_last_seen_timestamp_seconds{{part="{part}"}}': NOW for part in ("web", "live")},
        {"part": "live"},
    ),
    "ChamberDatabaseDown": Provocation(
        {'up{job="chamber"}': "1x200", "chamber_database_up": "0x200"}, UP, with_up=False
    ),
    "ChamberRedisDown": only("chamber_redis_up", "0x200", "1x200"),
    "ChamberSchedulerSilent": only("chamber_cycle_last_success_timestamp_seconds", "0x200", NOW),
    "ChamberBeatSilent": only("chamber_beat_last_seen_timestamp_seconds", "0x200", NOW),
    "ChamberQueueGrows": only('chamber_queue_messages{queue="duties"}', "0+5x200", "3x200", queue="duties"),
    "ChamberCycleFails": only("chamber_cycle_failures_total", "0+1x200", "4x200"),
    "ChamberCycleSlow": Provocation(
        {
            'chamber_cycle_duration_seconds_bucket{le="5.0"}': "0+1x200",
            'chamber_cycle_duration_seconds_bucket{le="10.0"}': "0+10x200",
            'chamber_cycle_duration_seconds_bucket{le="+Inf"}': "0+10x200",
        },
        {
            'chamber_cycle_duration_seconds_bucket{le="5.0"}': "0+10x200",
            'chamber_cycle_duration_seconds_bucket{le="+Inf"}': "0+10x200",
        },
    ),
    "ChamberDatabaseDiskFills": Provocation(
        {"chamber_database_size_bytes": "85e9x200", "chamber_database_disk_bytes": "100e9x200"},
        {"chamber_database_size_bytes": "75e9x200", "chamber_database_disk_bytes": "100e9x200"},
    ),
    "ChamberDatabaseDiskFull": Provocation(
        {"chamber_database_disk_free_bytes": "9e9x200", "chamber_database_disk_bytes": "100e9x200"},
        {"chamber_database_disk_free_bytes": "11e9x200", "chamber_database_disk_bytes": "100e9x200"},
    ),
    "ChamberAuditChainBroken": only("chamber_audit_chain_holds", "0x200", "1x200"),
    "ChamberAuditBreakAccepted": only("chamber_audit_known_breaks", "0x100 1x100", "1x200"),
    "ChamberAuditChainShorter": only("chamber_audit_sealed_rows", "100+1x100 150x100", "100+1x200"),
    "ChamberAuditChainNotChecked": only(
        'chamber_audit_chain_checked_timestamp_seconds{rows="new"}', "0x200", NOW, rows="new"
    ),
    "ChamberAuditRowsNotSealed": only("chamber_audit_unsealed_rows", "1001x200", "1000x200"),
    "ChamberMailsRefused": Provocation(
        {
            'chamber_mails_total{result="sent"}': "7x200",
            'chamber_mails_total{result="refused"}': "0x100 1x100",
            'chamber_mails_total{result="given-up"}': "0x200",
        },
        {
            # One address that takes none.
            'chamber_mails_total{result="sent"}': "7x110 8x90",
            'chamber_mails_total{result="refused"}': "0x100 1x100",
        },
    ),
    "ChamberSignInsRefused": Provocation(
        {
            'chamber_sign_ins_refused_total{by="password"}': "0+6x200",
            'chamber_sign_ins_refused_total{by="factor"}': "0+2x200",
        },
        {
            'chamber_sign_ins_refused_total{by="password"}': "0+6x200",
            'chamber_sign_ins_refused_total{by="factor"}': "7x200",
        },
    ),
    "ChamberDatabaseGrows": Provocation(
        {"chamber_database_size_bytes": f"10e9x{WEEK} 25e9x200"},
        {"chamber_database_size_bytes": f"10e9x{WEEK} 15e9x200"},
        minutes=WEEK + 120,
        every_minutes=30,
    ),
    "ChamberRequestsFail": Provocation(
        {
            'chamber_http_requests_total{route="/",method="GET",code="200"}': "0+90x200",
            'chamber_http_requests_total{route="/",method="GET",code="503"}': "0+10x200",
        },
        {
            'chamber_http_requests_total{route="/",method="GET",code="200"}': "0+90x200",
            'chamber_http_requests_total{route="/",method="GET",code="404"}': "0+90x200",
            'chamber_http_requests_total{route="/",method="GET",code="503"}': "0+1x200",
        },
        {"route": "/"},
    ),
    "ChamberRequestsSlow": Provocation(
        {
            'chamber_http_request_duration_seconds_bucket{route="/",le="2.5"}': "0+60x200",
            'chamber_http_request_duration_seconds_bucket{route="/",le="5.0"}': "0+120x200",
            'chamber_http_request_duration_seconds_bucket{route="/",le="+Inf"}': "0+120x200",
            'chamber_http_request_duration_seconds_count{route="/"}': "0+120x200",
        },
        {
            # Slow, but hardly ever asked for.
            'chamber_http_request_duration_seconds_bucket{route="/",le="2.5"}': "0+1x200",
            'chamber_http_request_duration_seconds_bucket{route="/",le="+Inf"}': "0+5x200",
            'chamber_http_request_duration_seconds_count{route="/"}': "0+5x200",
        },
        {"route": "/"},
    ),
    "ChamberRequestsRise": Provocation(
        {'chamber_http_requests_total{route="/",method="GET",code="200"}': "0+60x120 7200+6000x100"},
        {'chamber_http_requests_total{route="/",method="GET",code="200"}': "0+6000x250"},
        minutes=150,
    ),
    "ChamberClusterDisconnected": Provocation(
        {'chamber_cluster_connected{cluster="west"}': "0x200", LIVE: NOW},
        # Where nothing runs to which agents connect, that is told instead.
        {'chamber_cluster_connected{cluster="west"}': "0x200", LIVE: "0x200"},
        {"cluster": "west"},
    ),
    "ChamberClusterBehind": Provocation(
        {
            'chamber_cluster_generations_behind{cluster="west"}': "2x200",
            'chamber_cluster_connected{cluster="west"}': "1x200",
        },
        {
            'chamber_cluster_generations_behind{cluster="west"}': "2x200",
            'chamber_cluster_connected{cluster="west"}': "0x1 1x200",
            'chamber_cluster_generations_behind{cluster="east"}': "0x200",
        }
        | {'chamber_cluster_generations_behind{cluster="west"}': "0x200"},
        {"cluster": "west"},
    ),
    "ChamberClusterMessagesRejected": only(
        'chamber_cluster_rejected_messages_total{cluster="west"}', "0+1x200", "7x200", cluster="west"
    ),
    "ChamberGPUsUnavailable": Provocation(
        {'chamber_pool_unavailable_gpus{pool="main"}': "3x200", 'chamber_pool_gpus{pool="main"}': "10x200"},
        {'chamber_pool_unavailable_gpus{pool="main"}': "2x200", 'chamber_pool_gpus{pool="main"}': "10x200"},
        {"pool": "main"},
    ),
    "ChamberGPUsIdleWhileWorkWaits": Provocation(
        {
            'chamber_pool_idle_gpus{pool="main"}': "2x200",
            'chamber_pool_gpus{pool="main"}': "10x200",
            'chamber_team_pending_gpus{pool="main",team="nlp"}': "4x200",
        },
        {
            'chamber_pool_idle_gpus{pool="main"}': "2x200",
            'chamber_pool_gpus{pool="main"}': "10x200",
            'chamber_team_pending_gpus{pool="main",team="nlp"}': "0x200",
        },
        {"pool": "main"},
    ),
    "ChamberHeldGPUsIdle": Provocation(
        {
            'chamber_team_idle_gpus{pool="main",team="nlp"}': "2x200",
            'chamber_pool_in_use_gpus{pool="main"}': "10x200",
            'chamber_team_pending_gpus{pool="main",team="nlp"}': "4x200",
        },
        {
            'chamber_team_idle_gpus{pool="main",team="nlp"}': "1x200",
            'chamber_pool_in_use_gpus{pool="main"}': "10x200",
            'chamber_team_pending_gpus{pool="main",team="nlp"}': "4x200",
        },
        {"pool": "main"},
    ),
    "ChamberGuaranteeNotMet": Provocation(
        {
            'chamber_team_in_use_gpus{pool="main",team="nlp"}': "4x200",
            'chamber_team_guarantee_gpus{pool="main",team="nlp"}': "8x200",
            'chamber_team_pending_gpus{pool="main",team="nlp"}': "4x200",
        },
        {
            'chamber_team_in_use_gpus{pool="main",team="nlp"}': "4x200",
            'chamber_team_guarantee_gpus{pool="main",team="nlp"}': "8x200",
            'chamber_team_pending_gpus{pool="main",team="nlp"}': "3x200",
        },
        {"pool": "main", "team": "nlp"},
    ),
    "ChamberPreemptionsLoseMuchWork": Provocation(
        {
            'chamber_preemption_lost_gpu_seconds_total{rule="burst",level="acme"}': "0+60x300",
            'chamber_pool_in_use_gpus{pool="main"}': "10x300",
        },
        {
            'chamber_preemption_lost_gpu_seconds_total{rule="burst",level="acme"}': "0+6x300",
            'chamber_pool_in_use_gpus{pool="main"}': "10x300",
        },
        minutes=180,
    ),
}


def rules() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def case(name: str, series: Mapping[str, str], *, fires: bool) -> dict[str, Any]:
    """Return a test of promtool: whether the alert fires, with its labels, at these series."""
    provocation, rule = PROVOCATIONS[name], rules()[name]
    values = {**(UP if provocation.with_up else {}), **series}
    labels = _matching(alertname=name, alertstate="firing", **{**rule["labels"], **provocation.labels})
    return {
        "interval": "1m",
        "input_series": [{"series": key, "values": value} for key, value in values.items()],
        "promql_expr_test": [
            {
                "expr": f"count(ALERTS{{{labels}}}) or vector(0)",
                "eval_time": f"{provocation.minutes}m",
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
        ],
    }


def promtool(*arguments: str) -> None:
    """Have Prometheus' tool judge; it says what is wrong."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _matching(**labels: str) -> str:
    return ",".join(f'{label}="{value}"' for label, value in labels.items())


def test_every_alert_is_provoked() -> None:
    assert PROVOCATIONS.keys() == rules().keys()


@pytest.mark.promtool
def test_prometheus_reads_the_rules() -> None:
    promtool("check", "rules", str(RULES))


@pytest.mark.promtool
@pytest.mark.parametrize("name", PROVOCATIONS)
def test_an_alert_fires_at_what_it_is_for_and_not_where_all_is_well(name: str, tmp_path: Path) -> None:
    provocation = PROVOCATIONS[name]
    cases = [case(name, provocation.series, fires=True), case(name, provocation.well, fires=False)]
    alone, file = tmp_path / "rules.yaml", tmp_path / "test.yaml"
    # Rules know nothing of one another: the others would be evaluated at each minute for nothing.
    alone.write_text(yaml.safe_dump({"groups": [{"name": "alone", "rules": [rules()[name]]}]}))
    every = f"{provocation.every_minutes}m"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(alone)], "evaluation_interval": every, "tests": cases})
    )
    promtool("test", "rules", str(file))
