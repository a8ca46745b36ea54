"""The store: a trial is claimed by one, finished once, given back when lost; nothing that was kept is lost."""

import random
import sqlite3
import threading

import pytest

from regard.studies import Study
from regard.studies.database import DamagedStore, StoreUnavailable
from regard.studies.trial_store import CRASHES, LOSSES, Store

OUTCOME = {
    "numbers": {"score": 0.1},
    "scores": {"score": [0.1, 1 / 3]},
    "seconds": 1.5,
    "peak": {"process": 7},
    "versions": {"python": "3"},
    "hardware": {"cores": 2},
}


def study(variants=("a", "b"), seeds=3, **options):
    return Study(name="one", tasks=["trivial"], variants=variants, seeds=seeds, **options)


def filled(where, **options):
    store = Store(where)
    made = study(**options)
    store.add(made.name, made.plain(), made.jobs())
    return store


def test_a_trial_goes_from_waiting_to_done_and_everything_about_it_is_kept(where):
    store = filled(where)
    lease = store.claim("one", "w")
    assert (lease.task, lease.variant, lease.seed) == ("trivial", "a", 0)
    assert store.counts("one") == {"done": 0, "running": 1, "waiting": 5, "failed": 0}
    store.heartbeat([lease], {lease.token: (0.5, "half")})
    assert [(one.share, one.note) for one in store.trials("one", ("running",))] == [(0.5, "half")]
    assert store.finish(lease, OUTCOME)
    kept = store.about(lease.trial)
    assert kept["status"] == "done" and kept["seconds"] == 1.5 and kept["peak"] == {"process": 7}
    assert kept["versions"] == {"python": "3"} and kept["hardware"] == {"cores": 2}
    assert kept["configuration"] == study().jobs()[0]
    assert kept["result"] == {"numbers": {"score": 0.1}, "scores": {"score": [0.1, 1 / 3]}}  # to the last bit
    assert [one["outcome"] for one in kept["attempts"]] == ["done"]
    store.close()


def test_many_that_claim_at_once_never_get_the_same_trial(where):
    store = filled(where, variants=["a", "b", "c", "d"], seeds=15)
    taken, lock = [], threading.Lock()

    def claim_all(number):
        mine = Store(where)
        while (lease := mine.claim("one", f"w{number}")) is not None:
            with lock:
                taken.append(lease.trial)
        mine.close()

    threads = [threading.Thread(target=claim_all, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(taken) == 60 == len(set(taken))
    store.close()


def test_an_error_is_kept_with_each_attempt_and_the_last_one_fails_the_trial(where):
    store = filled(where, variants=["a"], seeds=1)
    for attempt in range(3):
        lease = store.claim("one", "w")
        assert store.fail(lease, f"error {attempt}", retries=2) == ("failed" if attempt == 2 else "waiting")
    assert store.claim("one", "w") is None
    assert [one["error"] for one in store.about(lease.trial)["attempts"]] == ["error 0", "error 1", "error 2"]
    assert store.reopen("one") == 1 and store.claim("one", "w") is not None
    store.close()


def test_who_was_silent_loses_its_claim_and_cannot_finish_it_any_more(where):
    store = filled(where, variants=["a"], seeds=1)
    old = store.claim("one", "w")
    assert store.reap("one", silent=100.0) == 0
    assert store.reap("one", silent=-1.0) == 1
    new = store.claim("one", "v")
    assert new.trial == old.trial
    assert store.heartbeat([old, new]) == {new.token}
    assert not store.finish(old, OUTCOME | {"numbers": {"score": 9.0}})
    assert store.fail(old, "late", 0) and store.trials("one")[0].status == "running"
    assert store.finish(new, OUTCOME)
    assert not store.finish(old, OUTCOME)
    kept = store.about(new.trial)
    assert kept["result"]["numbers"] == {"score": 0.1}
    assert [one["outcome"] for one in kept["attempts"]] == ["lost", "done"]
    store.close()


def test_what_is_said_twice_because_the_answer_was_lost_counts_once(where):
    store = filled(where, variants=["a"], seeds=1)
    lease = store.claim("one", "w")
    assert store.finish(lease, OUTCOME) and store.finish(lease, OUTCOME)
    assert len(store.about(lease.trial)["attempts"]) == 1
    store.close()


def test_a_runner_that_is_known_to_be_gone_is_not_waited_for(where):
    store = filled(where, variants=["a", "b"], seeds=1)
    store.claim("one", "dead/0")
    store.claim("one", "alive/0")
    assert store.reap("one", 100.0, lambda worker: worker.startswith("dead")) == 1
    assert [(one.variant, one.status) for one in store.trials("one")] == [("a", "waiting"), ("b", "running")]
    store.close()


def test_a_trial_that_takes_every_worker_with_it_fails_in_the_end(where):
    store = filled(where, variants=["a"], seeds=1)
    for crash in range(CRASHES + 1):
        assert store.crash(store.claim("one", "w"), "gone") == ("failed" if crash == CRASHES else "waiting")
    store.close()


def test_a_trial_whose_runners_are_lost_is_blamed_for_none_of_them_up_to_a_larger_limit_which_says_what_to_type(where):
    store = filled(where, variants=["a"], seeds=1)
    assert LOSSES > 6 * CRASHES
    for loss in range(LOSSES + 1):
        lease = store.claim("one", "machine|1/0")
        if loss % 10 == 0 and loss < 20:  # its own errors are counted apart
            assert store.fail(lease, "ValueError: not yet", retries=2) == "waiting"
            lease = store.claim("one", "machine|1/0")
        assert store.reap("one", silent=-1.0) == 1
        assert store.counts("one")["failed"] == (loss == LOSSES)
    assert store.attempt_counts(lease.trial) == {"failed": 2, "crashed": 0, "lost": LOSSES + 1, "stopped": 0}
    said = store.about(lease.trial)["attempts"][-1]["error"]
    assert said.startswith("its runner on machine sent no more heartbeats (")
    assert f"(its worker crashed 0 times, its runner was lost {LOSSES + 1} times, it raised an error 2 times)" in said
    assert "`regard study resume " in said
    assert said.endswith(" --failed` retries it") and "\n" not in said
    store.close()


def test_a_trial_that_is_tried_anew_has_as_many_attempts_as_at_first(where):
    store = filled(where, variants=["a"], seeds=1)
    for _ in range(2):
        for attempt in range(3):
            assert store.fail(store.claim("one", "w"), "error", 2) == ("failed" if attempt == 2 else "waiting")
        assert store.reopen("one") == 1
    assert store.attempt_counts(store.claim("one", "w").trial)["failed"] == 0
    store.close()


def looked_at(path):
    """All that commands read of a store."""
    store = Store(path, patience=0.0)
    try:
        for name in store.names():
            Study.model_validate(store.specification(name))
            store.counts(name)
            for one in store.trials(name, results=True):
                store.about(one.id)
    finally:
        store.close()


@pytest.mark.parametrize("text", [b"no database, but long enough to be taken for one" * 9, b"SQLite format 3\0" * 90])
def test_a_file_that_is_no_store_is_refused_at_once_with_what_to_type(tmp_path, text):
    path = tmp_path / "store.sqlite"
    path.write_bytes(text)
    with pytest.raises(DamagedStore, match=r"(?s)damaged, or is no store.*mv .*\.recover.*regard study run"):
        Store(path)


def test_a_store_damaged_anywhere_is_a_sentence_and_never_waited_for(tmp_path):
    """Bytes changed, pages cut off: it is read as it was, or refused."""
    path, draw, refused = tmp_path / "store.sqlite", random.Random(3), 0
    store = filled(path)
    store.finish(store.claim("one", "w"), OUTCOME)
    store.close()
    whole = path.read_bytes()
    for _ in range(60):
        damaged = bytearray(whole[: draw.choice([len(whole), draw.randrange(1, len(whole))])])
        for _ in range(draw.choice([1, 40, 400])):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        for other in tmp_path.iterdir():
            other.unlink()
        path.write_bytes(damaged)
        try:
            looked_at(path)
        except (OSError, ValueError) as problem:  # what commands tell in a sentence
            assert not isinstance(problem, StoreUnavailable) or "unable to open" in str(problem), problem
            refused += 1
    assert refused > 20


def test_a_table_that_is_missing_is_no_reason_to_wait(tmp_path):
    filled(tmp_path / "store.sqlite").close()
    with sqlite3.connect(tmp_path / "store.sqlite") as other:
        other.execute("DROP TABLE regard_attempts")
    store = Store(tmp_path / "store.sqlite")
    with pytest.raises(DamagedStore, match="no such table"):
        store.claim("one", "w")
    store.close()


def test_a_folder_and_an_address_of_no_database_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="name a file"):
        Store(tmp_path)
    with pytest.raises(ValueError, match="postgresql://user@host/name"):
        Store("nothing://here")


def test_a_trial_given_back_for_no_fault_of_its_own_loses_no_attempt(where):
    store = filled(where, variants=["a"], seeds=1)
    for _ in range(10):
        store.release(store.claim("one", "w"), "the disk is full")
    assert store.counts("one")["waiting"] == 1
    store.close()


def test_a_study_grows_by_variants_and_seeds_and_keeps_what_is_done(where):
    store = filled(where, variants=["a"], seeds=1)
    store.finish(store.claim("one", "w"), OUTCOME)
    more = study(variants=["a", "b"], seeds=2)
    assert store.add("one", more.plain(), more.jobs()) == 3
    assert store.counts("one") == {"done": 1, "running": 0, "waiting": 3, "failed": 0}
    assert store.specification("one")["seeds"] == [0, 1]
    store.close()


def test_what_a_study_no_longer_asks_for_is_not_run_and_comes_back_with_its_result(where):
    store = filled(where)
    for _ in range(4):  # two seeds of a and b
        store.finish(store.claim("one", "w"), OUTCOME)
    less = study(variants=["a"], seeds=4)
    assert store.add("one", less.plain(), less.jobs()) == 1
    assert store.counts("one") == {"done": 2, "running": 0, "waiting": 2, "failed": 0}
    assert [store.claim("one", "w").variant for _ in range(2)] == ["a", "a"] and store.claim("one", "w") is None
    whole = study(seeds=4)
    assert store.add("one", whole.plain(), whole.jobs()) == 1
    assert store.counts("one") == {"done": 4, "running": 2, "waiting": 2, "failed": 0}
    assert [one.result["numbers"] for one in store.trials("one", ("done",), results=True)] == [{"score": 0.1}] * 4
    store.close()


@pytest.mark.parametrize(
    "change",
    [{"budget": {"steps": 5}}, {"threads": 2}, {"tasks": [{"task": "trivial", "options": {"milliseconds": 1}}]}],
)
def test_how_trials_are_run_may_not_change_under_their_results(tmp_path, change):
    store = filled(tmp_path / "store.sqlite")
    other = Study(**{"name": "one", "tasks": ["trivial"], "variants": ["a", "b"], "seeds": 3} | change)
    with pytest.raises(ValueError, match="another name"):
        store.add("one", other.plain(), other.jobs())
    store.close()


def test_a_study_that_is_not_there_is_told_with_those_that_are(where):
    store = filled(where)
    with pytest.raises(ValueError, match="no study 'two'; it has one"):
        store.specification("two")
    store.close()


def test_a_file_of_the_first_version_is_brought_up_to_date_with_its_results(tmp_path):
    path = tmp_path / "old.sqlite"
    store = filled(path)
    store.finish(store.claim("one", "w"), OUTCOME)
    store.close()
    old = sqlite3.connect(path)  # version 1 had no share and no note
    old.executescript(
        "ALTER TABLE regard_trials DROP COLUMN share; ALTER TABLE regard_trials DROP COLUMN note;"
        "UPDATE regard_version SET version = 1;"
    )
    old.commit()
    old.close()
    store = Store(path)
    done = store.trials("one", ("done",), results=True)
    assert [one.result["numbers"] for one in done] == [{"score": 0.1}] and done[0].share is None
    assert store.finish(store.claim("one", "w"), OUTCOME)
    store.close()
    assert sqlite3.connect(path).execute("SELECT version FROM regard_version").fetchall() == [(2,)]


def test_a_store_of_a_later_version_is_refused_with_what_to_do(tmp_path):
    filled(tmp_path / "new.sqlite").close()
    with sqlite3.connect(tmp_path / "new.sqlite") as later:
        later.execute("UPDATE regard_version SET version = 99")
    with pytest.raises(ValueError, match="pip install -U regard"):
        Store(tmp_path / "new.sqlite")


def test_a_store_that_is_locked_for_a_while_is_waited_for_and_not_for_ever(tmp_path):
    path = tmp_path / "store.sqlite"
    filled(path).close()
    store = Store(path, patience=20.0)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    assert store.claim("one", "w") is not None
    timer.join()
    other.execute("BEGIN EXCLUSIVE")
    store.close()
    with pytest.raises(StoreUnavailable, match="regard study resume"):
        Store(path, patience=0.1)
    other.execute("COMMIT")


def test_no_store_is_made_where_one_was_expected(tmp_path):
    with pytest.raises(FileNotFoundError, match="regard study run"):
        Store(tmp_path / "none.sqlite", create=False)
