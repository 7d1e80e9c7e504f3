from django.db import migrations


def lower(apps, schema_editor):
    """Store addresses in small letters and without blanks around them; the database's own function knows only ASCII."""
    User = apps.get_model('chamber', 'User')
    for pk, email in User.objects.exclude(email='').values_list('pk', 'email'):
        if email != (stored := email.strip().lower()):
            User.objects.filter(pk=pk).update(email=stored)


class Migration(migrations.Migration):

    dependencies = [
        ('chamber', '0005_invited_by'),
    ]

    operations = [
        migrations.RunPython(lower, migrations.RunPython.noop),
    ]
