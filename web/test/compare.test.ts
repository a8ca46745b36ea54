import { describe, expect, it } from "vitest";
import { bitsOf, signedLogarithmic } from "../src/codec";
import { diverging, signed } from "../src/colour";
import { compared, DifferenceHead } from "../src/difference";
import { allowed, exactWeight, type Pairs } from "../src/exact";
import { dragged } from "../src/gestures";
import { Head } from "../src/head";
import { numbersOf, ordered } from "../src/heads";
import { levelsOf, type Level } from "../src/levels";
import { labelled } from "../src/token_names";
import { made } from "./made_by_python";

const level = (w: number[], rows: number, count: number[] | null = null): Level => {
  const values = Float32Array.from(w);
  return { size: 1, rows, cols: w.length / rows, mean: values, peak: values, count: count && Float32Array.from(count) };
};
const head = (w: number[], rows: number, count: number[] | null = null) => {
  const first = level(w, rows, count);
  return new Head(rows, first.cols, levelsOf(first, rows, first.cols), null, null);
};

describe("differences", () => {
  const a = head([0.5, 0.5, 0, 0.2, 0.3, 0.5], 2, [1, 1, 0, 1, 1, 1]);
  const b = head([0.1, 0.9, 0, 0.2, 0.2, 0.6], 2, [1, 1, 0, 1, 1, 0]);
  const d = new DifferenceHead(a, b, "=~", null);
  it("are this less the other, weight by weight, row by row and column by column", () => {
    [0.4, -0.4, 0, 0, 0.1, -0.1].forEach((x, at) => {
      expect(d.value(Math.floor(at / 3), at % 3)).toBeCloseTo(x, 6);
      expect(d.row(Math.floor(at / 3))[at % 3]).toBeCloseTo(x, 6);
      expect(d.column(at % 3)[Math.floor(at / 3)]).toBeCloseTo(x, 6);
    });
    expect(d.exact(0, 0)).toBe(true);
  });
  it("are open where either map is, and shut where neither is", () => {
    expect([0, 1, 2].map((j) => d.allowed(0, j))).toEqual([true, true, false]);
    expect(d.allowed(1, 2)).toBe(true);
    expect(d.restricted).toBe(true);
    expect(new DifferenceHead(head([1], 1), head([0], 1), "=", null).restricted).toBe(false);
  });
  it("have no row that only one map has", () => {
    const lone = new DifferenceHead(a, b, "+=", null);
    expect([...lone.row(0)]).toEqual([0, 0, 0]);
    expect([lone.value(0, 0), lone.allowed(0, 0), lone.allowed(1, 0)]).toEqual([0, false, true]);
    expect([..."=~+-"].map((_, i) => compared("=~+-", i))).toEqual([true, true, false, false]);
  });
  it("of large maps come from cells and, closer, from both heads", () => {
    const cells: Level = { size: 8, rows: 1, cols: 1, mean: new Float32Array([0.1]), peak: new Float32Array([-0.4]), count: new Float32Array([6]) };
    const large = new DifferenceHead(a, b, "==", cells);
    expect(large.dense).toBe(null);
    expect(large.single).toBe(true);
    const tile = large.tile(0, 0, true)!;
    expect(tile[1]).toBeCloseTo(-0.4, 6);
    expect(tile[2]).toBeNaN(); // may not meet
    expect([...large.row(1)].map((x) => Math.round(100 * x))).toEqual([0, 10, -10]);
  });
});

describe("maps aligned with another", () => {
  const p: Pairs = { ...made.pairs, q: Float32Array.from(made.pairs.q), k: Float32Array.from(made.pairs.k),
    tau: Float32Array.from(made.pairs.tau), bias: null, length: null };
  const moved: Pairs = { ...p, rowOf: new Uint32Array([1, 0, 2, 3, 4, 5]), columnOf: new Uint32Array([1, 2, 0, 3, 4, 5]) };
  it("have each weight at its new place and none where there is no token", () => {
    expect(exactWeight(moved, 3, 3)).toBe(exactWeight(p, 2, 2));
    expect(exactWeight(moved, 5, 1)).toBe(exactWeight(p, 4, 1));
    expect([exactWeight(moved, 1, 0), exactWeight(moved, 4, 2)]).toEqual([0, 0]);
    expect([allowed(moved, 1, 0), allowed(moved, 4, 2), allowed(moved, 2, 3), allowed(moved, 2, 1)]).toEqual([false, false, false, true]);
  });
});

describe("codes", () => {
  it("with a sign are 0 in the middle and alike to both sides", () => {
    const table = signedLogarithmic();
    expect([table[32768], table[65535], table[1]]).toEqual([0, 1, -1]);
    for (const c of [1, 100, 20000]) expect(table[32768 - c]).toBe(-table[32768 + c]);
  });
  it("of single bits begin a byte with each head", () => {
    const bytes = new Uint8Array([0b10110000, 0b01000000]);
    expect([...bitsOf(bytes, 0, 1, 4)]).toEqual([1, 0, 1, 1]);
    expect([...bitsOf(bytes, 1, 1, 4)]).toEqual([0, 1, 0, 0]);
  });
  it("of colour go from cold over the paper to warm", () => {
    const colours = diverging(false);
    const [red, blue] = [(x: number) => x & 255, (x: number) => (x >> 16) & 255];
    expect(blue(colours[60])).toBeGreaterThan(red(colours[60]));
    expect(red(colours[190])).toBeGreaterThan(blue(colours[190]));
    expect(Math.abs(red(colours[127]) - 0xff)).toBeLessThan(4);
    expect([signed(0.25), signed(-0.25), signed(0)]).toEqual(["+0.2500", "−0.2500", "0"]);
  });
});

describe("fingers", () => {
  const view = { x: 10, y: 20, scale: 4, tall: 0.5 };
  const under = (v: typeof view, x: number, y: number) => [v.x + x / v.scale, v.y + y / v.scale / v.tall];
  it("one drags: what was under it still is", () => {
    const next = dragged({ view, fingers: [{ x: 40, y: 30 }] }, [{ x: 70, y: 10 }], (s) => s);
    expect(next.scale).toBe(4);
    expect(under(next, 70, 10)).toEqual(under(view, 40, 30));
  });
  it("two pinch: what was under each still is", () => {
    const from = [{ x: 40, y: 30 }, { x: 60, y: 30 }];
    const to = [{ x: 20, y: 50 }, { x: 80, y: 50 }];
    const next = dragged({ view, fingers: from }, to, (s) => s);
    expect(next.scale).toBe(12);
    from.forEach((p, x) => under(next, to[x].x, to[x].y).forEach((at, axis) => expect(at).toBeCloseTo(under(view, p.x, p.y)[axis], 9)));
  });
  it("come no closer than the map allows", () => {
    const next = dragged({ view, fingers: [{ x: 0, y: 0 }, { x: 1, y: 0 }] }, [{ x: 0, y: 0 }, { x: 500, y: 0 }], (s) => Math.min(s, 44));
    expect(next.scale).toBe(44);
  });
});

describe("names of two texts", () => {
  const site = { rows: ["a", "b"], columns: ["a", "c", "d"], n: 2, m: 3, beside: { rows: "=+", columns: "=-~" } } as never;
  it("are marked where only one has them", () => {
    expect([labelled(site, "rows", 0), labelled(site, "rows", 1)]).toEqual(["a", "+ b"]);
    expect([0, 1, 2].map((j) => labelled(site, "columns", j))).toEqual(["a", "− c", "d"]);
  });
});

describe("heads of two maps", () => {
  const site = { numbers: [{ entropy: 1, change: 0.1 }, { entropy: 2, change: 0.7 }], beside: { other: { numbers: [{ entropy: 5 }, { entropy: 4 }] } } };
  it("are sorted by how much they changed, with the numbers of the side that is shown", () => {
    expect(ordered([site], "change").map((x) => x.head)).toEqual([1, 0]);
    expect(numbersOf(site as never, "other")).toEqual([{ entropy: 5, change: 0.1 }, { entropy: 4, change: 0.7 }]);
    expect(numbersOf(site as never, "difference")).toBe(site.numbers);
  });
});
