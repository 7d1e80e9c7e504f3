"""The organisation's table of priorities by PriorityClass."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("teams", "0004_audit_is_searched")]
    operations = [
        migrations.AddField(
            model_name="teampolicy",
            name="priority_classes",
            field=models.JSONField(
                help_text="Priorities by PriorityClass, for the whole organisation; of the root alone.", null=True
            ),
        ),
    ]
