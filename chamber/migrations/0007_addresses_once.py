import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chamber', '0006_addresses_in_small_letters'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='user',
            name='user_email_once',
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('email'), condition=models.Q(('email', ''), _negated=True), name='user_email_once', violation_error_message='There is an account with this e-mail address already.'),
        ),
    ]
