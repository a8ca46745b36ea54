"""Studies on a Ray cluster: two nodes on this machine, one of them killed in the middle."""

import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install 'regard[ray]'.")
from regard.data.registry import TASKS
from regard.studies import Study
from regard.studies.ray_engine import RayEngine
from regard.studies.run_study import run
from regard.studies.trial_runner import RunnerCallbacks
from regard.studies.trial_store import Store

pytestmark = pytest.mark.ray


@pytest.fixture
def cluster(monkeypatch):
    """A head without room for trials and two nodes with room for one each."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # it is on this machine alone
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000})
    nodes = [made.add_node(num_cpus=1, object_store_memory=80_000_000) for _ in range(2)]
    made.wait_for_nodes()
    yield made, nodes
    import ray

    ray.shutdown()
    made.shutdown()


def study(name, **options):
    part = {"task": "tasks_of_tests:steady", "metrics": {"score": "higher"}, "options": {"seconds": 0.1}}
    return Study(**{"name": name, "tasks": [part], "variants": ["a", "b", "c"], "seeds": 10} | options)


def test_a_node_that_is_killed_costs_its_trials_alone_and_the_table_is_that_of_the_local_engine(cluster, tmp_path):
    made, nodes = cluster
    done, killed = [], []

    def ended(slot, lease, how, seconds, why):
        done.append(how)
        if done.count("done") == 8 and not killed:
            killed.append(True)
            made.remove_node(nodes[0], allow_graceful=False)

    found = run(
        study("one"),
        tmp_path / "ray",
        engine="ray",
        address=made.address,
        workers=2,
        callbacks=RunnerCallbacks(ended=ended),
    )
    quiet = run(study("one"), tmp_path / "local", workers=2)
    assert killed and not found.missing
    assert found.rows == quiet.rows
    store = Store(tmp_path / "ray" / "store.sqlite")
    outcomes = [[one["outcome"] for one in store.about(trial.id)["attempts"]] for trial in store.trials("one")]
    store.close()
    assert all(one[-1] == "done" and one.count("done") == 1 for one in outcomes)
    assert sum(one.count("lost") for one in outcomes) == done.count("lost") >= 1


def test_training_gives_the_same_bits_on_a_node_as_in_a_local_worker(cluster, tmp_path):
    assert "retrieval" in TASKS
    trained = study("two", tasks=["retrieval"], small=True, variants=["additive"], seeds=1, budget={"epochs": 1})
    found = run(trained, tmp_path / "ray", engine="ray", address=cluster[0].address, workers=1)
    assert not found.missing
    assert found.rows == run(trained, tmp_path / "local", workers=1).rows
    assert found.trivial


def test_a_cluster_without_room_for_a_trial_is_told_in_a_sentence(cluster):
    with pytest.raises(ValueError, match="No node of this Ray cluster has 64 cores"):
        RayEngine(threads=64, address=cluster[0].address)
