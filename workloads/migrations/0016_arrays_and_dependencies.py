"""Arrays, what a workload has of one, and dependencies on arrays and of other kinds; no row is changed."""

import chamber.ids
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from chamber.triggers import keeping_triggers


class Migration(migrations.Migration):

    dependencies = [
        ('teams', '0012_job_classes'),
        ('workloads', '0015_data_sources'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = keeping_triggers([
        migrations.AddField(
            model_name='dependency',
            name='kind',
            field=models.CharField(choices=[('afterok', 'After it has completed'), ('afterany', 'After it has ended'), ('afternotok', 'After it has ended otherwise than completed')], db_default='afterok', default='afterok', max_length=10),
        ),
        migrations.AddField(
            model_name='submissionkey',
            name='array_ids',
            field=models.JSONField(help_text='Of the arrays that were submitted; empty = none.', null=True),
        ),
        migrations.AddField(
            model_name='workload',
            name='array_index',
            field=models.PositiveIntegerField(help_text='Its number in the array.', null=True),
        ),
        migrations.AddField(
            model_name='workload',
            name='folded',
            field=models.BooleanField(help_text='Whether lists show the first member of its array in its place; empty = no.', null=True),
        ),
        migrations.AlterField(
            model_name='dependency',
            name='needs',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='needed_by', to='workloads.workload'),
        ),
        migrations.CreateModel(
            name='WorkloadArray',
            fields=[
                ('id', models.UUIDField(default=chamber.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(help_text='The name in URLs and on the command line.', max_length=60, unique=True)),
                ('name', models.CharField(max_length=100)),
                ('size', models.PositiveIntegerField(help_text='How many members it was submitted with.')),
                ('max_parallel', models.PositiveIntegerField(help_text='How many members have GPUs at once at most; empty = any number.', null=True)),
                ('parameters', models.JSONField(default=list, help_text='The names of its parameters.')),
                ('asked', models.JSONField(default=dict, help_text='Its range, list or grid, as a submission says it again.')),
                ('submitted_at', models.DateTimeField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveIntegerField(default=1)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='arrays', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='arrays', to='teams.team')),
            ],
            options={
                'ordering': ['-submitted_at', '-id'],
            },
        ),
        migrations.AddField(
            model_name='dependency',
            name='needs_array',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='needed_by', to='workloads.workloadarray'),
        ),
        migrations.AddField(
            model_name='workload',
            name='array',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='members', to='workloads.workloadarray'),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(condition=models.Q(('folded__isnull', True)), fields=['-submitted_at', '-id'], name='workload_newest_unfolded'),
        ),
        migrations.AddIndex(
            model_name='workload',
            index=models.Index(condition=models.Q(('array__isnull', False)), fields=['array', 'status', 'finished_at'], name='workload_array_status'),
        ),
        migrations.AddConstraint(
            model_name='dependency',
            constraint=models.UniqueConstraint(condition=models.Q(('needs_array__isnull', False)), fields=('workload', 'needs_array'), name='dependency_on_array_once'),
        ),
        migrations.AddConstraint(
            model_name='dependency',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('needs__isnull', False), ('needs_array__isnull', True)), models.Q(('needs__isnull', True), ('needs_array__isnull', False)), _connector='OR'), name='dependency_on_workload_or_array'),
        ),
        migrations.AddConstraint(
            model_name='dependency',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['afterok', 'afterany', 'afternotok'])), name='dependency_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='workload',
            constraint=models.UniqueConstraint(condition=models.Q(('array__isnull', False)), fields=('array', 'array_index'), name='workload_array_index_once'),
        ),
        migrations.AddIndex(
            model_name='workloadarray',
            index=models.Index(fields=['-submitted_at', '-id'], name='array_newest'),
        ),
        migrations.AddIndex(
            model_name='workloadarray',
            index=models.Index(fields=['team', '-submitted_at'], name='array_by_team'),
        ),
        migrations.AddIndex(
            model_name='workloadarray',
            index=models.Index(fields=['owner', '-submitted_at'], name='array_by_owner'),
        ),
        migrations.AddConstraint(
            model_name='workloadarray',
            constraint=models.CheckConstraint(condition=models.Q(('size__range', (1, 10000))), name='array_of_1_to_10000'),
        ),
        migrations.AddConstraint(
            model_name='workloadarray',
            constraint=models.CheckConstraint(condition=models.Q(('max_parallel__isnull', True), ('max_parallel__gte', 1), _connector='OR'), name='array_max_parallel_positive'),
        ),
    ])
