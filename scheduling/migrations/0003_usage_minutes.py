from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0002_bell_and_turn")]
    operations = [
        migrations.AddField(
            model_name="usagesample",
            name="minutes",
            field=models.PositiveSmallIntegerField(default=1, help_text="1, or 60: the mean of an hour."),
        ),
        migrations.AddIndex(
            model_name="usagesample",
            index=models.Index(condition=Q(minutes=1), fields=["minute"], name="usagesample_not_rolled_up"),
        ),
    ]
