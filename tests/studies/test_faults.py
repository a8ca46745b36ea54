"""Studies under faults: whatever dies, no finished trial is lost or run twice, and the table is that of a quiet run."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import sqlalchemy as sa
from tests.studies.tasks_of_tests import value

from regard.studies import Study
from regard.studies.database import StoreUnavailable
from regard.studies.local_engine import LocalEngine
from regard.studies.run_study import run, store_of
from regard.studies.trial_runner import DiskFull, Runner, RunnerCallbacks
from regard.studies.trial_store import Store

VARIANTS = ("a", "b", "c")


def study(task="steady", seeds=8, variants=VARIANTS, **options):
    part = {"task": f"tasks_of_tests:{task}", "metrics": {"score": "higher"}, "options": options}
    return Study(name="one", tasks=[part], variants=variants, seeds=seeds)


def is_that_of_a_quiet_run(found, made):
    """Second computation: what each trial must give, from the arguments alone."""
    rows = [(row.seed, row.variant, row.value, row.scores) for row in found.rows]
    want = [
        (seed, name, value(name, seed), (value(name, seed), float(seed)))
        for seed in made.seeds
        for name in made.variant_names().values()
    ]
    return rows == want and not found.missing


def every_trial_was_finished_once(where):
    store = Store(where)
    for one in store.trials("one"):
        outcomes = [attempt["outcome"] for attempt in store.about(one.id)["attempts"]]
        assert outcomes[-1] == "done" and outcomes.count("done") == 1, outcomes
    store.close()
    return True


def attempts(where):
    store = Store(where)
    found = [attempt["outcome"] for one in store.trials("one") for attempt in store.about(one.id)["attempts"]]
    store.close()
    return found


def test_a_study_with_errors_keeps_them_and_finishes_the_rest(tmp_path):
    made = study("failing", 2, ("good", "bad", "twice"), folder=str(tmp_path))
    found = run(made, tmp_path / "out", workers=2)
    assert {(one.variant, one.seed) for one in found.missing} == {("bad", 0), ("bad", 1)}
    assert all(one.why == "RuntimeError: nothing works today" for one in found.missing)
    assert {row.variant for row in found.rows} == {"good", "twice"}
    outcomes = attempts(tmp_path / "out" / "store.sqlite")
    assert outcomes.count("failed") == 2 * 3 + 2 * 2 and outcomes.count("done") == 4


def test_a_task_that_kills_its_worker_is_given_up_and_the_others_are_done(tmp_path):
    found = run(study("deadly", 1, ("bad", "good")), tmp_path, workers=1)
    (missing,) = found.missing
    assert missing.variant == "bad" and missing.why.startswith(
        "the worker process ended by signal 9 (its worker crashed 6 times, its runner was lost 0 times, "
        "it raised an error 0 times). `regard study resume "
    )
    assert [row.variant for row in found.rows] == ["good"]


def test_workers_killed_at_random_moments_cost_only_the_trials_they_had(tmp_path):
    made, draw, killed = study(), random.Random(5), []
    store = store_of(tmp_path, create=True)
    store.add(made.name, made.plain(), made.jobs())
    engine = LocalEngine(2)

    def started(slot, lease):
        if len(killed) < 6 and draw.random() < 0.4:
            process = engine.workers[slot].process
            killed.append(threading.Timer(0.01 * draw.random(), process.kill))
            killed[-1].start()

    from regard.studies.aggregate import collect

    assert Runner(store, "one", engine, tmp_path, callbacks=RunnerCallbacks(started=started)).run()
    for one in killed:
        one.join()
    assert is_that_of_a_quiet_run(collect(store, made), made)
    store.close()
    assert every_trial_was_finished_once(tmp_path / "store.sqlite")
    assert len(killed) == 6


RUNNER = """
    import sys
    from regard.studies import Study
    from regard.studies.run_study import run
    run(Study.model_validate_json(sys.argv[1]), sys.argv[2], store=sys.argv[3], workers=2)
"""


def runner(made, folder, where):
    """Another process that runs the study."""
    plain = made.model_dump_json()
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUNNER), plain, str(folder), str(where)], start_new_session=True
    )


def done(where, count):
    """Wait until so many trials are done; the store is looked at by the database alone."""
    while True:
        try:
            with sqlite3.connect(where) as store:
                found = store.execute("SELECT count(*) FROM regard_trials WHERE status = 'done'").fetchone()[0]
            if found >= count:
                return
        except sqlite3.OperationalError:
            pass
        time.sleep(0.005)


def children(process):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def ended(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="Processes are looked at in /proc.")
def test_a_killed_runner_leaves_no_worker_and_the_next_runs_exactly_what_is_missing(tmp_path):
    """One runner is killed in the middle while a second shares its store; the second is killed too; a third ends it."""
    made, where = study(seeds=30, seconds=0.02), tmp_path / "store.sqlite"
    one = runner(made, tmp_path, where)
    done(where, 8)
    one.send_signal(signal.SIGSTOP)  # so that it is not at its end before its workers are counted
    workers = children(one.pid)
    one.kill()
    one.wait()
    assert len(workers) == 2
    while not all(map(ended, workers)):  # they end with their input
        time.sleep(0.01)
    two = runner(made, tmp_path, where)
    done(where, 30)
    other = {}
    thread = threading.Thread(target=lambda: other.update(found=run(made, tmp_path, workers=1)))
    thread.start()  # a second runner on the same store
    done(where, 50)
    two.send_signal(signal.SIGKILL)
    two.wait()
    thread.join()
    assert is_that_of_a_quiet_run(other["found"], made)
    assert every_trial_was_finished_once(where)
    assert 1 <= attempts(where).count("lost") <= 4  # two workers each


def test_two_runners_share_a_store_without_running_anything_twice(where, tmp_path):
    made, found = study(seeds=10), {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: run(made, tmp_path, store=where, workers=1)}))
        for n in range(2)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 2 and all(is_that_of_a_quiet_run(one, made) for one in found.values())
    assert attempts(where) == ["done"] * 30


def test_a_runner_waits_for_a_trial_that_another_is_about_to_claim(on_server, tmp_path, monkeypatch):
    """A row that another transaction holds is passed over, and counts as waiting until that one is over."""
    made, found, refused, claim = study(seeds=1), {}, [], Store.claim

    def counted(store, *given):
        got = claim(store, *given)
        if got is None:
            refused.append(given)
        return got

    monkeypatch.setattr(Store, "claim", counted)
    store = Store(on_server)
    store.add(made.name, made.plain(), made.jobs())
    with store.engine.connect() as other:
        other.execute(sa.text("SELECT id FROM regard_trials ORDER BY id DESC LIMIT 1 FOR UPDATE"))
        thread = threading.Thread(target=lambda: found.update(table=run(made, tmp_path, store=on_server, workers=1)))
        thread.start()
        while len(refused) < 2 and thread.is_alive():  # once refused, it asks again
            time.sleep(0.005)
        other.rollback()
    thread.join()
    store.close()
    assert is_that_of_a_quiet_run(found["table"], made)


def test_a_study_that_is_done_runs_nothing_and_one_that_grew_runs_only_what_is_new(tmp_path):
    run(study(seeds=2), tmp_path, workers=1)
    began = []
    callbacks = RunnerCallbacks(started=lambda slot, lease: began.append((lease.variant, lease.seed)))
    assert is_that_of_a_quiet_run(run(study(seeds=2), tmp_path, workers=1, callbacks=callbacks), study(seeds=2))
    assert began == []
    run(study(seeds=2, variants=("a", "b", "c", "d")), tmp_path, workers=1, callbacks=callbacks)
    assert began == [("d", 0), ("d", 1)]


def test_a_cancelled_study_stops_and_goes_on_when_it_is_resumed(tmp_path):
    made, other = study(seconds=0.05), store_of(tmp_path, create=True)

    def ended_one(slot, lease, how, seconds, why):
        other.cancel("one")

    found = run(made, tmp_path, workers=1, callbacks=RunnerCallbacks(ended=ended_one), heartbeat=0.05)
    assert found.rows and found.missing
    assert {one.why for one in found.missing} == {"waiting"}
    assert is_that_of_a_quiet_run(run(made, tmp_path, workers=2), made)
    assert every_trial_was_finished_once(tmp_path / "store.sqlite")
    other.close()


def test_a_full_disk_stops_the_study_and_costs_no_attempt(tmp_path):
    full = tmp_path / "full"
    full.touch()
    made = study("limited", 3, full=str(full))
    with pytest.raises(DiskFull, match="free some space, then `regard study resume`"):
        run(made, tmp_path, workers=2)
    assert "failed" not in attempts(tmp_path / "store.sqlite")
    full.unlink()
    assert is_that_of_a_quiet_run(run(made, tmp_path, workers=2), made)
    assert every_trial_was_finished_once(tmp_path / "store.sqlite")


def test_a_disk_that_is_full_for_the_store_too_loses_nothing_that_was_done(small_disk):
    made, ended, filler = study("writing", 5), [], small_disk / "filler"

    def fill(slot, lease, how, seconds, why):
        ended.append(how)
        if len(ended) == 4:
            with pytest.raises(OSError, match="space"), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)

    with pytest.raises((DiskFull, StoreUnavailable), match="regard study resume"):
        run(made, small_disk, workers=2, patience=0.2, callbacks=RunnerCallbacks(ended=fill))
    filler.unlink()
    store = Store(small_disk / "store.sqlite")
    kept = {(one.variant, one.seed) for one in store.trials("one", ("done",))}
    store.close()
    assert ended.count("done") <= len(kept) < 15
    began = []
    callbacks = RunnerCallbacks(started=lambda slot, lease: began.append((lease.variant, lease.seed)))
    assert is_that_of_a_quiet_run(run(made, small_disk, workers=2, callbacks=callbacks), made)
    assert not kept & set(began) and len(kept) + len(began) == 15
    assert every_trial_was_finished_once(small_disk / "store.sqlite")


def test_a_store_that_goes_away_for_a_while_is_waited_for(tmp_path):
    made, path = study(), tmp_path / "store.sqlite"
    store = store_of(tmp_path, create=True)
    store.add(made.name, made.plain(), made.jobs())
    gone = []

    def ended_one(slot, lease, how, seconds, why):
        if len(gone) < 2 and lease.seed in (2, 5) and lease.variant == "a":
            path.rename(tmp_path / "away")
            store.engine.dispose()  # who asks for it now finds nothing
            gone.append(threading.Timer(0.2, lambda: (tmp_path / "away").rename(path)))
            gone[-1].start()

    from regard.studies.aggregate import collect

    Runner(store, "one", LocalEngine(2), tmp_path, callbacks=RunnerCallbacks(ended=ended_one)).run()
    assert len(gone) == 2
    assert is_that_of_a_quiet_run(collect(store, made), made)
    store.close()
    assert attempts(path) == ["done"] * 24


def test_a_server_that_is_killed_and_started_again_loses_nothing(server, tmp_path):
    made = study()
    store = Store(server.url)
    fresh = Study(**made.model_dump() | {"name": "restarted"})
    store.close()
    restarted = []

    def ended_one(slot, lease, how, seconds, why):
        if not restarted and lease.seed == 3:
            restarted.append(True)
            server.stop()
            threading.Timer(0.3, server.start).start()

    found = run(fresh, tmp_path, store=server.url, workers=2, callbacks=RunnerCallbacks(ended=ended_one))
    assert restarted and is_that_of_a_quiet_run(found, fresh)


def test_what_a_task_prints_does_not_disturb_its_answers(tmp_path):
    shares = []
    made = study("talkative", 2)
    found = run(
        made,
        tmp_path,
        workers=1,
        callbacks=RunnerCallbacks(progress=lambda slot, share, note: shares.append((share, note))),
    )
    assert is_that_of_a_quiet_run(found, made)
    assert shares == [(0.5, "half")] * 6
    assert "not JSON" in (tmp_path / "worker-0.log").read_text()


def test_a_warm_worker_gives_what_a_fresh_one_gives(tmp_path):
    made = study("drawing", 3)
    warm = run(made, tmp_path / "warm", workers=1)
    for seed, name, place in ((2, "c", 8), (0, "b", 1)):
        alone = Study(**made.model_dump() | {"seeds": [seed], "variants": [name], "baseline": ""})
        assert run(alone, tmp_path / f"{name}{seed}", workers=1).rows == [warm.rows[place]]


def test_an_undefined_number_is_kept_as_such_and_an_infinite_one_is_an_error(tmp_path):
    found = run(study("nothing", 1, ("undefined", "endless")), tmp_path, workers=1)
    assert [(row.variant, row.value) for row in found.rows] == [("undefined", None)]
    assert "score is inf" in found.missing[0].why
