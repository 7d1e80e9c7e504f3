"""A node's drain that cannot be read is told on its cluster's page."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0016_restores_are_recognised")]
    operations = [
        migrations.AddField(
            model_name="node",
            name="problem",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="What an operator asked of it in its cluster and cannot be done, with why.",
                max_length=2000,
            ),
        ),
    ]
