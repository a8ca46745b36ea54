"""Dense attention of heads and values of any widths, case by case in this process: python tests/gpu/width_cases.py

    [["scaled_dot", "softmax", 64, 16, "float32"], ...] on stdin  ->  a line of JSON for each case, once it is known

A line holds the case's number and name: [error, allowed] of the output and of each gradient. A memory fault ends the
process, and what is left has no line.
"""

import json
import sys

import torch

from regard import Causal, Entmax, attend

ALIGNMENTS = {"entmax 1.3": Entmax(1.3)}
N, M = 65, 300


def outcome(case, dtype, backend):
    """The output and the gradients of q, k and v, of the same numbers in each precision."""
    score, align, d, d_v, given = case
    kind = getattr(torch, given)
    torch.manual_seed(d * 1000 + d_v)
    sizes = ((2, N, d), (2, M, d), (2, M, d_v))
    q, k, v = (torch.randn(1, *size).to(kind).to(dtype).cuda().requires_grad_() for size in sizes)
    pull = torch.randn(1, 2, N, d_v).to(kind).to(dtype).cuda()
    out = attend(q, k, v, score, ALIGNMENTS.get(align, align), Causal("end"), backend=backend).out
    found = [out, *torch.autograd.grad(out, [q, k, v], pull)]
    torch.cuda.synchronize()
    return dict(zip(("out", "q", "k", "v"), found, strict=True))


def losses(case):
    """name: [error, allowed], which is twice the reference's in the same precision and two ulps."""
    dtype = getattr(torch, case[4])
    runs = ((torch.float64, "reference"), (dtype, "reference"), (dtype, "triton-dense"))
    true, own, mine = (outcome(case, kind, backend) for kind, backend in runs)
    found = {}
    for names in (["out"], ["q", "k", "v"]):
        ulp = torch.finfo(dtype).eps * max(true[name].abs().amax().item() for name in names)
        for name in names:
            error, lost = ((x[name].double() - true[name]).abs().amax().item() for x in (mine, own))
            found[name] = [error, 2 * lost + 2 * ulp]
    return found


def main():
    for number, case in enumerate(json.load(sys.stdin)):
        print(json.dumps([number, losses(case)]), flush=True)


if __name__ == "__main__":
    main()
