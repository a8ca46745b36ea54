"""Networks whose circuit is known although they were trained: by strict interchange interventions.

The causal model is the compiled program. Edges of the circuit carry what another text put there, and the network must
answer as the program does with the same edges exchanged; all other edges carry another text too, and it must answer as
before. What an edge may be used for is thereby taught, where its weights end up is not. Geiger et al. 2022 (interchange
intervention training); Gupta et al. 2024 (strict, for models whose circuit is known).

Programs that count or compare start from a plateau (every answer the most frequent one) that answers alone do not lead
off, so for the first part of the steps two things help: other edges are exchanged with a probability that rises from
zero, and head 0 of each layer is also taught to look where the program's head looks under the same exchange. The last
part is interchange interventions alone; how far the network agrees with the program is measured on texts of its own.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .compiler import Compiled
from .network import EdgeNetwork, Feedforward, Heads
from .program import Edge, Program

WIDTH, INNER, HIDDEN = 64, 16, 128
STEPS, BATCH, RATE = 3000, 64, 3e-3
RISING, GUIDED = 0.25, 0.6  # shares of the steps in which exchanges become frequent, and attention is taught as well
POOL = 4096  # texts that batches are drawn from
SURE = 0.5  # the program answers where its best logit stands so far above the next


class TaughtNetwork(EdgeNetwork):
    """A pre-norm transformer with random weights, of the layers and heads that a program has."""

    normed = True

    def __init__(self, program: Program, seed: int = 0):
        super().__init__(program)
        torch.manual_seed(seed)
        vocabulary, length = len(next(iter(program.token.values()))), len(next(iter(program.place.values())))
        answers = program.spaces[program.reads] if program.readout is None else len(program.readout)
        self.embed, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(length, WIDTH)
        heads = 1 + program.distractors
        layers = [(Heads(WIDTH, heads, INNER, program.causal), Feedforward(WIDTH, HIDDEN)) for _ in program.layers]
        self.layers = nn.ModuleList(nn.ModuleDict({"attention": a, "mlp": b}) for a, b in layers)
        self.unembed = nn.Linear(WIDTH, answers, bias=False)
        with torch.no_grad():
            for attention, _ in self.stack:
                attention.q.weight.mul_(INNER**-0.5)


@dataclass
class Interchange:
    """Texts, other texts, which edges carry the other's, and what the program then answers (-1: nothing)."""

    ids: Tensor
    other: Tensor
    order: Tensor  # of the positions that stand for another's
    mask: dict[Edge, Tensor]
    answer: Tensor


class Texts:
    """Texts of a program with their answers, drawn once."""

    def __init__(self, program: Program, seed: int, count: int = POOL):
        self.random = torch.Generator().manual_seed(seed)
        self.ids = torch.stack([program.sample(self.random) for _ in range(count)])
        self.answer = torch.stack([program.answer(one) for one in self.ids])

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(len(self.ids), (count,), generator=self.random)
        return self.ids[chosen], self.answer[chosen]


def interchange(teacher: Compiled, texts: Texts, count: int, inside: bool, outside: float) -> Interchange:
    """One edge of the circuit carries the other text's (inside), and each of the rest with probability `outside`.

    Edges of the circuit from positions are never exchanged: they are the same in all texts.
    """
    program, random = teacher.program, texts.random
    (ids, plain), (other, _) = texts.draw(count), texts.draw(count)
    order = torch.randperm(ids.shape[-1], generator=random)
    mask = {edge: torch.tensor(float(torch.rand((), generator=random) >= outside)) for edge in teacher.edges()}
    mask |= {edge: torch.tensor(1.0) for edge in program.truth}
    if inside:
        circuit = sorted(edge for edge in program.truth if edge[0] != "places")
        mask[circuit[int(torch.randint(len(circuit), (), generator=random))]] = torch.tensor(0.0)
    with torch.no_grad():
        exchanged = {edge: share for edge, share in mask.items() if edge in program.truth}
        logits = teacher.patched(ids, exchanged, _written(teacher, other, order))[0]
    best = logits.topk(2, -1)
    answer = best.indices[..., 0].masked_fill(best.values[..., 0] - best.values[..., 1] < SURE, -1)
    return Interchange(ids, other, order, mask, answer.masked_fill(plain < 0, -1))


def _written(model: EdgeNetwork, other: Tensor, order: Tensor) -> dict[str, Tensor]:
    """What another text puts on every edge; positions are the same in all texts, so theirs are shuffled."""
    wrote = model.patched(other, {}, {})[1]
    return wrote | {"places": wrote["places"][:, order]}


def answers(model: EdgeNetwork, one: Interchange, scores: list[Tensor] | None = None) -> Tensor:
    """The model's logits with the edges exchanged; `scores` receives those of head 0 of each layer."""
    return model.patched(one.ids, one.mask, _written(model, one.other, one.order), scores)[0]


def attention_loss(teacher: Compiled, one: Interchange, scores: list[Tensor]) -> Tensor:
    """KL divergence of where head 0 looks from where the program's head looks, summed over layers with a selection."""
    theirs: list[Tensor] = []
    with torch.no_grad():
        exchanged = {edge: share for edge, share in one.mask.items() if edge in teacher.program.truth}
        teacher.patched(one.ids, exchanged, _written(teacher, one.other, one.order), theirs)
    total = torch.zeros(())
    for mine, right, (selection, _) in zip(scores, theirs, teacher.program.layers, strict=True):
        if selection is not None:
            apart = right.log_softmax(-1) - mine.log_softmax(-1)  # -inf - -inf where a key is closed
            total = total + (right.softmax(-1) * apart.nan_to_num()).sum(-1).mean()
    return total


def trained(program: Program, seed: int = 0, steps: int = STEPS) -> TaughtNetwork:
    """A network trained to have the program's circuit and no other."""
    model, teacher = TaughtNetwork(program, seed), Compiled(program, seed)
    texts = Texts(program, seed)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        often = min(1.0, step / (RISING * steps))
        inside, outside = ((False, 0.5), (False, 1.0), (True, 1.0), (True, 0.5))[step % 4]
        one = interchange(teacher, texts, BATCH, inside, outside * often)
        scores: list[Tensor] = []
        found = answers(model, one, scores)
        loss = F.cross_entropy(found.flatten(0, 1), one.answer.flatten(), ignore_index=-1)
        if step < GUIDED * steps:
            loss = loss + attention_loss(teacher, one, scores)
        if not loss.isfinite():  # no text of this batch has an answer
            continue
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model.eval().requires_grad_(False)


@torch.no_grad()
def agreement(model: EdgeNetwork, seed: int = 1, batches: int = 20) -> tuple[float, float]:
    """How often the model answers as the program: with an edge of the circuit exchanged, and with all others."""
    teacher, texts = Compiled(model.program), Texts(model.program, 1000 + seed, 4 * BATCH)
    found = []
    for inside, outside in ((True, 0.0), (False, 1.0)):
        right = total = 0
        for _ in range(batches):
            one = interchange(teacher, texts, BATCH, inside, outside)
            some = one.answer >= 0
            right += int((answers(model, one).argmax(-1) == one.answer)[some].sum())
            total += int(some.sum())
        found.append(right / max(total, 1))
    return found[0], found[1]


@torch.no_grad()
def untaught(program: Program, seed: int = 2, texts: int = 64) -> set[Edge]:
    """Edges of the circuit whose exchange changes no answer of the program: nothing teaches a network to have them."""
    teacher, random = Compiled(program), torch.Generator().manual_seed(seed)
    ids, other = (torch.stack([program.sample(random) for _ in range(texts)]) for _ in range(2))
    order = torch.randperm(ids.shape[-1], generator=random)
    written, plain = _written(teacher, other, order), teacher(ids).argmax(-1)
    known = torch.stack([program.answer(one) for one in ids]) >= 0
    return {
        edge
        for edge in program.truth
        if bool((teacher.patched(ids, {edge: torch.tensor(0.0)}, written)[0].argmax(-1) == plain)[known].all())
    }
