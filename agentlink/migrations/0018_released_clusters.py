"""A cluster that was let go of is told apart from one whose agent is only silent."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0017_problems_of_nodes")]
    operations = [
        migrations.AddField(
            model_name="cluster",
            name="released_at",
            field=models.DateTimeField(
                help_text="When an operator let go of it by its agent; null once one says hello again.", null=True
            ),
        ),
    ]
