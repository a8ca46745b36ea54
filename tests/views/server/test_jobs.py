"""Slow work beside the page."""

import asyncio
import threading
import time

import pytest

from regard.views.server import jobs as module
from regard.views.server.jobs import INTERNAL_ERROR, Busy, Jobs


@pytest.fixture
def jobs():
    made = Jobs()
    yield made
    made.close()


def ended(job):
    asyncio.run(job.wait(60))
    assert job.ended
    return job


def test_a_job_ends_with_what_it_made_and_how_far_it_came(jobs):
    def work(job):
        for x in range(5):
            job.step(x + 1, 5)
        return "made"

    job = ended(jobs.submit("lane", ("a",), "Working", work))
    assert (job.state, job.result, job.done, job.of) == ("done", "made", 5, 5)


def test_a_job_that_is_stopped_ends_at_its_next_step(jobs):
    began, go, steps = threading.Event(), threading.Event(), []

    def work(job):
        for x in range(1000):
            steps.append(x)
            began.set()
            go.wait(60)
            job.step(x, 1000)

    job = jobs.submit("lane", ("a",), "Working", work)
    assert began.wait(60)
    job.stop()
    go.set()
    assert ended(job).state == "stopped" and steps == [0]
    assert ended(jobs.submit("lane", ("a",), "Again", lambda _: 7)).result == 7


def test_a_job_that_waits_and_is_stopped_never_begins(jobs):
    go, begun = threading.Event(), []
    first = jobs.submit("lane", (1,), "Holding", lambda _: go.wait(60))
    second = jobs.submit("lane", (2,), "Waiting", lambda _: begun.append(1))
    second.stop()
    go.set()
    assert ended(first).state == "done" and ended(second).state == "stopped" and not begun


def test_lanes_do_not_wait_for_each_other(jobs):
    go = threading.Event()
    slow = jobs.submit("slow", (1,), "Holding", lambda _: go.wait(60))
    assert ended(jobs.submit("quick", (2,), "Passing", lambda _: 3)).result == 3
    assert not slow.ended
    go.set()
    ended(slow)


def test_what_was_asked_for_before_is_not_made_twice(jobs):
    count = []
    asked = [jobs.submit("lane", ("same",), "Making", lambda _: count.append(1)) for _ in range(3)]
    ended(asked[-1])
    assert len({job.number for job in asked}) == 1 and len(count) == 1


def test_a_job_that_failed_may_be_tried_again(jobs):
    def fails(_):
        raise ValueError("The text is empty.")

    job = ended(jobs.submit("lane", ("x",), "Trying", fails))
    assert (job.state, job.error) == ("failed", "The text is empty.")
    assert ended(jobs.submit("lane", ("x",), "Trying", lambda _: 1)).result == 1


def test_a_fault_of_ours_keeps_its_trace_here(jobs, caplog):
    job = ended(jobs.submit("lane", ("x",), "Dividing", lambda _: 1 / 0))
    assert job.error == INTERNAL_ERROR and "ZeroDivisionError" in caplog.text


def test_only_so_many_wait_and_only_so_many_results_are_kept(jobs, monkeypatch):
    monkeypatch.setattr(module, "MAX_QUEUED", 3)
    go = threading.Event()
    first = jobs.submit("lane", (0,), "Holding", lambda _: go.wait(60))
    while first.state == "waiting":
        time.sleep(0.01)
    waiting = [jobs.submit("lane", (x,), "Waiting", lambda _: b"x" * 10) for x in (1, 2, 3)]
    with pytest.raises(Busy, match="3 jobs are queued"):
        jobs.submit("lane", (4,), "Too many", lambda _: None)
    go.set()
    ended(waiting[-1])
    monkeypatch.setattr(module, "MAX_RESULT_BYTES", 15)
    last = ended(jobs.submit("lane", (5,), "Next", lambda _: b"y" * 10))
    with pytest.raises(KeyError):
        jobs[waiting[0].number]
    assert jobs[last.number] is last


def test_the_event_loop_goes_on_while_a_job_is_waited_for(jobs):
    go = threading.Event()

    async def both():
        job = jobs.submit("lane", ("x",), "Waiting for the loop", lambda _: go.wait(10))

        async def tick():
            for _ in range(5):
                await asyncio.sleep(0)
            go.set()

        await asyncio.gather(job.wait(60), tick())
        return job.result

    assert asyncio.run(both()) is True


def test_what_is_less_urgent_waits_for_another_lane(jobs):
    go, order = threading.Event(), []
    jobs.submit("heads", (1,), "Looking", lambda _: (go.wait(60), order.append("looked at")))
    later = jobs.submit(
        "overviews", (2,), "Glancing", lambda job: (jobs.wait_for("heads", job), order.append("glanced at"))
    )
    time.sleep(0.1)
    assert order == []
    go.set()
    ended(later)
    assert order == ["looked at", "glanced at"]


def test_closing_stops_what_runs(jobs):
    def work(job):
        while True:
            job.check()
            time.sleep(0.01)

    job = jobs.submit("lane", ("x",), "For ever", work)
    jobs.close()
    assert job.ended and not any(thread.is_alive() for thread in jobs._threads)
