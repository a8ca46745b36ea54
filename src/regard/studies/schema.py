"""The database schema of a store, its version, and the migrations from each version to the next."""

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Float, ForeignKey, Integer, MetaData, String, Table, Text, UniqueConstraint

VERSION = 2

tables = MetaData()

version = Table("regard_version", tables, Column("version", Integer, nullable=False))

studies = Table(
    "regard_studies",
    tables,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("specification", Text, nullable=False),  # JSON
    Column("created", Float, nullable=False),
    Column("cancelled", Integer, nullable=False, default=0),
)

# status: waiting, running, done, failed; or, for trials that the specification no longer has, dropped (was waiting) and
# kept (was done). `token` identifies a lease: an expired one can change nothing.
trials = Table(
    "regard_trials",
    tables,
    Column("id", Integer, primary_key=True),
    Column("study", ForeignKey("regard_studies.id"), nullable=False, index=True),
    Column("task", String(200), nullable=False),
    Column("variant", String(400), nullable=False),
    Column("seed", Integer, nullable=False),
    Column("status", String(20), nullable=False, index=True),
    Column("configuration", Text, nullable=False),  # JSON: the job
    Column("worker", String(200)),
    Column("token", String(40)),
    Column("began", Float),
    Column("beat", Float),  # last heartbeat, by the clock of the database
    Column("ended", Float),
    Column("seconds", Float),
    Column("peak", Text),  # JSON: bytes
    Column("versions", Text),
    Column("hardware", Text),
    Column("result", Text),  # JSON: metrics, scores, ...
    Column("share", Float),  # since version 2: progress of a running trial, 0 to 1, and its note
    Column("note", Text),
    UniqueConstraint("study", "task", "variant", "seed"),
)

# outcome: running, done; failed (raised an error), crashed (the worker process died), lost (the runner died), stopped
# (released); reopened is no attempt but a mark: failures and losses before it no longer count
attempts = Table(
    "regard_attempts",
    tables,
    Column("id", Integer, primary_key=True),
    Column("trial", ForeignKey("regard_trials.id"), nullable=False, index=True),
    Column("token", String(40), nullable=False),
    Column("worker", String(200)),
    Column("began", Float, nullable=False),
    Column("ended", Float),
    Column("outcome", String(20), nullable=False),
    Column("error", Text),
)


def _to_2(connection: Connection) -> None:
    """Version 2: progress of running trials."""
    connection.execute(sa.text("ALTER TABLE regard_trials ADD COLUMN share FLOAT"))
    connection.execute(sa.text("ALTER TABLE regard_trials ADD COLUMN note TEXT"))


MIGRATIONS: dict[int, Callable[[Connection], None]] = {2: _to_2}


def serialise_writers(connection: Connection) -> None:
    """An advisory lock for the rest of the transaction; a SQLite file has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(727263)"))


def prepare(connection: Connection) -> None:
    """Create the tables, or migrate those of an older version; within the caller's transaction."""
    serialise_writers(connection)
    if not sa.inspect(connection).has_table("regard_version"):
        tables.create_all(connection)
        connection.execute(version.insert().values(version=VERSION))
        return
    found = connection.execute(sa.select(version.c.version)).scalar_one()
    if not isinstance(found, int) or found < 1:
        raise ValueError(f"This store claims version {found!r}, which does not exist: it is damaged.")
    if found > VERSION:
        raise ValueError(
            f"This store has version {found} and this Regard reads versions up to {VERSION}: pip install -U regard."
        )
    for step in range(found + 1, VERSION + 1):
        MIGRATIONS[step](connection)
    if found < VERSION:
        connection.execute(version.update().values(version=VERSION))
