"""Nodes that Chamber drains are told apart from those that are only cordoned."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0018_released_clusters")]
    operations = [
        migrations.AddField(
            model_name="node",
            name="drained",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Cordoned because annotations have Chamber drain it.",
            ),
        ),
    ]
