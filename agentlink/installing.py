"""The commands that start a cluster's agent, as the page shows them to a person who connects a cluster."""

import os
from ipaddress import ip_address
from shlex import quote
from urllib.parse import urlsplit

from django.conf import settings

from agentlink.models import BackendKind, Cluster

RELEASE = "chamber-agent"
"""As what the commands install the chart, and where: not the server's name, should that be in the same cluster."""
AUTHORITIES = "chamber-authorities"
"""The ConfigMap in which the agent finds the authority that signed the server's certificate."""


def commands(cluster: Cluster, *, server: str) -> str:
    """Return what starts the cluster's agent when its token lies in the file `NAME.token`.

    For Kubernetes these are commands in Chamber's own folder. They may be run again, with another token too: a
    running agent takes it up. Where `CHAMBER_CA` names an authority to this server, they give it to the agent.
    """
    authority = os.environ.get("CHAMBER_CA", "") if server.startswith("https:") else ""
    if cluster.backend == BackendKind.SIMULATED:
        trust = f"CHAMBER_CA={quote(authority)} " if authority else ""
        return f"{trust}chamber agent --url {quote(server)} --token-file {cluster.name}.token --simulate nodes.json"
    values = {"agent.enabled": "true", "agent.url": server, "agent.cluster": cluster.name} | _image()
    if authority:
        values["authorities.configMap"] = AUTHORITIES
    given = "".join(f" \\\n  --set {quote(f'{name}={value}')}" for name, value in values.items())
    return (
        f"helm upgrade --install {RELEASE} deploy/chart --namespace {RELEASE} --create-namespace{given}\n"
        f"kubectl create secret generic chamber-agent-token --namespace {RELEASE} \\\n"
        f"  --from-file=token={cluster.name}.token --dry-run=client --output yaml | kubectl apply --filename -"
    ) + (_trusted(authority) if authority else "")


def _trusted(authority: str) -> str:
    """Return the command that brings the authority's certificate into the cluster."""
    return (
        f"\nkubectl create configmap {AUTHORITIES} --namespace {RELEASE} \\\n"
        f"  --from-file={quote(f'ca.crt={authority}')} --dry-run=client --output yaml | kubectl apply --filename -"
    )


def is_loopback(host: str) -> bool:
    """Return whether an address, with or without a port, leads nowhere but to the machine on which it is used."""
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _image() -> dict[str, str]:
    """Return the chart's values for the image that this server runs, where it was told."""
    image: str = settings.CHAMBER_IMAGE
    if not image:
        return {}
    if "@" in image:
        repository, _, digest = image.partition("@")
        return {"image.repository": repository, "image.digest": digest}
    repository, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:  # a port of the registry's, no tag
        return {"image.repository": image}
    return {"image.repository": repository, "image.tag": tag}
