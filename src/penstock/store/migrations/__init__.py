"""The schema's history. A new database is made from the `*.sql` files at once; an older one is moved on by Alembic's
revisions.

The `*.sql` files are what Alembic renders from the first revision to the last (`python -m
penstock.store.migrations`), so that opening a new database needs neither Alembic nor SQLAlchemy; a test keeps them
the same.
"""

from __future__ import annotations

from importlib import resources

from penstock.engine.errors import SchemaMismatch

HEAD = "0006"
REVISIONS: tuple[str, ...] = ("0001", "0002", "0003", "0004", "0005", "0006")


def whole_schema(dialect: str) -> str:
    """The SQL that makes an empty database current, version row included."""
    return resources.files(__name__).joinpath(f"{dialect}.sql").read_text()


def upgrade_script(dialect: str, revision: str) -> str:
    """The SQL that moves a database from an older revision to this version's."""
    from penstock.store.migrations.render import render

    return render(dialect, revision)


def check(revision: str | None, url: str) -> bool:
    """Whether the database must be moved on; refuses one that a newer Penstock made."""
    if revision is not None and revision not in REVISIONS:
        raise SchemaMismatch(
            f"{url} was made by a newer Penstock (schema {revision}, this one knows up to {HEAD}): "
            "upgrade Penstock, or point it at another store"
        )
    return revision != HEAD
