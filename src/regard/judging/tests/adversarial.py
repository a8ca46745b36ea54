"""Adversarial attention: weights as far from the model's as can be found that give the same prediction."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.recording.interventions.interventions import Here

from ..adapters.adapter import Adapter
from ..adapters.attention_selector import AmongUnits, AttentionSelector
from ..adapters.inputs import Inputs
from ..adapters.prefix_cache import remembered
from ..adapters.trace_replay import Function, replayed
from ..artifacts import Plot, Series, TextExample, TextExamples, add_artifact, collects_artifacts
from ..examples import cut, facts, typical
from ..finding import Finding
from ..registry import asks
from ..statistics.comparison import compare
from ..statistics.divergence import LARGEST, jsd, over_units, tvd
from ..statistics.intervals import estimate, known, mean, median, quartile
from ..wording import amount, percent

TEST = "adversarial attention"
OPTIMISED, KEPT = 0.01, 0.05  # how far the prediction may move: while searching, and when choosing
BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class AdversarialWeights:
    """Of each instance and start: divergence of the weights, movement of the prediction, both (instances, starts).

    `start` is the divergence before the search, `start_moved` the movement; `limit` (instances,) the largest
    divergence that any weights could have: all of it on the least attended unit. NaN for an instance without units.
    `weights` has for each instance (2, n): the model's among the units, and the furthest with a movement within 0.05;
    `said` (2, classes): what is predicted with either.
    """

    far: np.ndarray
    moved: np.ndarray
    start: np.ndarray
    start_moved: np.ndarray
    limit: np.ndarray
    weights: list[np.ndarray]
    said: list[np.ndarray]

    def best(self, budget: float) -> np.ndarray:
        """(instances,): the largest divergence with a movement within the budget; the model's own weights have 0.

        Weights that a search began with count too: it is held to a smaller movement, and may have left them behind.
        """
        return np.maximum(_best(self.far, self.moved, budget), _best(self.start, self.start_moved, budget))


class Sought(AmongUnits):
    """Weights softmax(logits) among the units, as heavy together as the model's; keeps what it made, by site."""

    def __init__(
        self,
        selector: AttentionSelector,
        inputs: Inputs,
        logits: dict[str, Tensor],
        kept: dict[str, Tensor] | None = None,
    ):
        super().__init__(selector, inputs, kept)
        self.logits, self.made = logits, dict[str, Tensor]()

    def moved(self, weights: Tensor, open_pairs: Tensor, here: Here) -> Tensor:
        logits = self.logits[str(here.site)]
        logits = logits.masked_fill(~open_pairs, torch.finfo(logits.dtype).min)
        share = logits.softmax(-1).masked_fill(~open_pairs, 0.0)
        made = share * (weights * open_pairs).sum(-1, keepdim=True)
        self.made[str(here.site)] = torch.where(open_pairs, made, weights)
        return made


@asks("Do very different weights give the same prediction?")
def adversary(
    adapter: Adapter, *, starts: int = 5, steps: int = 500, rate: float = 0.01, seed: int = 0
) -> list[Finding]:
    """The largest Jensen-Shannon divergence from the model's weights at which the prediction stays where it was.

        maximise  sum_k JSD(a_k, a) + mean_(k < l) JSD(a_k, a_l) - 500 relu(TVD_k - 0.01)

    over `starts` sets of logits, begun at uniform + 3 N(0, 1), by Adam; then the best with a total variation of at
    most 0.05, and 0.01 beside it. Every head of the judged sites has weights of its own; divergences are of the means
    over heads, among the units alone, and means over the judged layers. Several sites are sought at once. How far the
    starts are, whatever they do to the prediction, is the random baseline: weights that come as far with the same
    prediction are as free as drawn ones. The largest divergence possible is the limit.
    Jain & Wallace 2019, section 4.2.2.
    """
    found = seek(adapter, starts=starts, steps=steps, rate=rate, seed=seed)
    if collects_artifacts():
        _show(adapter, found)
    made = []
    for name, statistic in (("median", median), ("mean", mean)):
        random = {"random": found.start.mean(1)}
        value = compare(found.best(KEPT), random, statistic, scale=(0.0, LARGEST), seed=seed)
        baselines = {
            f"within {OPTIMISED}": known(found.best(OPTIMISED), statistic),
            "limit": known(found.limit, statistic),
        }
        made.append(
            Finding.of(
                value,
                name=f"adversarial attention, {name}",
                better="lower",
                test=TEST,
                unit="JSD (max 0.69)",
                says="undefined: no instance has a unit."
                if value.value is None
                else f"Weights that differ by {amount(value.value, 2)} ({name}; the most possible is "
                f"{amount(baselines['limit'], 2)}) give the same prediction within {KEPT}.",
                baselines=baselines,
            )
        )
    limit = np.where(found.limit > 0, found.limit, np.nan)
    share = estimate(found.best(KEPT) / limit, scale=(0.0, 1.0 + 1e-6), seed=seed)
    made.append(
        Finding.of(
            share,
            name="adversarial attention, share of what is possible",
            better="lower",
            test=TEST,
            unit="share",
            says="undefined: no instance has two units."
            if share.value is None
            else f"Weights can move over {percent(share.value)} of the possible divergence at the same prediction.",
            baselines={"within 0.01": known(found.best(OPTIMISED) / limit)},
        )
    )
    return made


def budgets(found: AdversarialWeights, seed: int = 0) -> list[Finding]:
    """The curve: the largest divergence, median of the instances, by how far the prediction may move."""
    made = []
    for budget in BUDGETS:
        value = estimate(found.best(budget), median, seed=seed)
        made.append(
            Finding.of(
                value,
                name=f"adversarial attention within {budget:g}",
                better="lower",
                test=TEST,
                unit="JSD (max 0.69)",
                baselines={"limit": known(found.limit, median)},
                says=f"The largest divergence at a prediction that moves by at most {budget:g}.",
            )
        )
    return made


def _show(adapter: Adapter, found: AdversarialWeights) -> None:
    """The curve of divergence against movement, each instance, and typical texts with both weights."""
    budgets, best = [0.0, *BUDGETS], found.best(KEPT)
    reached = {
        name: [_best(far, moved, budget) for budget in budgets]
        for name, far, moved in (("sought", found.far, found.moved), ("random", found.start, found.start_moved))
    }
    lines = [
        Series(
            name,
            budgets,
            [known(some, median) for some in values],
            [known(some, quartile(0.25)) for some in values],
            [known(some, quartile(0.75)) for some in values],
        )
        for name, values in reached.items()
    ]
    limit = known(found.limit, median)
    add_artifact(
        Plot(
            "How far the weights can be moved",
            "how far the prediction may move (total variation)",
            "divergence of the weights (JSD, max 0.69)",
            [*lines, Series("limit", budgets, [limit] * len(budgets))],
            "Median of the instances; the band holds the middle half. A curve that is high at the left: very "
            "different weights, the same prediction.",
        )
    )
    moved = np.array([tvd(torch.from_numpy(before), torch.from_numpy(after)) for before, after in found.said])
    add_artifact(
        Plot(
            "Each instance",
            "how far the prediction moved (total variation)",
            "divergence of the weights (JSD, max 0.69)",
            [Series("instance", moved, best, line=False)],
            f"The furthest weights with a movement of at most {KEPT}.",
        )
    )
    texts = []
    for place in typical(best):
        one, (own, other), (before, after) = adapter.instances[place], found.weights[place], found.said[place]
        top = int(before.argmax())
        told = {"with the others": f"{adapter.called(top)} ({after[top]:.3f})", "divergence": f"{best[place]:.2f}"}
        texts.append(
            cut(
                TextExample(
                    one.name or str(place),
                    one.shown,
                    {"the model's weights": own, "others": other},
                    facts(adapter, place) | told,
                ),
                "the model's weights",
            )
        )
    add_artifact(
        TextExamples(
            "The same prediction from other weights", texts, "Those whose divergence is nearest to the median."
        )
    )


def seek(
    adapter: Adapter, *, starts: int = 5, steps: int = 500, rate: float = 0.01, seed: int = 0
) -> AdversarialWeights:
    """The search itself. The part of the model before the judged sites runs once a batch."""
    if starts < 1 or steps < 0:
        raise ValueError(f"seek(starts={starts}, steps={steps}): expected 1 or more starts and 0 or more steps.")
    draw = torch.Generator().manual_seed(seed)

    def measure(inputs: Inputs) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        before, many = adapter.predict(inputs), inputs.repeated(starts)
        maps, judged = adapter.maps(inputs), adapter.judged
        rows_of = {site: adapter.selector.rows_of(maps[site], inputs) for site in judged}
        own = {site: _read(adapter.selector, rows_of[site], inputs) for site in judged}
        logits = {}
        for site in judged:
            _, heads, rows, keys = rows_of[site].shape
            some = torch.randn((len(many), heads, rows, keys), generator=draw) * 3.0  # the log of uniform is a constant
            logits[site] = some.to(before.device).requires_grad_()

        # of several sites the later ones see what the earlier ones changed
        kept = {site: rows_of[site].repeat(starts, 1, 1, 1) for site in judged[:1]}

        def through(*tensors: Tensor) -> list[Tensor]:
            """What the model says with weights of these logits, and the weights, by site."""
            sought = Sought(adapter.selector, many, dict(zip(judged, tensors, strict=True)), kept)
            after = adapter.logits(many, dict.fromkeys(judged, sought))
            return [after, *(_read(adapter.selector, sought.made[site], many) for site in judged)]

        def evaluate(run: Function) -> tuple[Tensor, Tensor, Tensor, list[Tensor], Tensor]:
            after, *made = (x.unflatten(0, (starts, -1)) for x in run(*logits.values()))
            after = after.double().softmax(-1)
            moved = tvd(after, before)  # (starts, B)
            far = torch.stack([jsd(one, own[site]) for one, site in zip(made, judged, strict=True)]).mean(0)
            apart = torch.stack([_apart(one) for one in made]).mean(0)
            return far, moved, apart, made, after

        # cuDNN's recurrent layers have no gradient in evaluation mode
        plain = lambda: adapter.logits(many)  # noqa: E731
        with remembered(adapter.model, judged, plain), torch.backends.cudnn.flags(enabled=False):
            run = replayed(through, *(x.detach() for x in logits.values()))
            with torch.no_grad():
                start, start_moved, _, begun, at_first = evaluate(run)
            optimiser = torch.optim.Adam(logits.values(), lr=rate, amsgrad=True)
            for _ in range(steps):
                with torch.enable_grad():
                    far, moved, apart, *_ = evaluate(run)
                    # each instance has logits of its own, so that a sum over them is many searches at once
                    loss = (500.0 * (moved - OPTIMISED).relu() - far).sum() - apart.sum()
                    gradients = torch.autograd.grad(loss, list(logits.values()))
                for logit, gradient in zip(logits.values(), gradients, strict=True):
                    logit.grad = gradient
                optimiser.step()
            with torch.no_grad():
                far, moved, _, made, after = evaluate(run)
        limit = torch.stack([_limit(own[site], inputs.units) for site in judged]).mean(0)
        table = torch.cat([far, moved, start, start_moved, limit[None]]).masked_fill(~inputs.units.any(-1), torch.nan)
        chosen = _furthest(torch.cat([far, start]), torch.cat([moved, start_moved]))
        mine = torch.stack(list(own.values())).mean(0)
        others = torch.cat([torch.stack(made).mean(0), torch.stack(begun).mean(0)])
        weights = torch.stack([mine, _taken(others, chosen, mine)], 1)
        said = torch.stack([before, _taken(torch.cat([after, at_first]), chosen, before)], 1)
        lengths, parts = inputs.real.sum(-1).tolist(), (x.cpu().numpy() for x in (table.T, weights, said))
        return [(row, pair[:, :n], both) for row, pair, both, n in zip(*parts, lengths, strict=True)]

    rows, weights, said = zip(*adapter.each(measure), strict=True)
    found = np.asarray(rows, dtype=np.float64)
    far, moved, start, start_moved = (found[:, at * starts : (at + 1) * starts] for at in range(4))
    return AdversarialWeights(far, moved, start, start_moved, found[:, -1], list(weights), list(said))


def _furthest(far: Tensor, moved: Tensor) -> Tensor:
    """(B,): the start that came furthest with a movement within 0.05, -1 where none did; far, moved (starts, B)."""
    allowed = far.masked_fill(moved > KEPT, -1.0)
    best = allowed.argmax(0)
    return best.where(allowed.amax(0) >= 0, -1)


def _taken(sets: Tensor, which: Tensor, own: Tensor) -> Tensor:
    """(B, ...) of sets (starts, B, ...): the one that was chosen; its own where none was."""
    one = sets[which.clamp_min(0), torch.arange(len(which), device=which.device)]
    return torch.where((which >= 0)[:, None], one, own)


def _read(selector: AttentionSelector, weights: Tensor, inputs: Inputs) -> Tensor:
    return over_units(selector.read_weights(weights, inputs).double(), inputs.units)


def _apart(made: Tensor) -> Tensor:
    """(B,): the mean divergence between two of the starts; 0 for one start."""
    one, two = torch.tril_indices(len(made), len(made), -1, device=made.device)
    return jsd(made[one], made[two]).mean(0) if len(one) else made.new_zeros(made.shape[1])


def _limit(own: Tensor, units: Tensor) -> Tensor:
    """(B,): the divergence of all weight on the least attended unit; convexity says that nothing is further."""
    least = own.masked_fill(~units, torch.inf).argmin(-1, keepdim=True)
    return jsd(torch.zeros_like(own).scatter(-1, least, 1.0), own)


def _best(far: np.ndarray, moved: np.ndarray, budget: float) -> np.ndarray:
    made: np.ndarray = np.where(moved <= budget, far, 0.0).max(1)
    return np.where(np.isnan(far).any(1), np.nan, made)
