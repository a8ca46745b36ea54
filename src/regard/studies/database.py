"""Connection to the database of a study: a SQLite file or a server, with retries while it is unavailable."""

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, event
from sqlalchemy.exc import ArgumentError, DBAPIError, NoResultFound, OperationalError

from .schema import prepare

T = TypeVar("T")
FILE = "store.sqlite"  # in the folder of a study
# SQLite errors that may pass: a lock, a missing file, a full disk. Retrying helps with no other.
TRANSIENT = (
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_CANTOPEN",
    "SQLITE_IOERR",
    "SQLITE_FULL",
    "SQLITE_READONLY",
    "SQLITE_PROTOCOL",
    "SQLITE_NOMEM",
    "SQLITE_INTERRUPT",
    "SQLITE_SCHEMA",
)


class StoreUnavailable(OSError):
    """The store did not respond within the patience of a runner."""


class DamagedStore(OSError):
    """The contents of the store are invalid; retrying cannot help."""


class Database:
    """A SQLite file by its path, or any database of SQLAlchemy by its URL (postgresql://user@host/name).

    patience   seconds to keep retrying while the store is unavailable: a server that restarts, a locked file, a full
               disk
    """

    def __init__(self, where: "str | Path", patience: float = 120.0, create: bool = True):
        self.where, self.patience = str(where), patience
        self.file = None if "://" in self.where else Path(where)
        if self.file is None:
            try:
                url = sa.make_url(self.where)
                if url.drivername == "postgresql":
                    url = url.set(drivername="postgresql+psycopg")
                self.engine = sa.create_engine(url, pool_pre_ping=True)
            except ArgumentError as problem:
                raise ValueError(
                    f"store={self.where!r}: expected a file, or a server such as "
                    f"postgresql://user@host/name ({problem})."
                ) from problem
        else:
            self.engine = self._file(Path(where), create)
        self.name = self.engine.url.render_as_string(hide_password=True) if "://" in self.where else self.where
        self._transaction(prepare)

    def _file(self, path: Path, create: bool) -> sa.Engine:
        if not path.exists():
            if not create:
                raise FileNotFoundError(f"There is no store {path}: start the study with `regard study run`.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        if path.is_dir():
            raise IsADirectoryError(f"The store {path} is a folder: name a file, such as {path / FILE}.")
        # mode=rw: a file that disappeared is a transient error, not a new empty store
        engine = sa.create_engine(
            f"sqlite:///file:{path.resolve()}?mode=rw&uri=true", connect_args={"timeout": min(self.patience, 5.0)}
        )

        @event.listens_for(engine, "connect")
        def opened(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # transactions are begun explicitly, below
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")

        @event.listens_for(engine, "begin")
        def begun(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # so that what it reads cannot change

        return engine

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        """Run work in one transaction, retried with backoff while the store is unavailable; work must be idempotent."""
        until, pause = time.monotonic() + self.patience, 0.02
        while True:
            try:
                with self.engine.begin() as connection:
                    return work(connection)
            except NoResultFound as problem:
                raise self._damaged("the version row is missing") from problem
            except DBAPIError as problem:
                if not self._is_transient(problem):
                    raise self._damaged(str(problem.orig)[:300]) from problem
                if time.monotonic() > until:
                    raise StoreUnavailable(
                        f"The store {self.name} has not answered for {self.patience:g} s: "
                        f"{str(problem.orig)[:300]}. Finished trials are saved; make it available again, then "
                        "`regard study resume`."
                    ) from problem
                self.engine.dispose()
                time.sleep(pause)
                pause = min(1.0, 2 * pause)

    def _is_transient(self, problem: DBAPIError) -> bool:
        """Whether retrying may help."""
        if self.file is None:
            return isinstance(problem, OperationalError) or problem.connection_invalidated
        return str(getattr(problem.orig, "sqlite_errorname", "")).startswith(TRANSIENT)

    def _damaged(self, why: str) -> DamagedStore:
        if self.file is None:
            return DamagedStore(f"The store {self.name} refused: {why}. Fix that, then `regard study resume`.")
        aside = shlex.quote(f"{self.file}.damaged")
        problem = f"The store {self.file} is damaged, or is no store of studies: {why.rstrip('.')}."
        rescue = f"sqlite3 {aside} .recover | sqlite3 {shlex.quote(str(self.file))}"
        return DamagedStore(
            f"{problem} Restore a backup of it; or `mv {shlex.quote(str(self.file))} {aside}` and either "
            f"`{rescue}` to recover what is readable, or `regard study run` with the study's file: its "
            "trials then resume from their checkpoints."
        )

    def _read(self, text: Any) -> Any:
        """A stored JSON text, parsed."""
        try:
            return json.loads(text)
        except (TypeError, ValueError) as problem:
            raise self._damaged(f"a JSON column holds no JSON ({problem})") from problem

    def close(self) -> None:
        self.engine.dispose()

    def _now(self) -> Any:
        if self.engine.dialect.name == "sqlite":
            return sa.literal_column("((julianday('now') - 2440587.5) * 86400.0)", sa.Float)
        return sa.literal_column("extract(epoch from clock_timestamp())", sa.Float)
