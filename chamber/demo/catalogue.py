"""What the example organisation's people submit with: an environment, and a data source that one cluster has."""

from agentlink.data import locate
from agentlink.models import Cluster
from teams.actors import Actor
from teams.models import Team
from workloads.data.actions import create_source
from workloads.environments.actions import create_environment
from workloads.models import DataSource, Environment, SourceKind

TEAM = "research"
ENVIRONMENT, DATA = "pytorch", "imagenet"
VALUES = {
    "image": "registry.acme.example/research/pytorch@sha256:" + "5a1e" * 16,
    "variables": {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "8"},
    "working_dir": "/workspace",
    "shm_mib": 16 * 1024,
    "note": "PyTorch with the libraries of Research.",
}


def make_catalogue(*, by: Actor) -> None:
    """Make what is not there; nothing where the team is not, as people may have renamed it."""
    team = Team.objects.active().filter(slug=TEAM).first()
    if team is None:
        return
    if not Environment.objects.filter(team=team, name=ENVIRONMENT).exists():
        create_environment(by=by, team=team, name=ENVIRONMENT, values=VALUES)
    if DataSource.objects.filter(team=team, name=DATA).exists():
        return
    details = {"server": "nfs.acme.example", "path": "/export/imagenet"}
    source = create_source(by=by, team=team, name=DATA, kind=SourceKind.NFS, details=details)
    for cluster in Cluster.objects.filter(name="east"):
        locate(by=by, source=source, cluster=cluster)
