"""Alembic's entry point. Only offline rendering is used: see `render.py`."""

from alembic import context

from penstock.store.schema import metadata

context.configure(
    dialect_name=(context.config.get_main_option("sqlalchemy.url") or "").split(":", 1)[0],
    target_metadata=metadata,
    literal_binds=True,
)
with context.begin_transaction():
    context.run_migrations()
