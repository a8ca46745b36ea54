"""Maps and autograd: reads are detached, weights(grad=True) is the definition; what changed in place is refused."""

from collections.abc import Callable

import pytest
import torch
from tests.core.mechanisms import FEATURE_WISE, SCORES, STEPWISE, built, inputs, product
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils import _pytree as pytree

from regard import Additive, Causal, Edges, Mask, Padding, Refused, attend
from regard.core.maps.lazy import LazyMap
from regard.core.maps.stored import StoredMap

GRAPH = torch.tensor([[0, 1, 2, 3, 4, 4], [0, 0, 1, 1, 1, 1]])
DIFFERENTIABLE = [*product(scores=["scaled_dot", "sink", "additive_features"]), *product(alignments=["softmax"])]


@pytest.mark.parametrize(("score", "align"), [(s, a) for s, a in DIFFERENTIABLE if a not in ("gumbel_straight",)])
def test_weights_with_gradient_pass_finite_differences(score: str, align: str) -> None:
    q, k, v = inputs(n=2, m=4, batch=1)
    made = built(score), built(align)
    tensors = [q, k, *(p for part in made for p in part.parameters() if part is made[0] or align == "entmax_learned")]

    def weights(*_: Tensor) -> Tensor:
        return attend(q, k, v, *made, over=Causal("end")).map.weights(grad=True)

    if weights().requires_grad:
        assert torch.autograd.gradcheck(weights, tensors, fast_mode=True, atol=1e-6)
    else:
        assert align in ("hard", "uniform")


@pytest.mark.parametrize("align", ["softmax", "entmax15", "sigmoid", "local_predictive", "topk"])
@pytest.mark.parametrize("score", ["scaled_dot", "gat", "sink", "additive_features"])
def test_weights_of_edges_with_gradient_pass_finite_differences(score: str, align: str) -> None:
    q, k, v = inputs(n=3, m=5, batch=1)
    made = built(score), built(align)
    tensors = [q, k, *made[0].parameters(), *made[1].parameters()]

    def edges(*_: Tensor) -> Tensor:
        return attend(q, k, v, *made, over=Edges(GRAPH, self_loops=True)).map.edges(grad=True)

    assert torch.autograd.gradcheck(edges, tensors, fast_mode=True, atol=1e-6)


@pytest.mark.covered(4)
@pytest.mark.parametrize(("score", "align"), product())
def test_weights_with_gradient_equal_the_weights_that_are_read(score: str, align: str) -> None:
    q, k, v = inputs()
    amap = attend(q, k, v, built(score), built(align), Padding(torch.tensor([5, 3])), sample=True, seed=2).map
    with_gradient = amap.weights(grad=True)
    assert_close(with_gradient.detach(), amap.weights())
    assert_close(amap[1, 0].weights(grad=True).detach(), with_gradient[1, 0].detach())


def test_a_loss_on_the_weights_teaches_the_score() -> None:
    q, k, v = inputs()
    score = built("general")
    entropy = torch.special.entr(attend(q, k, v, score).map.weights(grad=True)).sum()
    s = torch.softmax(score(q, k), -1)
    assert_close(
        torch.autograd.grad(entropy, score.matrix), torch.autograd.grad(torch.special.entr(s).sum(), score.matrix)
    )


READS: dict[str, Callable[[LazyMap], Tensor]] = {
    "weights": lambda m: m.weights(),
    "row": lambda m: m.row(0),
    "column": lambda m: m.column(0),
    "tile": lambda m: m.tile(slice(0, 2), [0, 1]),
    "topk": lambda m: m.topk(0, 2)[0],
    "find": lambda m: m.find(0.0).weight,
    "entropy": lambda m: m.entropy(),
    "mass": lambda m: m.mass(),
    "pyramid": lambda m: m.pyramid()[0].mass,
    "group": lambda m: m.group([(0, 1)], [(0, 1)]).weights(),
}


@pytest.mark.parametrize("score", ["scaled_dot", "additive", "location_aware", "own"])
@pytest.mark.parametrize("name", READS)
def test_reads_are_detached(name: str, score: str) -> None:
    q, k, v = inputs()
    assert not READS[name](attend(q, k, v, built(score)).map).requires_grad


def test_tau_and_edges_are_detached_too() -> None:
    q, k, v = inputs()
    amap = attend(q, k, v, "additive", over=Edges(GRAPH), backend="chunked").map
    assert not amap.tau.requires_grad
    assert not amap.edges().requires_grad
    assert not amap.loops.requires_grad


@pytest.mark.parametrize("backend", ["reference", "chunked", "sdpa"])
@pytest.mark.parametrize("name", ["q", "k"])
def test_a_query_or_key_changed_in_place_makes_the_map_refuse(backend: str, name: str) -> None:
    q, k, v = (x.detach().clone() for x in inputs())
    amap = attend(q, k, v, backend=backend).map
    amap.weights()
    {"q": q, "k": k}[name].mul_(2)
    for look in (amap.weights, lambda: amap.weights(grad=True), lambda: amap[0, 0].row(1), amap.entropy):
        with pytest.raises(RuntimeError, match=f"^{name} was changed in place after attend.*attend over a copy"):
            look()


WITH_PARAMETERS = [name for name in [*SCORES, *FEATURE_WISE] if name not in STEPWISE and list(built(name).parameters())]


@pytest.mark.parametrize("score", WITH_PARAMETERS)
def test_a_parameter_changed_in_place_never_makes_a_map_lie(score: str) -> None:
    """On the reference the map is made later, so it refuses; on chunked it refuses or still has the old weights."""
    q, k, v = (x[:1] for x in inputs())
    for backend in ("reference", "chunked"):
        made = built(score)
        amap = attend(q, k, v, made, backend=backend).map
        old = attend(q, k, v, made, backend=backend).map.weights()
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.add_(0.5)
        if backend == "reference":
            with pytest.raises(RuntimeError, match=r"^score\..* was changed in place after attend"):
                amap.weights()
            continue
        try:
            assert_close(amap.weights(), old)
        except RuntimeError as error:
            assert "was changed in place" in str(error)


def test_a_parameter_of_the_alignment_and_a_mask_are_watched_too() -> None:
    q, k, v = inputs()
    align, keep = built("entmax_learned"), torch.ones(3, 5, dtype=torch.bool)
    for backend in ("reference", "chunked"):
        masked = attend(q, k, v, over=Mask(keep=keep), backend=backend).map
        keep[0, 0] = not keep[0, 0]
        with pytest.raises(RuntimeError, match="keep was changed in place"):
            masked.weights()
    learned = attend(q, k, v, align=align, backend="reference").map
    with torch.no_grad():
        align.raw.add_(1.0)
    with pytest.raises(RuntimeError, match=r"align\.raw was changed in place"):
        learned.weights()


def test_a_step_of_an_optimiser_after_the_map_was_read_leaves_what_was_read() -> None:
    q, k, v = inputs()
    score = Additive(4).double()
    out, amap = attend(q, k, v, score)
    before = amap.weights()
    out.sum().backward()
    torch.optim.SGD(score.parameters(), lr=1.0).step()
    assert_close(before.sum(-1), torch.ones(2, 2, 3, dtype=torch.float64))


@pytest.mark.parametrize("align", ["softmax", "hard", "gumbel", "local_predictive", "reinforced"])
@pytest.mark.parametrize("backend", ["reference", "chunked", "sdpa"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_reading_a_map_draws_nothing_from_torchs_generator(align: str, backend: str, dropout: float) -> None:
    q, k, v = (x.detach() for x in inputs())
    if backend == "sdpa" and align != "softmax":
        backend = "auto"
    amap = attend(q, k, v, align=built(align), dropout=dropout, sample=True, backend=backend).map
    before = torch.get_rng_state()
    first = amap.weights()
    assert_close(first, amap.weights())
    for look in READS.values():
        look(amap)
    assert (torch.get_rng_state() == before).all()


@pytest.mark.parametrize(("score", "align"), [*product(alignments=["softmax"]), *product(scores=["scaled_dot"])])
def test_maps_survive_being_taken_apart_and_put_together(score: str, align: str) -> None:
    q, k, v = inputs()
    made = attend(q, k, v, built(score), built(align), Padding(torch.tensor([5, 3])), sample=True, seed=0)
    again = pytree.tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, made)
    assert_close(again.out, made.out)
    assert type(again.map) is type(made.map)
    assert_close(again.map.weights(), made.map.weights())
    assert_close(again.map[1, 1].column(2), made.map.weights()[1, 1, ..., 2])
    assert (again.sample is None) == (made.sample is None)


def test_a_map_taken_apart_gives_its_tensors_and_takes_changed_ones() -> None:
    q, k, v = inputs()
    amap = attend(q, k, v, backend="reference").map
    leaves, spec = pytree.tree_flatten(amap)
    assert any(x is not None and x.shape == (4, 3, 4) for x in leaves)
    doubled = pytree.tree_unflatten(
        [2 * x if isinstance(x, Tensor) and x.shape == (4, 3, 4) else x for x in leaves], spec
    )
    assert_close(doubled.weights(), torch.softmax(2 * q @ k.mT / 2, -1).detach())


def test_grouped_maps_keep_numbers_alone_and_say_so() -> None:
    q, k, v = inputs()
    with pytest.raises(Refused, match="stores numbers only"):
        attend(q, k, v).map.group([(0, 3)], [(0, 5)]).weights(grad=True)
    graph = attend(q, k, v, over=Edges(GRAPH)).map
    with pytest.raises(Refused, match=r"edges\(grad=True\)"):
        graph.weights(grad=True)


def test_stepwise_maps_are_stored_with_their_gradient() -> None:
    q, k, v = inputs(n=2, m=3, batch=1)
    for made in ({"align": "monotonic"}, {"score": built("location_aware")}):
        assert isinstance(attend(q, k, v, **made).map, StoredMap)
        assert torch.autograd.gradcheck(lambda *_, m=made: attend(q, k, v, **m).map.weights(grad=True), (q, k))


def test_inference_mode_has_maps() -> None:
    with torch.inference_mode():
        q, k, v = (torch.randn(2, 2, 3, 4) for _ in range(3))
        layer = nn.Linear(4, 4)
        amap = attend(layer(q), k, v, over=Edges(torch.tensor([[0], [1]]))).map
        assert amap.weights()[0, 0, 1, 0] == 1
