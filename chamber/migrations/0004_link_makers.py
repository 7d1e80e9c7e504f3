import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chamber', '0003_people'),
    ]

    operations = [
        migrations.AddField(
            model_name='accountlink',
            name='made_by',
            field=models.ForeignKey(help_text="Who may have read it; null: whoever has the server's console.", null=True, on_delete=django.db.models.deletion.CASCADE, related_name='links_made', to=settings.AUTH_USER_MODEL),
        ),
    ]
