"""Teams' rules say which Secrets and ConfigMaps Jobs created with kubectl may read."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("teams", "0007_pools_name_their_clusters")]
    operations = [
        migrations.AddField(
            model_name="teampolicy",
            name="readable",
            field=models.JSONField(
                help_text="Which Secrets and ConfigMaps Jobs created with kubectl may read, by the rules' keys.",
                null=True,
            ),
        ),
    ]
