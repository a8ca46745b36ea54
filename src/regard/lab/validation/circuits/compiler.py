"""A small compiler: programs of selections and tables into the weights of a transformer, with heads that do nothing.

The residual stream is a concatenation of named one-hot spaces. A selection is a head, score = sharp * q^T M k over two
spaces; a table is an MLP that writes a function of what it reads. Beside them stand distractors: heads and MLPs with
random weights, as large as those of the program, that write into a space of their own, which nobody else reads.
"""

import torch
from torch import nn

from .network import EdgeNetwork, Feedforward, Heads
from .program import Program, Selection

SHARP = 20.0  # scores of selected pairs stand so far above the others
JUNK = 16  # width of the space of the distractors


class Compiled(EdgeNetwork):
    """A transformer without normalisation, of hand-set weights: ids (B, n) -> logits (B, n, answers)."""

    def __init__(self, program: Program, seed: int = 0):
        super().__init__(program)
        random = torch.Generator().manual_seed(seed)
        at, start = {}, 0
        for name, size in {**program.spaces, "junk": JUNK}.items():
            at[name], start = slice(start, start + size), start + size
        self.at, width = at, start
        inner = max([16, *program.spaces.values()])
        heads = 1 + program.distractors
        vocabulary, length = len(next(iter(program.token.values()))), len(next(iter(program.place.values())))
        self.embed, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList()
        with torch.no_grad():
            for embedding, given in ((self.embed, program.token), (self.places, program.place)):
                embedding.weight.zero_()
                for name, x in given.items():
                    embedding.weight[:, at[name]] = x
            for selection, table in program.layers:
                attention = Heads(width, heads, inner, program.causal)
                mlp = Feedforward(width, len(table.inner) if table is not None else 8)
                for f in (attention.q, attention.k, attention.v, attention.o, mlp.up, mlp.down):
                    f.weight.zero_()
                mlp.up.bias.zero_()
                for head in range(heads):
                    rows = slice(head * inner, (head + 1) * inner)
                    if head == 0 and selection is not None:
                        self._select(attention, selection, rows, at)
                    elif head:
                        for f in (attention.q, attention.k, attention.v):
                            f.weight[rows] = torch.randn(inner, width, generator=random) * 1.5 * width**-0.5
                        attention.o.weight[at["junk"], rows] = torch.randn(JUNK, inner, generator=random)
                if table is not None:
                    columns = torch.cat([torch.arange(at[n].start, at[n].stop) for n in table.reads])
                    mlp.up.weight[:, columns], mlp.up.bias[:] = table.inner, table.bias
                    mlp.down.weight[at[table.out]] = table.outer
                else:
                    mlp.up.weight[:] = torch.randn(8, width, generator=random) * width**-0.5
                    mlp.down.weight[at["junk"]] = torch.randn(JUNK, 8, generator=random)
                self.layers.append(nn.ModuleDict({"attention": attention, "mlp": mlp}))
            own = program.spaces[program.reads]
            answers = own if program.readout is None else len(program.readout)
            self.unembed = nn.Linear(width, answers, bias=False)
            self.unembed.weight.zero_()
            self.unembed.weight[:, at[program.reads]] = torch.eye(own) if program.readout is None else program.readout

    @staticmethod
    def _select(attention: Heads, one: Selection, rows: slice, at: dict[str, slice]) -> None:
        """score = SHARP q^T M k: the query projects by M, the key is read as it is."""
        dk = one.match.shape[1]
        attention.q.weight[rows.start : rows.start + dk, at[one.query]] = SHARP * one.match.mT
        attention.k.weight[rows.start : rows.start + dk, at[one.key]] = torch.eye(dk)
        width = at[one.value].stop - at[one.value].start
        attention.v.weight[rows.start : rows.start + width, at[one.value]] = torch.eye(width)
        read = torch.eye(width) if one.read is None else one.read
        attention.o.weight[at[one.out], rows.start : rows.start + width] = read
