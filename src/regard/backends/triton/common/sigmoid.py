"""A sigmoid's weights inside kernels. Instructions are what it waits for: several weights share a reciprocal, and where
weights are small, as those of many keys are, most take none.
"""

import triton
import triton.language as tl

from .pair_scores import MAX_EXPONENT_OF_TWO


@triton.jit
def logistic(x, INTERPRETED: tl.constexpr, FOUR: tl.constexpr):
    """1 / (1 + 2^x), 2^-60 at least.

    Two fractions share one reciprocal, or four, whose denominators are taken times 2^-30 so that every product is a
    normal number. The hardware's tanh would be one a weight, but weights of about 1 / n are what its error leaves of
    1 + tanh.
    """
    e = tl.exp2(tl.minimum(x, MAX_EXPONENT_OF_TWO, propagate_nan=tl.PropagateNan.ALL))
    if INTERPRETED:
        return 1.0 / (1.0 + e)
    elif FOUR:
        return tl.inline_asm_elementwise(
            """{
            .reg .f32 p, q, u, v, a, b, r;
            fma.rn.f32 p, $4, 0f30800000, 0f30800000;
            fma.rn.f32 q, $5, 0f30800000, 0f30800000;
            fma.rn.f32 u, $6, 0f30800000, 0f30800000;
            fma.rn.f32 v, $7, 0f30800000, 0f30800000;
            mul.f32 a, p, q;
            mul.f32 b, u, v;
            mul.f32 r, a, b;
            rcp.approx.ftz.f32 r, r;
            mul.f32 r, r, 0f30800000;
            mul.f32 b, b, r;
            mul.f32 a, a, r;
            mul.f32 $0, q, b;
            mul.f32 $1, p, b;
            mul.f32 $2, v, a;
            mul.f32 $3, u, a;
            }""",
            "=f,=f,=f,=f,f,f,f,f",
            [e],
            tl.float32,
            True,
            4,
        )
    else:
        return tl.inline_asm_elementwise(
            """{
            .reg .f32 p, q, r;
            add.f32 p, $2, 0f3F800000;
            add.f32 q, $3, 0f3F800000;
            mul.f32 r, p, q;
            rcp.approx.ftz.f32 r, r;
            mul.f32 $0, q, r;
            mul.f32 $1, p, r;
            }""",
            "=f,=f,f,f",
            [e],
            tl.float32,
            True,
            2,
        )


def _small(each: int) -> str:
    """2^x / (1 + 2^x) of so many numbers of a thread, in bfloat16, two a register.

    e = 2^x up to 2^-6 gives e - e^2, which is off by 2^-12 of itself, an eighth of what bfloat16 leaves; where a warp
    has a larger one, its numbers are divided, four by one reciprocal.
    """
    half = each // 2
    lines = [f"{{ .reg .b32 a, b, c, d, p, q, r, e<{each}>, h<{half}>; .reg .pred large;"]
    lines += [f"ex2.approx.ftz.f32 e{k}, ${half + k};" for k in range(each)]
    lines += [f"cvt.rn.bf16x2.f32 h{k}, e{2 * k + 1}, e{2 * k};" for k in range(half)]
    lines += ["mov.b32 a, h0;", *(f"max.bf16x2 a, a, h{k};" for k in range(1, half))]
    lines += ["shl.b32 b, a, 16;", "max.u32 a, a, b;", "setp.gt.u32 large, a, 0x3C80FFFF;"]  # of both halves
    lines += ["vote.sync.any.pred large, large, 0xffffffff;", "@large bra DIVIDED;"]
    for k in range(half):
        lines += [f"xor.b32 a, h{k}, 0x80008000;", f"fma.rn.bf16x2 ${k}, a, h{k}, h{k};"]
    lines += ["bra DONE;", "DIVIDED:"]
    for k in range(0, each, 4):
        for i, one in enumerate("abcd"):  # 2^30 at most: four of them have a product
            lines += [f"min.NaN.f32 e{k + i}, e{k + i}, 0f4E800000;", f"add.f32 {one}, e{k + i}, 0f3F800000;"]
        lines += [
            "mul.f32 p, a, b;",
            "mul.f32 q, c, d;",
            "mul.f32 r, p, q;",
            "rcp.approx.ftz.f32 r, r;",
            "mul.f32 q, q, r;",
            "mul.f32 p, p, r;",
            "mul.f32 b, b, q;",
            "mul.f32 a, a, q;",
            "mul.f32 d, d, p;",
            "mul.f32 c, c, p;",
        ]
        lines += [f"mul.f32 e{k + i}, e{k + i}, {one};" for i, one in enumerate("badc")]
        lines += [f"cvt.rn.bf16x2.f32 ${i // 2}, e{i + 1}, e{i};" for i in (k, k + 2)]
    return "\n".join([*lines, "DONE: }"])


def _places(each: int) -> str:
    return ",".join(["=&r"] * (each // 2) + ["f"] * each)


SMALL_16, PLACES_16 = tl.constexpr(_small(16)), tl.constexpr(_places(16))
SMALL_32, PLACES_32 = tl.constexpr(_small(32)), tl.constexpr(_places(32))


@triton.jit
def small_logistic(x, EACH: tl.constexpr, INTERPRETED: tl.constexpr):
    """2^x / (1 + 2^x) in bfloat16, fast where it is small; 0 where x is -inf. EACH thread has 16 of a tile, or 32."""
    if INTERPRETED:
        return (1.0 / (1.0 + tl.exp2(-x))).to(tl.bfloat16)
    elif EACH == 16:
        return tl.inline_asm_elementwise(SMALL_16, PLACES_16, [x], tl.bfloat16, True, 16)
    else:
        return tl.inline_asm_elementwise(SMALL_32, PLACES_32, [x], tl.bfloat16, True, 32)
