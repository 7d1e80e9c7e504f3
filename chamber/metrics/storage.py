"""How large the database is: what it takes of its disk."""

from django.db import connection

GIB = 1 << 30


def size_bytes() -> int:
    """Return the size of the database with its indexes, as its server counts it (1 query)."""
    on_postgresql = connection.vendor == "postgresql"
    pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())" if on_postgresql else pages)
        return int(cursor.fetchone()[0])
