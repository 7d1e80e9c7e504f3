"""What the values of the chart reach: settings, options of the agent, pods of all parts, what Prometheus needs."""

import json
import re

import pytest
import yaml
from click.core import ParameterSource

from chamber.cli.commands.operate import agent
from rig import charts, deployment
from rig.charts import rendered
from rig.namespaces import Json
from tests.chart_values import (
    AGENT,
    OPERATORS,
    OPTIONS,
    PODS,
    SERVER,
    SETTINGS,
    WATCHED,
    agent_with,
    containers,
    of_kind,
    pods,
    server_with,
)

pytestmark = pytest.mark.kube
NOT_VALUES = {
    # The chart's own business, or `agent.url`, which goes by the environment.
    "in_cluster", "token_file", "health_port", "url",
    # Of agents outside of clusters, and of simulated ones.
    "kubeconfig", "context", "simulate", "state_file",
    # Of the hook: see below.
    "release", "stop_workloads", "timeout",
}  # fmt: skip


def test_every_option_of_the_agent_is_reached_by_a_value() -> None:
    made = containers(rendered(agent_with(**OPTIONS)))["agent"]
    context = agent.make_context("agent", made["command"][2:])
    source = {name: context.get_parameter_source(name) for name in context.params}
    said = {name for name, where in source.items() if where is ParameterSource.COMMANDLINE}
    options = {option.name for option in agent.params}
    assert options - said == NOT_VALUES - {"in_cluster", "token_file", "health_port"}
    assert context.params["device_classes"] == ("gpu.example.org/mig=slices",)
    assert context.params["gpu_resources"] == ("example.org/gpu*",)
    assert [given["value"] for given in made["env"] if given["name"] == "CHAMBER_URL"] == [
        AGENT["agent"]["url"]
    ]


def test_the_hook_before_an_uninstall_runs_what_the_command_line_takes() -> None:
    values = agent_with(**OPTIONS, uninstall={"stopWorkloads": True, "timeoutSeconds": 90})
    command = containers(rendered(values))["release"]["command"]
    given = agent.make_context("agent", command[2:]).params
    assert (given["release"], given["stop_workloads"], given["timeout"]) == (True, True, 90)
    assert given["namespace"] == "jobs"
    assert "release" not in containers(rendered(agent_with(uninstall={"hook": False})))


NOT_FOR_A_SERVER = {
    "CHAMBER_DATA", "CHAMBER_DEBUG", "CHAMBER_DEMO", "CHAMBER_RING",
    # Probes, Services and the proxy know this port.
    "CHAMBER_LISTEN_PORT",
}  # fmt: skip


def test_every_documented_setting_is_reached_by_a_value() -> None:
    whole = (deployment.ROOT / "docs" / "operations.md").read_text()
    page = whole.split("\n## Settings\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\|(( `CHAMBER_\w+`,?)+) \|", page, re.MULTILINE)
    explained = {name for cell, _ in rows for name in re.findall(r"`(CHAMBER_\w+)`", cell)}
    explained |= set(re.findall(r"`--[\w-]+`/`(CHAMBER_\w+)`", page))
    assert {"CHAMBER_DATABASE", "CHAMBER_IDLE_MINUTES", "CHAMBER_GRACE_SECONDS"} <= explained
    database = {"url": "postgresql://chamber@db/chamber", "passwordKey": "password"}
    mail = {"urlKey": "mail_url", "from": "gpus@example.org"}
    bell = {"url": "redis://redis:6379/0", "passwordKey": "bell"}
    values = server_with(
        settings=SETTINGS,
        database=database,
        redis=bell,
        mail=mail,
        encryption={"keysKey": "encryption_keys"},
        credentials={"keyKey": "credentials_key"},
        audit={"keyKey": "audit_key", "keysBeforeKey": "audit_keys_before"},
        signIn={"providersKey": "identity_providers"},
        publicUrl="https://gpus.example.org",
    )
    made = containers(rendered(values))["web"]
    given = {said["name"].removesuffix("_FILE"): said.get("value") for said in made["env"]}
    assert explained - given.keys() == NOT_FOR_A_SERVER
    assert given["CHAMBER_ORIGINS"] == "https://a.example.org,https://b.example.org"
    assert (given["CHAMBER_TLS"], given["CHAMBER_KEEP_DAYS"]) == ("false", "60")
    schema = json.loads((charts.CHART / "values.schema.json").read_text())
    assert schema["properties"]["server"]["properties"]["settings"]["properties"].keys() == SETTINGS.keys()


def test_pods_have_the_longer_grace_that_a_setting_asks_for() -> None:
    web = pods(rendered(server_with(settings={"graceSeconds": 60})))["web"]["spec"]
    assert web["terminationGracePeriodSeconds"] == 70
    assert pods(rendered(SERVER))["web"]["spec"]["terminationGracePeriodSeconds"] == 30


def test_what_is_said_of_pods_reaches_all_parts() -> None:
    schema = json.loads((charts.CHART / "values.schema.json").read_text())
    assert schema["$defs"]["pods"]["properties"].keys() == PODS.keys()
    values = agent_with(pods=PODS) | server_with(pods=PODS)
    values["image"] = {"repository": "chamber", "pullSecrets": ["registry"]}
    made = rendered(values)
    for name, template in pods(made).items():
        spec, [container] = template["spec"], template["spec"]["containers"]
        for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
            assert spec[key] == PODS[key], (name, key)
        assert spec["topologySpreadConstraints"] == []
        assert template["metadata"]["annotations"].items() >= PODS["annotations"].items()
        assert template["metadata"]["labels"].items() >= PODS["labels"].items()
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["securityContext"]["supplementalGroups"] == [5]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["seLinuxOptions"] == {"level": "s0"}
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert PODS["extraEnv"][0] in container["env"]
        assert container["envFrom"] == PODS["extraEnvFrom"]
        assert PODS["extraVolumes"][0] in spec["volumes"]
        assert PODS["extraVolumeMounts"][0] in container["volumeMounts"]
    for name, body in of_kind(made, "Deployment").items():
        assert body["metadata"]["annotations"] == PODS["deploymentAnnotations"], name


def test_a_part_s_own_word_goes_before_that_of_all() -> None:
    own = {"pods": {"nodeSelector": {"pool": "web"}}}
    made = pods(rendered(server_with(pods=PODS, web=own)))
    assert made["web"]["spec"]["nodeSelector"] == {"pool": "web"}
    assert made["live"]["spec"]["nodeSelector"] == {"pool": "infra"}
    assert made["web"]["spec"]["priorityClassName"] == "important"


def test_a_digest_goes_before_the_tag_and_the_server_knows_of_it() -> None:
    digest = f"sha256:{'0123' * 16}"
    values = AGENT | SERVER | {"image": {"repository": "r.test/chamber", "tag": "1", "digest": digest}}
    made = containers(rendered(values))
    images = {container["image"] for name, container in made.items() if name != "proxy"}
    assert images == {f"r.test/chamber@{digest}"}
    assert {"name": "CHAMBER_IMAGE", "value": f"r.test/chamber@{digest}"} in made["web"]["env"]


@pytest.mark.parametrize("kind", ["configMap", "secret"])
def test_authorities_of_one_s_own_are_trusted_by_agent_and_server(kind: str) -> None:
    made = pods(rendered(AGENT | SERVER | {"authorities": {kind: "own", "key": "root.pem"}}))
    for name, template in made.items():
        container = template["spec"]["containers"][0]
        given = {said["name"]: said.get("value") for said in container.get("env", [])}
        mounted = [mount for mount in container["volumeMounts"] if mount["name"] == "authorities"]
        [volume] = [each for each in template["spec"]["volumes"] if each["name"] == "authorities"] or [None]
        if name == "proxy":
            assert (volume, mounted) == (None, [])
            continue
        assert given["SSL_CERT_FILE"] == given["PGSSLROOTCERT"] == f"{mounted[0]['mountPath']}/root.pem"
        assert volume is not None
        assert volume[kind]["items"] == [{"key": "root.pem", "path": "root.pem"}]


def test_a_proxy_to_the_world_is_not_used_within_the_cluster_and_the_agent_may_reach_it() -> None:
    values = AGENT | SERVER | {"httpProxy": {"https": "http://proxy.test:3128", "except": ["10.0.0.0/8"]}}
    made = rendered(values)
    for name, container in containers(made).items():
        given = {said["name"]: said.get("value", "") for said in container.get("env", [])}
        if name != "proxy":
            assert given["HTTPS_PROXY"] == given["https_proxy"] == "http://proxy.test:3128"
            assert "HTTP_PROXY" not in given
            assert {".svc", "localhost", "10.0.0.0/8"} <= set(given["NO_PROXY"].split(","))
    egress = of_kind(made, "NetworkPolicy")["chamber-agent"]["spec"]["egress"]
    assert 3128 in {said["port"] for rule in egress for said in rule["ports"]}


def test_a_part_that_is_scaled_has_no_number_of_replicas() -> None:
    scaled = {"autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 9, "cpuPercent": 60}}
    assert not of_kind(rendered(SERVER), "HorizontalPodAutoscaler")
    made = rendered(server_with(web=scaled, live=scaled))
    deployments, scalers = of_kind(made, "Deployment"), of_kind(made, "HorizontalPodAutoscaler")
    assert scalers.keys() == {"chamber-web", "chamber-live"}
    for name, scaler in scalers.items():
        assert "replicas" not in deployments[name]["spec"]
        assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (3, 9)
        assert scaler["spec"]["scaleTargetRef"]["name"] == name
    assert deployments["chamber-worker"]["spec"]["replicas"] == 2


def test_nothing_of_the_prometheus_operator_is_made_unless_asked_for() -> None:
    assert not {body["kind"] for body in rendered(AGENT | SERVER)} & OPERATORS


def test_the_server_is_one_target_that_lets_prometheus_in_and_is_called_as_the_alerts_call_it() -> None:
    made = rendered(server_with(metrics=WATCHED), namespace="there")
    monitor = of_kind(made, "ServiceMonitor")["chamber"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    [endpoint] = monitor["spec"]["endpoints"]
    relabelled = {rule["targetLabel"]: rule["replacement"] for rule in endpoint["relabelings"][:-1]}
    assert relabelled == {"__address__": "chamber-web.there.svc:8000", "job": "chamber"}
    assert endpoint["relabelings"][-1]["action"] == "labeldrop"
    assert endpoint["authorization"]["credentials"] == {"name": "chamber-server", "key": "metrics_token"}
    web = {said["name"]: said.get("value", "") for said in containers(made)["web"]["env"]}
    assert "chamber-web.there.svc" in web["CHAMBER_HOSTS"].split(",")
    service = of_kind(made, "Service")["chamber-web"]
    assert [port["name"] for port in service["spec"]["ports"]] == [endpoint["port"]]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert service["metadata"]["labels"].items() >= wanted.items()


def test_rules_and_dashboard_are_those_of_the_files() -> None:
    made = rendered(server_with(metrics=WATCHED))
    rules_file = yaml.safe_load((charts.CHART.parent / "alerts.yaml").read_text())
    assert of_kind(made, "PrometheusRule")["chamber"]["spec"] == rules_file
    shown = of_kind(made, "ConfigMap")["chamber-dashboard"]
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert shown["data"]["chamber.json"].strip() == (charts.CHART.parent / "grafana.json").read_text().strip()


def test_the_agent_is_scraped_at_its_pods_where_asked_for() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    made = rendered(agent_with(metrics={"from": peers, "podMonitor": {"enabled": True, "interval": "15s"}}))
    [endpoint] = of_kind(made, "PodMonitor")["chamber-agent"]["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["interval"]) == ("health", "/metrics", "15s")
    assert endpoint["port"] in [port["name"] for port in containers(made)["agent"]["ports"]]
    ingress = of_kind(made, "NetworkPolicy")["chamber-agent"]["spec"]["ingress"]
    assert ingress == [{"from": peers, "ports": [{"protocol": "TCP", "port": 8081}]}]
    closed = of_kind(rendered(AGENT), "NetworkPolicy")["chamber-agent"]["spec"]["ingress"]
    assert closed == []


def test_the_examples_of_its_page_are_values_that_it_takes() -> None:
    page = (deployment.ROOT / "docs" / "kubernetes.md").read_text()
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 3
    for text in examples:
        values: Json = yaml.safe_load(text.replace("sha256:…", f"sha256:{'0' * 64}"))
        agents = agent_with(**values["agent"]) if "agent" in values else {}
        servers = server_with(**values["server"]) if "server" in values else {}
        assert rendered(values | agents | servers)
