"""Writes `sqlite.sql` and `postgresql.sql` anew: `python -m penstock.store.migrations`, after a revision was added."""

from penstock.store.migrations.render import HERE, render

for dialect in ("sqlite", "postgresql"):
    (HERE / f"{dialect}.sql").write_text(render(dialect))
