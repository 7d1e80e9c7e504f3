"""Clusters are bound to the pools that they serve now, and to those whose selector names them.

Nodes tell which pool they are labelled for that their cluster is not bound to; hellos, when they were made.
"""

import django.db.models.deletion
from django.db import migrations, models

CLUSTER_LABEL = "chamber.internal/cluster"


def bind(apps, schema_editor):
    """Have each pool name the clusters that have, or had, a node in it."""
    nodes = apps.get_model("agentlink", "Node").objects.filter(pool__isnull=False).order_by()
    serving = {}
    for pool, cluster in nodes.values_list("pool", "cluster__name").distinct():
        serving.setdefault(pool, set()).add(cluster)
    for pool in apps.get_model("teams", "Pool").objects.all():
        named = {pool.node_selector[CLUSTER_LABEL]} if CLUSTER_LABEL in pool.node_selector else set()
        pool.clusters = sorted(serving.get(pool.pk, set()) | named)
        pool.save(update_fields=["clusters"])


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0020_foreign_pods"), ("teams", "0007_pools_name_their_clusters")]
    operations = [
        migrations.AddField(
            model_name="node",
            name="refused_pool",
            field=models.ForeignKey(
                help_text="A pool that its labels are for, and that its cluster is not bound to.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="refused_nodes",
                to="teams.pool",
            ),
        ),
        migrations.AddField(
            model_name="cluster",
            name="hello_at",
            field=models.DateTimeField(
                help_text="When the hello that counts was said, by its agent's clock.", null=True
            ),
        ),
        migrations.RunPython(bind, migrations.RunPython.noop),
    ]
