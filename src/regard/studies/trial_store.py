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
from .schema import attempts, studies, take_turns, trials

T = TypeVar("T")
CRASHES = 5  # how often a worker may end under a trial while its runner goes on
LOSSES = 50  # how often a trial may lose its runner: a machine that was stopped, a lease that ran out


@dataclass(frozen=True)
class Lease:
    """A trial that is ours until its token is taken from it."""

    trial: int
    token: str
    task: str
    variant: str
    seed: int
    job: dict[str, Any]


@dataclass(frozen=True)
class StoredTrial:
    """A trial as it stands in the store."""

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


ASIDE = {"waiting": "dropped", "failed": "dropped", "done": "kept"}  # of trials that a study asks for no longer
BACK = {"dropped": "waiting", "kept": "done"}


class Store(Database):
    """Studies, their trials and every attempt at them; where and how long it is waited for: as a `Database`."""

    # studies

    def add(self, name: str, specification: Mapping[str, Any], jobs: Iterable[Mapping[str, Any]]) -> int:
        """A study and its trials, those that are there already and new ones; how many are new.

        A trial that the specification has no longer is set aside: it is not run, its result is kept, and it comes back
        with the specification that has it again.
        """
        listed = list(jobs)

        def work(connection: Connection) -> int:
            take_turns(connection)
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
                _same_ways(name, self._read(found["specification"]), specification)
                connection.execute(studies.update().where(studies.c.id == study).values(specification=text))
            asked = {(job["task"], job["variant"], job["seed"]) for job in listed}
            columns = (trials.c.task, trials.c.variant, trials.c.seed, trials.c.status, trials.c.id)
            query = select(*columns).where(trials.c.study == study)
            there = {tuple(row[:3]): row[3:] for row in connection.execute(query)}
            for key, (status, trial) in there.items():
                changed = (BACK if key in asked else ASIDE).get(status)
                if changed is not None:
                    connection.execute(trials.update().where(trials.c.id == trial).values(status=changed))
            fresh = [job for job in listed if (job["task"], job["variant"], job["seed"]) not in there]
            if fresh:
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
                        for job in fresh
                    ],
                )
            return len(fresh)

        return self._again(work)

    def names(self) -> list[str]:
        return self._again(lambda connection: list(connection.execute(select(studies.c.name).order_by("id")).scalars()))

    def specification(self, study: str) -> dict[str, Any]:
        def work(connection: Connection) -> dict[str, Any]:
            query = select(studies.c.specification).where(studies.c.name == study)
            text = connection.execute(query).scalar_one_or_none()
            if text is None:
                there = ", ".join(connection.execute(select(studies.c.name)).scalars()) or "none"
                raise ValueError(f"The store {self.name} has no study {study!r}; it has {there}.")
            return self._read(text)

        return self._again(work)

    def cancel(self, study: str, wanted: bool = True) -> None:
        self.specification(study)
        query = studies.update().where(studies.c.name == study).values(cancelled=int(wanted))
        self._again(lambda connection: connection.execute(query))

    def cancelled(self, study: str) -> bool:
        query = select(studies.c.cancelled).where(studies.c.name == study)
        return bool(self._again(lambda connection: connection.execute(query).scalar_one()))

    def reopen(self, study: str) -> int:
        """Trials that failed may be tried anew, as often as at first; how many."""

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

        return self._again(work)

    # trials

    def claim(self, study: str, worker: str) -> Lease | None:
        """The next trial that waits, from now on this worker's; None where none waits."""
        token = uuid.uuid4().hex

        def work(connection: Connection) -> Lease | None:
            columns = (trials.c.id, trials.c.task, trials.c.variant, trials.c.seed, trials.c.configuration)
            taken = connection.execute(select(*columns).where(trials.c.token == token)).one_or_none()
            if taken is None:  # else the answer of a commit that held was lost on its way
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

        return self._again(work)

    def beat(self, claims: Iterable[Lease], shares: Mapping[str, tuple[float, str]] | None = None) -> set[str]:
        """Say that these are still being worked on; the tokens that are still theirs."""
        listed, told = list(claims), shares or {}

        def work(connection: Connection) -> set[str]:
            held = set()
            for one in listed:
                share, note = told.get(one.token, (0.0, ""))
                query = trials.update().where(
                    trials.c.id == one.trial, trials.c.token == one.token, trials.c.status == "running"
                )
                query = query.values(beat=self._now(), share=share, note=note[:200])
                if connection.execute(query).rowcount:
                    held.add(one.token)
            return held

        return self._again(work) if listed else set()

    def finish(self, claim: Lease, outcome: Mapping[str, Any]) -> bool:
        """Keep a result; False where the trial is no longer this claim's: then it is another's to finish."""
        apart = ("seconds", "peak", "versions", "hardware")
        rest = {key: value for key, value in outcome.items() if key not in apart}
        values = {
            "status": "done",
            "ended": self._now(),
            "seconds": outcome.get("seconds"),
            "share": 1.0,
            "result": json.dumps(rest, allow_nan=False),
        }
        values |= {key: json.dumps(outcome.get(key)) for key in apart[1:]}
        return self._again(lambda connection: self._end(connection, claim, "done", values, None))

    def fail(self, claim: Lease, error: str, retries: int) -> str:
        """Keep the error; the trial waits again, or has failed where that was its last attempt. Its new status."""
        return self._back(claim, "failed", error, retries)

    def crash(self, claim: Lease, why: str) -> str:
        """The worker ended under it: the trial waits again, unless it has taken too many with it. Its new status."""
        return self._back(claim, "crashed", why, CRASHES)

    def lose(self, claim: Lease, why: str) -> str:
        """The runner is gone, which is no fault of the trial: it waits again. Its new status.

        But a trial that takes its whole machine with it looks the same: after LOSSES times it has failed.
        """
        return self._back(claim, "lost", why, LOSSES)

    def release(self, claim: Lease, why: str) -> None:
        """Given back unfinished for no fault of its own (a stop, a full disk): it waits again and nothing counts."""
        self._back(claim, "stopped", why, None)

    def _back(self, claim: Lease, outcome: str, why: str, most: int | None) -> str:
        def work(connection: Connection) -> str:
            counts = self._attempts(connection, claim.trial)
            status = "failed" if most is not None and counts[outcome] >= most else "waiting"
            counts[outcome] += 1
            said = why
            if status == "failed" and outcome != "failed":
                said = f"{why} ({_said(counts)}). `{self._again_by(connection, claim.trial)}` tries it again"
            self._end(connection, claim, outcome, {"status": status, "worker": None}, said)
            return status

        return self._again(work)

    def ends(self, trial: int) -> dict[str, int]:
        """How often a trial has failed by its own error, crashed its worker or lost its runner since it was opened."""
        return self._again(lambda connection: self._attempts(connection, trial))

    def _attempts(self, connection: Connection, trial: int) -> dict[str, int]:
        opened = select(func.coalesce(func.max(attempts.c.id), 0))
        opened = opened.where(attempts.c.trial == trial, attempts.c.outcome == "reopened")
        query = select(attempts.c.outcome, func.count()).group_by(attempts.c.outcome)
        query = query.where(attempts.c.trial == trial, attempts.c.id > opened.scalar_subquery())
        found = {row[0]: row[1] for row in connection.execute(query)}
        return {outcome: found.get(outcome, 0) for outcome in ("failed", "crashed", "lost", "stopped")}

    def _again_by(self, connection: Connection, trial: int) -> str:
        """What to type for a trial that has failed."""
        if self.file is not None and self.file.name == FILE:
            return f"regard study resume {shlex.quote(str(self.file.parent))} --failed"
        query = select(studies.c.name).join_from(trials, studies).where(trials.c.id == trial)
        name = connection.execute(query).scalar_one()
        return f"regard study resume {name} --store {shlex.quote(self.name)} --failed"

    def _end(
        self, connection: Connection, claim: Lease, outcome: str, values: Mapping[str, Any], error: str | None
    ) -> bool:
        mine = trials.update().where(
            trials.c.id == claim.trial, trials.c.token == claim.token, trials.c.status == "running"
        )
        held = bool(connection.execute(mine.values(**values)).rowcount)
        if not held:  # ended already by this very claim (the answer was lost), or taken from it
            query = select(attempts.c.outcome).where(attempts.c.token == claim.token)
            return connection.execute(query).scalar_one_or_none() == outcome
        ended = attempts.update().where(attempts.c.token == claim.token)
        connection.execute(ended.values(outcome=outcome, ended=self._now(), error=error))
        return True

    def reap(self, study: str, silent: float, gone: Callable[[str], bool] = lambda worker: False) -> int:
        """Trials whose runner has been silent for so long, or is known to be gone, wait again; how many."""
        lost = [
            one
            for one in self.trials(study, ("running",))
            if (one.silent or 0.0) > silent or (one.worker is not None and gone(one.worker))
        ]
        count = 0
        for one in lost:
            query = select(trials.c.token, trials.c.beat).where(trials.c.id == one.id, trials.c.status == "running")
            held = self._again(lambda connection, query=query: connection.execute(query).one_or_none())  # type: ignore[misc]
            if held is not None:
                claim = Lease(one.id, held.token, one.task, one.variant, one.seed, {})
                node = (one.worker or "").partition("|")[0]
                self.lose(claim, f"its runner on {node} was not heard of any more")
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
        query = select(*columns, *([trials.c.result] if results else [])).where(trials.c.study == _id(study))
        if status is not None:
            query = query.where(trials.c.status.in_(list(status)))
        rows = self._again(lambda connection: connection.execute(query.order_by(trials.c.id)).mappings().all())
        made = []
        for row in rows:
            text = row.get("result")
            made.append(StoredTrial(**dict(row) | {"result": None if text is None else self._read(text)}))
        return made

    def counts(self, study: str) -> dict[str, int]:
        query = select(trials.c.status, func.count()).where(trials.c.study == _id(study)).group_by(trials.c.status)
        found = self._again(lambda connection: {row[0]: row[1] for row in connection.execute(query)})
        return {status: found.get(status, 0) for status in ("done", "running", "waiting", "failed")}

    def about(self, trial: int) -> dict[str, Any]:
        """Everything that is kept of a trial: configuration, versions, hardware, memory, and every attempt."""

        def work(connection: Connection) -> dict[str, Any]:
            row = dict(connection.execute(select(trials).where(trials.c.id == trial)).mappings().one())
            for name in ("configuration", "peak", "versions", "hardware", "result"):
                row[name] = None if row[name] is None else self._read(row[name])
            query = select(attempts).where(attempts.c.trial == trial).order_by(attempts.c.id)
            return row | {"attempts": [dict(one) for one in connection.execute(query).mappings()]}

        return self._again(work)


def _said(counts: Mapping[str, int]) -> str:
    words = (("crashed", "its worker ended under it"), ("lost", "its runner was lost"), ("failed", "it failed itself"))
    return ", ".join(f"{says} {count_of(counts[outcome], 'time')}" for outcome, says in words)


def _id(study: str) -> Any:
    return select(studies.c.id).where(studies.c.name == study).scalar_subquery()


def _same_ways(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """A study may grow by tasks, variants and seeds; how a trial is run may not change under its results."""
    for key in ("budget", "threads", "precision", "device", "devices", "judges"):
        if key in old and old[key] != new.get(key):
            raise ValueError(
                f"The study {name!r} is in this store with {key} = {old.get(key)!r}, and now has "
                f"{new.get(key)!r}: its trials would not be comparable. Give it another name, or another "
                "folder with --out."
            )
    before = {one["name"]: one for one in old.get("tasks", ())}
    for task in new.get("tasks", ()):
        if task["name"] in before and before[task["name"]] != task:
            raise ValueError(
                f"The study {name!r} is in this store with another task {task['name']!r}: "
                f"{before[task['name']]} then, {task} now. Give it another name, or another folder with "
                "--out."
            )
