"""Do the weights carry over? A model that sees each unit alone is told where to look."""

from ..finding import Finding
from ..statistics.comparison import compare
from .reading import TrainedReadout
from .retraining import Retraining
from .scoring import MEASURES, of, table
from .seeds import even

TEST = "guided model without context"
STRENGTH = 0.01  # of the adversary that guides


def guides(
    retraining: Retraining, *, attention: str = "additive", seeds: int = 8, strength: float = STRENGTH, seed: int = 0
) -> list[Finding]:
    """F1 and accuracy of a model without context that is told where to look, by who tells it.

    uniform     nobody: the same weight for every unit
    learned     nobody: the model without context learns its own weights
    base        the weights of the model with context, of the same seed
    adversary   those of a trained adversary of it (`trained_adversary`)

    Weights that carry over to a model which sees no context hold information of their own; an adversary's should not.
    Differences are against uniform weights. Wiegreffe & Pinter 2019, section 3.4.
    """
    models: dict[str, list[TrainedReadout]] = {"uniform": [], "learned": [], "base": [], "adversary": []}
    for one in range(seeds):
        base = retraining.trained(attention, one)
        against = retraining.adversary(base, strength, one, attention)
        models["uniform"].append(retraining.guided("uniform", even(base).weights, one))
        models["learned"].append(retraining.trained(attention, one, context=False))
        models["base"].append(retraining.guided(attention, base.weights, one))
        models["adversary"].append(retraining.guided(f"adversary at {strength:g}", against.weights, one))
    rows = table(retraining.labels, *models.values())
    made = []
    for name, measure in MEASURES.items():
        tables = {who: rows[..., [0, 1 + place]] for place, who in enumerate(models)}
        for place, who in enumerate(models):
            others = {other: some for other, some in tables.items() if other != who}
            found = compare(tables[who], others, of(measure), seeds=True, seed=seed)
            made.append(
                Finding.of(
                    found,
                    name=f"{name}, guided by {who}",
                    better="higher",
                    test=TEST,
                    unit=name,
                    says=f"Told where to look by {who} weights, a model without context: {name} {found.value:.3f}.",
                )
            )
            if place:
                more = compare(rows, {"no difference": 0.0}, of(measure, place, 0), seeds=True, seed=seed)
                made.append(
                    Finding.of(
                        more,
                        name=f"{name} gained over uniform weights, guided by {who}",
                        better="higher",
                        test=TEST,
                        unit=name,
                        says=f"That is {more.value:+.3f} against uniform weights.",
                    )
                )
    return made
