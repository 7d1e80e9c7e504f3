"""Namespaces are bound to teams, and Jobs that are created in them become workloads."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import chamber.ids


class Migration(migrations.Migration):
    dependencies = [
        ("agentlink", "0006_fewer_indexes"),
        ("teams", "0003_horizon"),
        ("workloads", "0005_fewer_indexes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        # Without a default: on SQLite the table is altered in place then.
        migrations.AddField(
            model_name="cluster",
            name="namespaces_version",
            field=models.PositiveBigIntegerField(
                help_text="Counts changes of the namespaces bound here; null before the first.", null=True
            ),
        ),
        migrations.CreateModel(
            name="BoundNamespace",
            fields=[
                (
                    "id",
                    models.UUIDField(default=chamber.ids.new_id, editable=False, primary_key=True, serialize=False),
                ),
                ("namespace", models.CharField(max_length=63)),
                ("since", models.DateTimeField()),
                ("ready", models.BooleanField(default=False, help_text="The agent keeps it.")),
                ("problem", models.TextField(blank=True, help_text="Why the agent does not keep it.")),
                (
                    "foreign_jobs",
                    models.PositiveIntegerField(default=0, help_text="Jobs that run there without Chamber."),
                ),
                ("foreign_gpus", models.PositiveIntegerField(default=0)),
                (
                    "refused",
                    models.JSONField(
                        default=list, help_text="Jobs that ask for adoption and were refused, with why."
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="namespaces",
                        to="agentlink.cluster",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="namespaces", to="teams.team"
                    ),
                ),
            ],
            options={
                "ordering": ["cluster", "namespace"],
                "constraints": [
                    models.UniqueConstraint(fields=("cluster", "namespace"), name="boundnamespace_once"),
                    models.UniqueConstraint(fields=("cluster", "team"), name="boundnamespace_one_per_team"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("namespace__startswith", "kube-"), _negated=True),
                            models.Q(("namespace__in", ("", "default")), _negated=True),
                        ),
                        name="boundnamespace_not_of_kubernetes",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AdoptedJob",
            fields=[
                (
                    "workload",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="adopted_job",
                        serialize=False,
                        to="workloads.workload",
                    ),
                ),
                ("namespace", models.CharField(max_length=63)),
                ("name", models.CharField(max_length=253)),
                ("uid", models.CharField(max_length=253)),
                (
                    "asked",
                    models.CharField(
                        help_text="Digest of what the Job asked for when it was taken.", max_length=64
                    ),
                ),
                ("note", models.TextField(blank=True, help_text="What was changed of what it asked for.")),
                ("current", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="adopted_jobs",
                        to="agentlink.cluster",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("current", True)),
                        fields=("cluster", "uid"),
                        name="adoptedjob_one_current",
                    )
                ],
            },
        ),
    ]
