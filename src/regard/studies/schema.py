"""The tables of a store, their version, and the steps from each version to the next."""

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

# status: waiting, running, done, failed; dropped (it waited) or kept (it was done) where the study asks for it no
# longer. `token` names one claim: whoever lost it can change nothing any more.
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
    Column("beat", Float),  # by the clock of the store
    Column("ended", Float),
    Column("seconds", Float),
    Column("peak", Text),  # JSON: bytes
    Column("versions", Text),
    Column("hardware", Text),
    Column("result", Text),  # JSON: numbers, scores, ...
    Column("share", Float),  # since version 2: how far a running trial is, and what it says
    Column("note", Text),
    UniqueConstraint("study", "task", "variant", "seed"),
)

# outcome: running, done; failed by an error of its own, crashed (its worker ended under it), lost (its runner is gone),
# stopped (given back); reopened is no attempt: failures and losses before it count no longer
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
    """Running trials say how far they are."""
    connection.execute(sa.text("ALTER TABLE regard_trials ADD COLUMN share FLOAT"))
    connection.execute(sa.text("ALTER TABLE regard_trials ADD COLUMN note TEXT"))


MIGRATIONS: dict[int, Callable[[Connection], None]] = {2: _to_2}


def take_turns(connection: Connection) -> None:
    """Two that begin at once do so one after the other; a SQLite file has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(727263)"))


def prepare(connection: Connection) -> None:
    """Make the tables, or bring those of an older version up to this one; inside the caller's transaction."""
    take_turns(connection)
    if not sa.inspect(connection).has_table("regard_version"):
        tables.create_all(connection)
        connection.execute(version.insert().values(version=VERSION))
        return
    found = connection.execute(sa.select(version.c.version)).scalar_one()
    if not isinstance(found, int) or found < 1:
        raise ValueError(f"This store says that it has version {found!r}, which none has: it is damaged.")
    if found > VERSION:
        raise ValueError(
            f"This store has version {found} and this Regard knows up to {VERSION}: pip install -U regard."
        )
    for step in range(found + 1, VERSION + 1):
        MIGRATIONS[step](connection)
    if found < VERSION:
        connection.execute(version.update().values(version=VERSION))
