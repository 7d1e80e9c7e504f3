"""Pools name the clusters that may serve them. Which those are where there are pools, a migration of `agentlink` says."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("teams", "0005_priority_classes")]
    operations = [
        migrations.AddField(
            model_name="pool",
            name="clusters",
            field=models.JSONField(
                blank=True,
                db_default=models.Value([], models.JSONField()),
                default=list,
                help_text="Names of the clusters that may serve it; of no other it has nodes.",
            ),
        ),
    ]
