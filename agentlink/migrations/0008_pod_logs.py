import django.db.models.deletion
from django.db import migrations, models

import chamber.ids


class Migration(migrations.Migration):
    dependencies = [
        ("workloads", "0005_fewer_indexes"),
        ("agentlink", "0007_spaces"),
    ]
    operations = [
        migrations.CreateModel(
            name="PodLog",
            fields=[
                (
                    "id",
                    models.UUIDField(default=chamber.ids.new_id, editable=False, primary_key=True, serialize=False),
                ),
                ("pod_index", models.PositiveIntegerField()),
                ("content", models.BinaryField(help_text="The text in UTF-8, compressed with zlib.")),
                ("size_bytes", models.PositiveIntegerField(help_text="Of the text.")),
                ("cut", models.BooleanField(default=False, help_text="Earlier lines are missing.")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="logs",
                        to="workloads.attempt",
                    ),
                ),
            ],
            options={
                "ordering": ["attempt", "pod_index"],
                "constraints": [
                    models.UniqueConstraint(fields=("attempt", "pod_index"), name="podlog_once_per_pod"),
                    models.CheckConstraint(
                        condition=models.Q(("size_bytes__lte", 1048576)), name="podlog_size_bounded"
                    ),
                ],
            },
        ),
    ]
