"""When workloads may start, and by when they must."""

from django.db import migrations, models
from django.db.models import F, Q

from chamber.triggers import keeping_triggers


class Migration(migrations.Migration):
    dependencies = [("workloads", "0011_job_classes_are_rows")]
    operations = keeping_triggers([
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
    ])
