"""When workloads may start, and by when they must."""

from django.db import migrations, models
from django.db.models import F, Q

TABLE = "workloads_workload"


def take_triggers(apps, schema_editor):
    """Take away, and remember, what triggers name the table: on SQLite a constraint has it made anew."""
    if schema_editor.connection.vendor != "sqlite":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND instr(sql, %s) > 0", [TABLE])
        taken = cursor.fetchall()
    for name, _ in taken:
        schema_editor.execute(f"DROP TRIGGER {name}", params=None)
    schema_editor.taken_triggers = [sql for _, sql in taken]


def make_triggers_again(apps, schema_editor):
    """Make the triggers again that were taken."""
    for sql in getattr(schema_editor, "taken_triggers", []):
        schema_editor.execute(sql, params=None)


class Migration(migrations.Migration):
    dependencies = [("workloads", "0011_job_classes_are_rows")]
    operations = [
        migrations.RunPython(take_triggers, make_triggers_again),
        migrations.AddField(
            model_name="workload",
            name="start_after",
            field=models.DateTimeField(help_text="Before it, it is in no queue.", null=True),
        ),
        migrations.AddField(
            model_name="workload",
            name="deadline",
            field=models.DateTimeField(
                help_text="Where it is not Queued by then, it ends; empty once it was.", null=True
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="on_deadline",
            field=models.CharField(
                blank=True,
                choices=[("fail", "It fails"), ("cancel", "It is cancelled")],
                db_default="",
                default="",
                help_text="Empty where it has no deadline.",
                max_length=6,
            ),
        ),
        migrations.AddConstraint(
            model_name="workload",
            constraint=models.CheckConstraint(
                condition=Q(deadline__isnull=True)
                | Q(start_after__isnull=True)
                | Q(deadline__gt=F("start_after")),
                name="workload_deadline_after_start",
            ),
        ),
        migrations.AddConstraint(
            model_name="workload",
            constraint=models.CheckConstraint(
                condition=Q(on_deadline__in=("", "fail", "cancel")),
                name="workload_on_deadline_known",
            ),
        ),
        migrations.RunPython(make_triggers_again, take_triggers),
    ]
