"""A restore of the database is recognised by what agents remember of it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0015_adopted_revision")]
    operations = [
        migrations.AddField(
            model_name="cluster",
            name="epoch",
            field=models.PositiveBigIntegerField(
                db_default=0, default=0, help_text="Raised with each hello and heartbeat, and told to the agent."
            ),
        ),
        migrations.AddField(
            model_name="cluster",
            name="restored_at",
            field=models.DateTimeField(
                help_text="When its agent last remembered a higher epoch: the database was restored.", null=True
            ),
        ),
        migrations.AddField(
            model_name="cluster",
            name="restored_from",
            field=models.DateTimeField(
                help_text="When its agent was last heard by the state that was restored.", null=True
            ),
        ),
        # A column that may be empty is added without making the table anew on SQLite.
        migrations.AddField(
            model_name="assignment",
            name="unheard_since",
            field=models.DateTimeField(
                help_text="A restore of the database was recognised then, and no pod of it was heard of since.",
                null=True,
            ),
        ),
    ]
