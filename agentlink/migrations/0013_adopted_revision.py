"""What people wrote of an adopted Job, and what lies in a team's namespace that Chamber does not run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0012_refused_agents")]
    operations = [
        migrations.AddField(
            model_name="adoptedjob",
            name="revision",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="Digest of all that its people wrote of the Job.",
                max_length=40,
            ),
        ),
        migrations.AddField(
            model_name="boundnamespace",
            name="unmanaged",
            field=models.JSONField(
                help_text="Objects of kinds that Chamber does not run, or for Kueue, with why, and how many.",
                null=True,
            ),
        ),
    ]
