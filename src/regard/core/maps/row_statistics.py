"""Row statistics of a call: the largest logit, the entropy and the log-sum-exp of each row, differentiable.

    max_logit_i = max_j s_ij        entropy_i = -sum_j w_ij log w_ij        log_sum_exp_i = log sum_j exp(s_ij)

Scores are those that the alignment sees, modifiers and biases included, also what shifts a whole row. A backend
computes them in blocks of rows, so nothing of size n x m is stored, forward or backward.
"""

from typing import TYPE_CHECKING

from torch import Tensor

from .. import registry
from ..arguments import shown
from ..errors import Refused

if TYPE_CHECKING:
    from ..plan import Plan

NAMES = ("max_logit", "entropy", "log_sum_exp")


def check_statistics(stats: "str | tuple[str, ...] | list[str] | None") -> tuple[str, ...]:
    """The names that stats= asks for, each once."""
    if stats is None:
        return ()
    names = (stats,) if isinstance(stats, str) else stats
    if not isinstance(names, (tuple, list)):
        raise TypeError(f'stats= got {shown(stats)}, expected names: stats=("max_logit", "entropy").')
    for name in names:
        if name not in NAMES:
            raise ValueError(f"stats= got {shown(name)}, expected names among {', '.join(map(repr, NAMES))}.")
    return tuple(dict.fromkeys(names))


def statistics_of(plan: "Plan", names: tuple[str, ...]) -> dict[str, Tensor]:
    """Each statistic, (B H, [F,] n), fp32 or fp64.

    An empty row has max_logit -inf, entropy 0 and log_sum_exp -inf, and gives no gradient.
    """
    _check_plan(plan, names)
    ignores_shifts = set(names) == {"entropy"}
    problem = plan.problem if ignores_shifts else plan.with_row_constants
    largest, entropy, total = registry.row_statistics(problem)
    by_name = {"max_logit": largest, "entropy": entropy, "log_sum_exp": total}
    return {name: by_name[name] for name in names}


def _check_plan(plan: "Plan", names: tuple[str, ...]) -> None:
    align = type(plan.align).__name__
    if plan.score.stepwise or plan.align.stepwise or not plan.align.remembers:
        raise Refused(
            f"stats= of {type(plan.score).__name__} with {align}: its weights do not follow from the scores of one row "
            "and a row state. Read them from the map: attend(...).map.entropy()."
        )
    if not plan.align.uses_scores and set(names) != {"entropy"}:
        raise Refused(f'stats= of {align}: it has no scores, so only "entropy" is defined.')
    if "log_sum_exp" in names and align != "Softmax":
        raise Refused(
            f'stats="log_sum_exp" is defined of a softmax, not of {align}: its threshold is attend(...).map.tau.'
        )
    if not plan.problem.score.closed:
        raise Refused(
            "stats= needs a score and modifiers that lower to the normal form; a score of your own does not: read "
            "attend(...).map.entropy(), or define lower()."
        )
