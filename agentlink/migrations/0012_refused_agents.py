"""A cluster's page says why an agent with its token was refused."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0011_told_by_digest")]
    operations = [
        migrations.AddField(
            model_name="cluster",
            name="refused_at",
            field=models.DateTimeField(
                help_text="When an agent with its token was last sent away.", null=True
            ),
        ),
        migrations.AddField(
            model_name="cluster",
            name="refusal",
            field=models.CharField(
                blank=True, db_default="", help_text="Why, as a sentence.", max_length=500
            ),
        ),
    ]
