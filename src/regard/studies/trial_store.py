"""Trial store with leases and heartbeats.

A lease has a token, which every later change must name: a runner whose lease expired cannot finish a trial that was
leased to another. All times are those of the database's clock.
"""

import json
import shlex
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select

from ..core.plural import count_of
from .database import FILE, Database
from .schema import attempts, serialise_writers, studies, trials

T = TypeVar("T")
CRASHES = 5  # how often a trial may crash its worker before it has failed
LOSSES = 50  # how often a trial may lose its runner (machine stopped, lease expired) before it has failed


@dataclass(frozen=True)
class Lease:
    """A leased trial; it may be finished as long as its token is valid."""

    trial: int
    token: str
    task: str
    variant: str
    seed: int
    job: dict[str, Any]


@dataclass(frozen=True)
class StoredTrial:
    """A row of the trials table."""

    id: int
    task: str
    variant: str
    seed: int
    status: str
    worker: str | None
    seconds: float | None
    share: float | None
    note: str | None
    running: float | None  # seconds since it began, of a running one
    silent: float | None  # seconds since the last heartbeat
    result: dict[str, Any] | None = None
    peak: dict[str, int] | None = None  # memory of the process and of the GPU, in bytes


WHEN_REMOVED = {
    "waiting": "dropped",
    "failed": "dropped",
    "done": "kept",
}  # new status
WHEN_RESTORED = {"dropped": "waiting", "kept": "done"}


class Store(Database):
    """Studies, their trials and every attempt at them; arguments as for `Database`."""

    # studies

    def add(self, name: str, specification: Mapping[str, Any], jobs: Iterable[Mapping[str, Any]]) -> int:
        """Add a study and its trials, or update an existing one; returns the number of new trials.

        A trial that the specification no longer has is archived: it is not run, its result is kept, and a later
        specification that has it restores it.
        """
        listed = list(jobs)

        def work(connection: Connection) -> int:
            serialise_writers(connection)
            found = connection.execute(select(studies).where(studies.c.name == name)).mappings().one_or_none()
            text = json.dumps(specification)
            if found is None:
                made = connection.execute(
                    studies.insert().values(name=name, specification=text, created=self._now(), cancelled=0)
                )
                assert made.inserted_primary_key is not None
                study = made.inserted_primary_key[0]
            else:
                study = found["id"]
                _check_same_conditions(name, self._read(found["specification"]), specification)
                connection.execute(studies.update().where(studies.c.id == study).values(specification=text))
            wanted = {(job["task"], job["variant"], job["seed"]) for job in listed}
            columns = (trials.c.task, trials.c.variant, trials.c.seed, trials.c.status, trials.c.id)
            query = select(*columns).where(trials.c.study == study)
            existing = {tuple(row[:3]): row[3:] for row in connection.execute(query)}
            for key, (status, trial) in existing.items():
                changed = (WHEN_RESTORED if key in wanted else WHEN_REMOVED).get(status)
                if changed is not None:
                    connection.execute(trials.update().where(trials.c.id == trial).values(status=changed))
            new = [job for job in listed if (job["task"], job["variant"], job["seed"]) not in existing]
            if new:
                connection.execute(
                    trials.insert(),
                    [
                        {
                            "study": study,
                            "task": job["task"],
                            "variant": job["variant"],
                            "seed": job["seed"],
                            "status": "waiting",
                            "configuration": json.dumps(job),
                        }
                        for job in new
                    ],
                )
            return len(new)

        return self._transaction(work)

    def names(self) -> list[str]:
        return self._transaction(
            lambda connection: list(connection.execute(select(studies.c.name).order_by("id")).scalars())
        )

    def specification(self, study: str) -> dict[str, Any]:
        def work(connection: Connection) -> dict[str, Any]:
            query = select(studies.c.specification).where(studies.c.name == study)
            text = connection.execute(query).scalar_one_or_none()
            if text is None:
                names = ", ".join(connection.execute(select(studies.c.name)).scalars()) or "none"
                raise ValueError(f"The store {self.name} has no study {study!r}; it has {names}.")
            return self._read(text)

        return self._transaction(work)

    def cancel(self, study: str, wanted: bool = True) -> None:
        self.specification(study)
        query = studies.update().where(studies.c.name == study).values(cancelled=int(wanted))
        self._transaction(lambda connection: connection.execute(query))

    def cancelled(self, study: str) -> bool:
        query = select(studies.c.cancelled).where(studies.c.name == study)
        return bool(self._transaction(lambda connection: connection.execute(query).scalar_one()))

    def reopen(self, study: str) -> int:
        """Requeue failed trials with fresh retries; returns their number."""

        def work(connection: Connection) -> int:
            query = select(trials.c.id).where(trials.c.study == _id(study), trials.c.status == "failed")
            found = list(connection.execute(query.with_for_update()).scalars())
            for trial in found:
                connection.execute(
                    attempts.insert().values(
                        trial=trial, token=uuid.uuid4().hex, began=self._now(), ended=self._now(), outcome="reopened"
                    )
                )
                connection.execute(trials.update().where(trials.c.id == trial).values(status="waiting"))
            return len(found)

        return self._transaction(work)

    # trials

    def claim(self, study: str, worker: str) -> Lease | None:
        """Lease the next waiting trial to a worker; None if none waits."""
        token = uuid.uuid4().hex

        def work(connection: Connection) -> Lease | None:
            columns = (trials.c.id, trials.c.task, trials.c.variant, trials.c.seed, trials.c.configuration)
            taken = connection.execute(select(*columns).where(trials.c.token == token)).one_or_none()
            if taken is None:  # otherwise an earlier try was committed, and its response was lost
                waiting = select(trials.c.id).where(trials.c.study == _id(study), trials.c.status == "waiting")
                waiting = waiting.order_by(trials.c.id).limit(1).with_for_update(skip_locked=True)
                now = self._now()
                query = trials.update().where(trials.c.id == waiting.scalar_subquery())
                query = query.values(
                    status="running", worker=worker, token=token, began=now, beat=now, share=0.0, note=""
                )
                taken = connection.execute(query.returning(*columns)).one_or_none()
                if taken is None:
                    return None
                connection.execute(
                    attempts.insert().values(trial=taken.id, token=token, worker=worker, began=now, outcome="running")
                )
            job = self._read(taken.configuration)
            return Lease(taken.id, token, taken.task, taken.variant, taken.seed, job)

        return self._transaction(work)

    def heartbeat(self, leases: Iterable[Lease], progress: Mapping[str, tuple[float, str]] | None = None) -> set[str]:
        """Renew leases, with their progress (share and note) by token; returns the tokens that are still valid."""
        listed, latest = list(leases), progress or {}

        def work(connection: Connection) -> set[str]:
            valid = set()
            for one in listed:
                share, note = latest.get(one.token, (0.0, ""))
                query = trials.update().where(
                    trials.c.id == one.trial, trials.c.token == one.token, trials.c.status == "running"
                )
                query = query.values(beat=self._now(), share=share, note=note[:200])
                if connection.execute(query).rowcount:
                    valid.add(one.token)
            return valid

        return self._transaction(work) if listed else set()

    def finish(self, lease: Lease, outcome: Mapping[str, Any]) -> bool:
        """Save a result; False if the lease is no longer valid."""
        columns = ("seconds", "peak", "versions", "hardware")
        rest = {key: value for key, value in outcome.items() if key not in columns}
        values = {
            "status": "done",
            "ended": self._now(),
            "seconds": outcome.get("seconds"),
            "share": 1.0,
            "result": json.dumps(rest, allow_nan=False),
        }
        values |= {key: json.dumps(outcome.get(key)) for key in columns[1:]}
        return self._transaction(lambda connection: self._end(connection, lease, "done", values, None))

    def fail(self, lease: Lease, error: str, retries: int) -> str:
        """Save the error; the trial is requeued, or has failed if no retry is left. Returns its new status."""
        return self._requeue(lease, "failed", error, retries)

    def crash(self, lease: Lease, why: str) -> str:
        """The worker process died: requeue, unless the trial has crashed too many. Returns its new status."""
        return self._requeue(lease, "crashed", why, CRASHES)

    def lose(self, lease: Lease, why: str) -> str:
        """The runner died, which is not the trial's fault: requeue. Returns its new status.

        A trial that crashes its whole machine looks the same, so after LOSSES losses it has failed.
        """
        return self._requeue(lease, "lost", why, LOSSES)

    def release(self, lease: Lease, why: str) -> None:
        """End a lease early (a stop, a full disk): requeue, without counting an attempt."""
        self._requeue(lease, "stopped", why, None)

    def _requeue(self, lease: Lease, outcome: str, why: str, most: int | None) -> str:
        def work(connection: Connection) -> str:
            counts = self._attempts(connection, lease.trial)
            status = "failed" if most is not None and counts[outcome] >= most else "waiting"
            counts[outcome] += 1
            error = why
            if status == "failed" and outcome != "failed":
                error = f"{why} ({_attempt_text(counts)}). `{self._retry_command(connection, lease.trial)}` retries it"
            self._end(connection, lease, outcome, {"status": status, "worker": None}, error)
            return status

        return self._transaction(work)

    def attempt_counts(self, trial: int) -> dict[str, int]:
        """How often a trial has raised an error, crashed its worker or lost its runner since it was last opened."""
        return self._transaction(lambda connection: self._attempts(connection, trial))

    def _attempts(self, connection: Connection, trial: int) -> dict[str, int]:
        last_opened = select(func.coalesce(func.max(attempts.c.id), 0))
        last_opened = last_opened.where(attempts.c.trial == trial, attempts.c.outcome == "reopened")
        query = select(attempts.c.outcome, func.count()).group_by(attempts.c.outcome)
        query = query.where(attempts.c.trial == trial, attempts.c.id > last_opened.scalar_subquery())
        found = {row[0]: row[1] for row in connection.execute(query)}
        return {outcome: found.get(outcome, 0) for outcome in ("failed", "crashed", "lost", "stopped")}

    def _retry_command(self, connection: Connection, trial: int) -> str:
        """The command that retries a failed trial."""
        if self.file is not None and self.file.name == FILE:
            return f"regard study resume {shlex.quote(str(self.file.parent))} --failed"
        query = select(studies.c.name).join_from(trials, studies).where(trials.c.id == trial)
        name = connection.execute(query).scalar_one()
        return f"regard study resume {name} --store {shlex.quote(self.name)} --failed"

    def _end(
        self, connection: Connection, lease: Lease, outcome: str, values: Mapping[str, Any], error: str | None
    ) -> bool:
        mine = trials.update().where(
            trials.c.id == lease.trial, trials.c.token == lease.token, trials.c.status == "running"
        )
        valid = bool(connection.execute(mine.values(**values)).rowcount)
        if not valid:  # ended already by this lease (the response was lost), or expired
            query = select(attempts.c.outcome).where(attempts.c.token == lease.token)
            return connection.execute(query).scalar_one_or_none() == outcome
        ended = attempts.update().where(attempts.c.token == lease.token)
        connection.execute(ended.values(outcome=outcome, ended=self._now(), error=error))
        return True

    def reap(self, study: str, silent: float, is_dead: Callable[[str], bool] = lambda worker: False) -> int:
        """Requeue trials without a heartbeat for `silent` seconds, or with a dead runner; returns their number."""
        lost = [
            one
            for one in self.trials(study, ("running",))
            if (one.silent or 0.0) > silent or (one.worker is not None and is_dead(one.worker))
        ]
        count = 0
        for one in lost:
            query = select(trials.c.token, trials.c.beat).where(trials.c.id == one.id, trials.c.status == "running")
            row = self._transaction(lambda connection, query=query: connection.execute(query).one_or_none())  # type: ignore[misc]
            if row is not None:
                lease = Lease(one.id, row.token, one.task, one.variant, one.seed, {})
                node = (one.worker or "").partition("|")[0]
                self.lose(lease, f"its runner on {node} sent no more heartbeats")
                count += 1
        return count

    def trials(self, study: str, status: Iterable[str] | None = None, results: bool = False) -> list[StoredTrial]:
        """In the order of the specification."""
        now = self._now()
        columns = [
            trials.c.id,
            trials.c.task,
            trials.c.variant,
            trials.c.seed,
            trials.c.status,
            trials.c.worker,
            trials.c.seconds,
            trials.c.share,
            trials.c.note,
            (now - trials.c.began).label("running"),
            (now - trials.c.beat).label("silent"),
        ]
        query = select(*columns, *([trials.c.result, trials.c.peak] if results else [])).where(
            trials.c.study == _id(study)
        )
        if status is not None:
            query = query.where(trials.c.status.in_(list(status)))
        rows = self._transaction(lambda connection: connection.execute(query.order_by(trials.c.id)).mappings().all())
        made = []
        for row in rows:
            texts = {name: row.get(name) for name in ("result", "peak")}
            read = {name: None if text is None else self._read(text) for name, text in texts.items()}
            made.append(StoredTrial(**dict(row) | read))
        return made

    def counts(self, study: str) -> dict[str, int]:
        query = select(trials.c.status, func.count()).where(trials.c.study == _id(study)).group_by(trials.c.status)
        found = self._transaction(lambda connection: {row[0]: row[1] for row in connection.execute(query)})
        return {status: found.get(status, 0) for status in ("done", "running", "waiting", "failed")}

    def about(self, trial: int) -> dict[str, Any]:
        """Everything stored of a trial: configuration, versions, hardware, memory, and every attempt."""

        def work(connection: Connection) -> dict[str, Any]:
            row = dict(connection.execute(select(trials).where(trials.c.id == trial)).mappings().one())
            for name in ("configuration", "peak", "versions", "hardware", "result"):
                row[name] = None if row[name] is None else self._read(row[name])
            query = select(attempts).where(attempts.c.trial == trial).order_by(attempts.c.id)
            return row | {"attempts": [dict(one) for one in connection.execute(query).mappings()]}

        return self._transaction(work)


def _attempt_text(counts: Mapping[str, int]) -> str:
    words = (("crashed", "its worker crashed"), ("lost", "its runner was lost"), ("failed", "it raised an error"))
    return ", ".join(f"{says} {count_of(counts[outcome], 'time')}" for outcome, says in words)


def _id(study: str) -> Any:
    return select(studies.c.id).where(studies.c.name == study).scalar_subquery()


LATER_FIELDS: dict[str, Any] = {
    "splits": 0,
    "overlap": 0.0,
}  # of a task: stores of earlier versions lack them, and meant this

OPTIONAL_FIELDS = ("tuning", "match")  # of a study: left out where they say nothing


def _check_same_conditions(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Tasks, variants and seeds may be added to a study; the conditions of its trials may not change."""
    for key in ("budget", "threads", "precision", "device", "devices", "judges", *OPTIONAL_FIELDS):
        if (key in old or key in OPTIONAL_FIELDS) and (old.get(key) or None) != (new.get(key) or None):
            raise ValueError(
                f"The study {name!r} is in this store with {key} = {old.get(key)!r}, and now has "
                f"{new.get(key)!r}: its trials would not be comparable. Give it another name, or another "
                "folder with --out."
            )
    before = {one["name"]: LATER_FIELDS | one for one in old.get("tasks", ())}
    for task in (LATER_FIELDS | one for one in new.get("tasks", ())):
        if task["name"] in before and before[task["name"]] == task | {"digest": before[task["name"]].get("digest")}:
            if before[task["name"]].get("digest") != task.get("digest"):
                raise ValueError(
                    f"The study {name!r} is in this store with another content of {task['options'].get('data')}: its "
                    "trials would not be comparable. Put the old file back, give the study another name, or name "
                    "another folder with --out."
                )
        elif task["name"] in before and before[task["name"]] != task:
            raise ValueError(
                f"The study {name!r} is in this store with another task {task['name']!r}: "
                f"{before[task['name']]} then, {task} now. Give it another name, or another folder with "
                "--out."
            )
