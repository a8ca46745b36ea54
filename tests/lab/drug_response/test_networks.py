"""One network for all places of attention, and its ablations."""

import copy

import pytest
import torch

import regard
from regard.lab.drug_response.models.attention_variants import ABLATIONS, ATTENTION, PLACES, place_of
from regard.lab.drug_response.models.drug_encoders import Atoms
from regard.lab.drug_response.models.network import ResponseNetwork
from regard.lab.drug_response.protocol.fold import Fold
from regard.lab.drug_response.protocol.training import ablated, predict, train

SETTING = {"width": 8, "layers": 1, "heads": 1, "dropout": 0.0, "rate": 1e-2, "decay": 0.1, "epochs": 2}
SHAPE = {"width": 8, "layers": 1, "heads": 1, "dropout": 0.0}
DRUGS, LINES = torch.arange(6), torch.arange(5)


def network(panel, variant: str, seed: int = 0) -> ResponseNetwork:
    torch.manual_seed(seed)
    return ResponseNetwork(Fold.of(panel, "cells", 0), variant, **SHAPE).eval()


def weights_of(one: ResponseNetwork, variant: str) -> list[torch.Tensor]:
    """The weights at the place, as they ran under the variant."""
    twin = copy.deepcopy(one) if variant.endswith("frozen") else None
    with ablated(one, variant, twin, DRUGS, LINES, 3), regard.record(one, keep="weights") as record:
        one(DRUGS, LINES)
    place = place_of(variant)[0]
    maps = [amap for site, amap in record.maps.items() if site.startswith(place.site.removesuffix(".*"))]
    return [amap.edges() if place.site.startswith(("drug", "line")) else amap.weights() for amap in maps]


@pytest.mark.parametrize("place", ATTENTION)
def test_a_place_and_its_ablations_have_as_many_parameters_and_other_weights(small_panel, place):
    first = network(small_panel, place)
    count = sum(one.numel() for one in first.parameters())
    learned = weights_of(first, place)
    assert learned
    for ablation in ABLATIONS:
        other = network(small_panel, f"{place}/{ablation}")
        assert sum(one.numel() for one in other.parameters()) == count
        other.load_state_dict(first.state_dict())
        found = weights_of(other, f"{place}/{ablation}")
        assert [one.shape for one in found] == [one.shape for one in learned]
        if ablation == "frozen":  # nothing was trained yet: the twin's weights are these
            assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, learned, strict=True))
        else:
            assert any((a - b).abs().max() > 1e-4 for a, b in zip(found, learned, strict=True))


def test_frozen_weights_stay_those_of_the_untrained_network(small_panel):
    fold = Fold.of(small_panel, "cells", 0)
    trained, twin = train(fold, "cross/frozen", SETTING, 0)
    with regard.record(twin, keep="weights") as first:
        twin(DRUGS, LINES)
    with ablated(trained, "cross/frozen", twin, DRUGS, LINES, 0), regard.record(trained, keep="weights") as now:
        trained(DRUGS, LINES)
    with regard.record(trained, keep="weights") as free:
        trained(DRUGS, LINES)
    assert torch.allclose(now.maps["meeting"].weights(), first.maps["meeting"].weights())
    assert not torch.allclose(free.maps["meeting"].weights(), first.maps["meeting"].weights(), atol=1e-3)


def test_permuted_weights_are_the_same_numbers_on_other_genes(small_panel):
    one = network(small_panel, "cross")
    learned, dealt = (weights_of(one, variant)[0] for variant in ("cross", "cross/permuted"))
    assert torch.allclose(learned.sort(-1).values, dealt.sort(-1).values) and not torch.allclose(learned, dealt)


@pytest.mark.parametrize("variant", [*PLACES, "cross/permuted", "gat/frozen", "global/uniform"])
def test_each_place_trains_and_answers_all_pairs_and_the_same_seed_gives_the_same(small_panel, variant):
    fold = Fold.of(small_panel, "cells", 0)
    first, again = (predict(fold, *train(fold, variant, SETTING, 0), variant) for _ in range(2))
    assert first.shape == small_panel.response.shape and (first == again).all()
    assert abs(first - fold.offset).max() > 1e-3  # it has moved from the mean effects


def test_a_drug_is_encoded_alike_whichever_drugs_are_beside_it(small_panel):
    one = network(small_panel, "gat")
    assert isinstance(one.drug, Atoms)
    everything = torch.arange(one.drugs)
    some = everything[3:9]
    atoms = [one.drug.of_atoms(one.drug.graph_of(drugs)) for drugs in (everything, some)]
    graph = one.drug.graph_of(everything).graph
    assert torch.allclose(atoms[0][(graph >= 3) & (graph < 9)], atoms[1], atol=1e-5)
