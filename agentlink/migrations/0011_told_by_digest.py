"""An inventory is compared by a digest of each node, within ranges of names.

Its parts follow each other by code points; SQLite compares texts so, PostgreSQL by the rules of a language unless told.
"""

from django.db import migrations, models

from chamber.triggers import PerDatabase


def compare_names(collation):
    """Return the statement after which names of nodes compare that way."""
    return f'ALTER TABLE agentlink_node ALTER COLUMN name TYPE varchar(253) COLLATE "{collation}"'


class Migration(migrations.Migration):
    dependencies = [("agentlink", "0010_link_and_owner")]
    operations = [
        migrations.AddField(
            model_name="node",
            name="told",
            field=models.CharField(
                blank=True, db_default="", help_text="Digest of what the agent told of it last.", max_length=32
            ),
        ),
        PerDatabase(
            create={"sqlite": [], "postgresql": [compare_names("C")]},
            drop={"sqlite": [], "postgresql": [compare_names("default")]},
        ),
    ]
