"""Job classes and priority tiers are rows. An organisation that is there already gets those that forms proposed until
now, and its table of PriorityClasses becomes a part of the tiers.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.utils.text import slugify

import chamber.ids

TIERS = {"low": 25, "normal": 50, "high": 75, "reserved": 100}
HOUR = 3600
CLASSES = {
    "training": {"tier": "normal", "time_limit_seconds": 24 * HOUR, "max_retries": 1},
    "experiment": {"tier": "normal", "time_limit_seconds": 4 * HOUR, "is_default": True},
    "preprocessing": {"tier": "low", "time_limit_seconds": 8 * HOUR, "max_retries": 2},
    "batch-inference": {"tier": "low", "time_limit_seconds": 8 * HOUR, "max_retries": 2},
    "serving": {"tier": "reserved", "max_retries": 3, "sharing": "never"},
    "interactive": {"tier": "normal", "time_limit_seconds": 4 * HOUR},
}


def fill(apps, schema_editor):
    """Store them where there is an organisation; a new one gets them when it is made."""
    root = apps.get_model("teams", "Team").objects.filter(depth=0).first()
    if root is None:
        return
    tier_rows = apps.get_model("teams", "PriorityTier").objects
    for slug, priority in TIERS.items():
        tier_rows.create(slug=slug, name=slug.capitalize(), priority=priority)
    classes = apps.get_model("teams", "JobClass").objects
    for order, (slug, said) in enumerate(CLASSES.items()):
        values = {**said, "tier": tier_rows.get(slug=said["tier"])}
        classes.create(slug=slug, name=slug.replace("-", " ").capitalize(), order=order, **values)
    policy = apps.get_model("teams", "TeamPolicy").objects.filter(team=root).first()
    for name, priority in sorted((policy and policy.priority_classes or {}).items()):
        tier = tier_rows.filter(priority=priority).first()
        if tier is None:
            tier = tier_rows.create(slug=_free(tier_rows, name), name=name[:60], priority=priority)
        tier.priority_classes = [*tier.priority_classes, name]
        tier.save(update_fields=["priority_classes"])


def _free(tiers, name):
    """Return a slug like the name of a PriorityClass that no tier has."""
    wanted = slugify(name.replace(".", "-"))[:34].strip("-") or "tier"
    taken = set(tiers.values_list("slug", flat=True))
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (wanted, *numbered) if each not in taken)


class Migration(migrations.Migration):

    dependencies = [
        ('teams', '0011_audit_is_chained'),
    ]

    operations = [
        migrations.CreateModel(
            name='PriorityTier',
            fields=[
                ('id', models.UUIDField(default=chamber.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(help_text='What submissions call it.', max_length=40, unique=True)),
                ('name', models.CharField(max_length=60)),
                ('priority', models.PositiveIntegerField(unique=True)),
                ('least_role', models.CharField(choices=[('viewer', 'Viewer'), ('researcher', 'Researcher'), ('lead', 'Lead'), ('admin', 'Admin'), ('org-admin', 'Organisation admin'), ('operator', 'Operator'), ('auditor', 'Auditor')], default='researcher', max_length=12)),
                ('priority_classes', models.JSONField(blank=True, default=list, help_text='PriorityClasses of Jobs made with kubectl.')),
                ('retired_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveIntegerField(default=1)),
            ],
            options={
                'ordering': ['priority'],
                'constraints': [models.CheckConstraint(condition=models.Q(('priority__lte', 1000000)), name='tier_priority_bounded'), models.CheckConstraint(condition=models.Q(('least_role__in', ('researcher', 'lead', 'admin'))), name='tier_role_known')],
            },
        ),
        migrations.CreateModel(
            name='JobClass',
            fields=[
                ('id', models.UUIDField(default=chamber.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(help_text='What submissions call it.', max_length=16, unique=True)),
                ('name', models.CharField(max_length=60)),
                ('order', models.PositiveSmallIntegerField(default=0, help_text='Its place in lists.')),
                ('time_limit_seconds', models.PositiveIntegerField(help_text='Empty = no limit.', null=True)),
                ('max_retries', models.PositiveSmallIntegerField(default=0)),
                ('on_preemption', models.CharField(choices=[('requeue', 'Back to the queue'), ('stop', 'End as Preempted')], default='requeue', max_length=8)),
                ('sharing', models.CharField(choices=[('always', 'Elastic and reserved work'), ('elastic', 'Elastic work only'), ('never', 'None')], default='elastic', max_length=8)),
                ('is_default', models.BooleanField(default=False, help_text='Of submissions that name no class.')),
                ('retired_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveIntegerField(default=1)),
                ('tier', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='job_classes', to='teams.prioritytier')),
            ],
            options={
                'verbose_name_plural': 'job classes',
                'ordering': ['order', 'slug'],
            },
        ),
        migrations.CreateModel(
            name='ClassNarrowing',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('time_limit_seconds', models.PositiveIntegerField(null=True)),
                ('max_retries', models.PositiveSmallIntegerField(null=True)),
                ('sharing', models.CharField(blank=True, choices=[('always', 'Elastic and reserved work'), ('elastic', 'Elastic work only'), ('never', 'None')], max_length=8)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('version', models.PositiveIntegerField(default=1)),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='class_narrowings', to='teams.team')),
                ('job_class', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='narrowings', to='teams.jobclass')),
                ('tier', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='narrowings', to='teams.prioritytier')),
            ],
        ),
        migrations.AddConstraint(
            model_name='jobclass',
            constraint=models.UniqueConstraint(condition=models.Q(('is_default', True)), fields=('is_default',), name='jobclass_one_default'),
        ),
        migrations.AddConstraint(
            model_name='jobclass',
            constraint=models.CheckConstraint(condition=models.Q(('is_default', False), ('retired_at__isnull', True), _connector='OR'), name='jobclass_default_not_retired'),
        ),
        migrations.AddConstraint(
            model_name='jobclass',
            constraint=models.CheckConstraint(condition=models.Q(('time_limit_seconds__isnull', True), ('time_limit_seconds__range', (1, 315360000)), _connector='OR'), name='jobclass_time_limit_bounded'),
        ),
        migrations.AddConstraint(
            model_name='jobclass',
            constraint=models.CheckConstraint(condition=models.Q(('max_retries__lte', 100)), name='jobclass_retries_bounded'),
        ),
        migrations.AddConstraint(
            model_name='jobclass',
            constraint=models.CheckConstraint(condition=models.Q(('on_preemption__in', ['requeue', 'stop'])), name='jobclass_on_preemption_known'),
        ),
        migrations.AddConstraint(
            model_name='jobclass',
            constraint=models.CheckConstraint(condition=models.Q(('sharing__in', ['always', 'elastic', 'never'])), name='jobclass_sharing_known'),
        ),
        migrations.AddConstraint(
            model_name='classnarrowing',
            constraint=models.UniqueConstraint(fields=('team', 'job_class'), name='narrowing_once'),
        ),
        migrations.AddConstraint(
            model_name='classnarrowing',
            constraint=models.CheckConstraint(condition=models.Q(('time_limit_seconds__isnull', True), ('time_limit_seconds__range', (1, 315360000)), _connector='OR'), name='narrowing_time_limit_bounded'),
        ),
        migrations.AddConstraint(
            model_name='classnarrowing',
            constraint=models.CheckConstraint(condition=models.Q(('max_retries__isnull', True), ('max_retries__lte', 100), _connector='OR'), name='narrowing_retries_bounded'),
        ),
        migrations.AddConstraint(
            model_name='classnarrowing',
            constraint=models.CheckConstraint(condition=models.Q(('sharing', ''), ('sharing__in', ['always', 'elastic', 'never']), _connector='OR'), name='narrowing_sharing_known'),
        ),
        migrations.AddConstraint(
            model_name='classnarrowing',
            constraint=models.CheckConstraint(condition=models.Q(('tier__isnull', False), ('time_limit_seconds__isnull', False), ('max_retries__isnull', False), models.Q(('sharing', ''), _negated=True), _connector='OR'), name='narrowing_says_something'),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
