import { describe, expect, it } from "vitest";
import { bytesOf, decode, gunzip, half, logarithmic, numbersOf, unplane, weightOfCode } from "../src/codec";
import { palette, place, RAMPS, SCALES, weightAt, written } from "../src/colour";
import { exactBlock, exactWeight, type Pairs } from "../src/exact";
import { described, ordered } from "../src/heads";
import { clamped, fit, inSight, limited, revealing, stride, strongest, zoomed } from "../src/layout";
import { halved, levelFor, levelsOf, massThresholds, type Level } from "../src/levels";
import { same, shortened, shown, spaced } from "../src/token_names";
import { addressed } from "../src/page";
import { profile } from "../src/raster";
import { made } from "./made_by_python";

describe("arrays", () => {
  it("come back from byte planes", () => {
    expect([...unplane(new Uint8Array([1, 2, 3, 10, 20, 30]), 2)]).toEqual([1, 10, 2, 20, 3, 30]);
  });
  it("have halves and bfloat16 as IEEE has them", () => {
    expect([0x3c00, 0xc000, 0x0001, 0x7c00].map(half)).toEqual([1, -2, 2 ** -24, Infinity]);
    expect([...numbersOf(new Uint8Array([0x80, 0x3f]), "bf16")]).toEqual([1]);
  });
  it("are what Python wrote", async () => {
    expect([...(await decode(made.array.text, { blob: 0, type: "f32", shape: [3] }))]).toEqual(made.array.values.map(Math.fround));
    expect((await gunzip(bytesOf(made.array.text))).length).toBe(12);
  });
  it("of 8 bits are within half a step of the root", () => {
    for (let c = 1; c < 256; c++) expect(Math.round(255 * Math.sqrt(weightOfCode(c, 0.3) / 0.3))).toBe(c);
  });
  it("of 16 bits are within 0.03 % of a cell", () => {
    const table = logarithmic();
    made.cells.values.forEach((x, at) => expect(Math.abs(table[made.cells.codes[at]] / x - 1)).toBeLessThan(3e-4));
  });
});

describe("single weights", () => {
  const p: Pairs = { ...made.pairs, q: Float32Array.from(made.pairs.q), k: Float32Array.from(made.pairs.k),
    tau: Float32Array.from(made.pairs.tau), bias: null, length: null };
  it("are those of torch to the precision of float32", () => {
    exactBlock(p, 0, p.n, 0, p.m).forEach((w, at) => expect(Math.abs(w - made.weights[at])).toBeLessThan(1e-6));
  });
  it("sum to one along a row and are 0 where the structure says so", () => {
    for (let i = 0; i < p.n; i++) expect(exactBlock(p, i, i + 1, 0, p.m).reduce((a, b) => a + b, 0)).toBeCloseTo(1, 5);
    expect(exactWeight(p, 0, 1)).toBe(0);
    expect(exactWeight({ ...p, tau: p.tau.map(() => Infinity) }, 1, 0)).toBe(0);
  });
});

describe("levels", () => {
  const w = Float32Array.from({ length: 15 }, (_, x) => x / 100);
  const first: Level = { size: 1, rows: 3, cols: 5, mean: w, peak: w, count: null };
  it("keep the mass and the largest", () => {
    const next = halved(first, 3, 5);
    expect([next.rows, next.cols, next.size]).toEqual([2, 3, 2]);
    const mass = next.mean.reduce((sum, x, at) => sum + x * next.count![at], 0);
    expect(mass).toBeCloseTo(w.reduce((a, b) => a + b, 0), 6);
    expect(Math.max(...next.peak)).toBeCloseTo(0.14);
  });
  it("end at 64 cells, and the finest that fills a pixel is drawn", () => {
    const big = new Float32Array(300 * 300);
    const levels = levelsOf({ size: 1, rows: 300, cols: 300, mean: big, peak: big, count: null }, 300, 300);
    expect(levels.map((x) => x.size)).toEqual([1, 2, 4, 8]);
    expect([2, 1, 0.5, 0.3, 0.01].map((pixels) => levelFor(levels, pixels))).toEqual([0, 0, 1, 2, 3]);
  });
  it("leave out what is beyond a share of a row's mass", () => {
    const row = new Float32Array([0.5, 0.1, 0.3, 0.1]);
    expect([...massThresholds(row, 1, 4, 0.8)][0]).toBeCloseTo(0.3);
    expect([...massThresholds(row, 1, 4, 1)]).toEqual([0]);
  });
});

describe("colour", () => {
  it("goes from none to the top, and the legend is its inverse", () => {
    for (const { value } of SCALES) {
      expect(place(0, 0.5, value)).toBe(0);
      expect(place(0.5, 0.5, value)).toBe(1);
      expect(place(9, 0.5, value)).toBe(1);
      for (const x of [0.2, 0.5, 0.9]) expect(place(weightAt(x, 0.5, value), 0.5, value)).toBeCloseTo(x, 6);
    }
  });
  it("has the ramp's ends", () => {
    const colours = palette(RAMPS.light);
    expect(colours[0].toString(16)).toBe("fff8fdff");
    expect(colours[255].toString(16)).toBe("ff02162f");
  });
  it("is written as people read", () => {
    expect([0, 0.12345, 0.00001234, -0.5].map(written)).toEqual(["0", "0.1235", "1.23e−5", "−0.5000"]);
  });
});

describe("layout", () => {
  const box = { width: 400, height: 200 };
  it("shows the whole, in the middle", () => {
    expect(fit(100, 100, box, 1)).toBe(2);
    expect(fit(100, 100, box, 0.5)).toBe(4);
    expect(clamped({ x: 0, y: 0, scale: 0, tall: 1 }, 100, 100, box)).toEqual({ x: -50, y: 0, scale: 2, tall: 1 });
  });
  it("zooms about the pointer and stays on the map", () => {
    const view = zoomed({ x: 10, y: 10, scale: 2, tall: 0.5 }, 4, 100, 60);
    expect(view.x + 100 / view.scale).toBeCloseTo(60);
    expect(view.y + 60 / view.scale / 0.5).toBeCloseTo(70);
    expect(clamped({ x: -9, y: 999, scale: 20, tall: 1 }, 100, 100, box)).toEqual({ x: 0, y: 90, scale: 20, tall: 1 });
  });
  it("comes no closer than a number needs, and goes no farther than the whole", () => {
    expect([0.001, 10, 1e9].map((scale) => limited(scale, 100, 100, box, 1))).toEqual([2, 10, 44]);
  });
  it("brings a weight into sight", () => {
    expect(revealing({ x: 0, y: 0, scale: 20, tall: 1 }, 50, 3, box)).toEqual({ x: 0, y: 41, scale: 20, tall: 1 });
  });
  it("spaces names and finds those in sight", () => {
    expect([20, 6, 0.4].map((scale) => stride(scale, 12))).toEqual([1, 2, 50]);
    expect(inSight(1000, 210, 100, 21)).toEqual([9, 16]);
  });
  it("draws the strongest lines of a share of the mass", () => {
    const lines = strongest(new Float32Array([0.1, 0.6, 0, 0.3]), 0.85, 9);
    expect(lines.map((x) => x.j)).toEqual([3, 1]);
    expect(strongest(new Float32Array([0.1, -0.6, 0, 0.3]), 0.85, 9).map((x) => x.j)).toEqual([3, 1]);
  });
  it("draws the largest weight under each pixel of a profile", () => {
    expect([...profile(new Float32Array([1, 3, 2, 5]), 0, 0.5, 2)]).toEqual([3, 5]);
    expect([...profile(new Float32Array([1, 3]), -1, 1, 3)]).toEqual([0, 1, 3]);
  });
});

describe("names", () => {
  it("are shown without a tokenizer's marks", () => {
    expect(["##ing", "Ġcat", " ", "\n", "<b>"].map(shown)).toEqual(["ing", "cat", "␣", "⏎", "<b>"]);
    expect(shortened("attention", 5)).toBe("atte…");
  });
  it("stand apart as in the text", () => {
    expect(["un", "##likely", "cat", "."].map((_, j, all) => spaced(all, j))).toEqual([false, false, true, false]);
    expect(["a", " b", "c"].map((_, j, all) => spaced(all, j))).toEqual([false, true, false]);
    expect(same({ rows: ["a"], columns: ["a"], n: 1, m: 1 } as never)).toBe(true);
  });
});

describe("addresses", () => {
  it("name a site, a head, a row and a column", () => {
    expect(addressed("#5,11,9,2")).toEqual([5, 11, 9, 2]);
    expect(["", "#5", "#a,b,c,d", "#1,2,3,4,5"].map(addressed)).toEqual([null, null, null, null]);
  });
});

describe("heads", () => {
  const sites = [{ numbers: [{ entropy: 2, sink: 0.1, distance: null }, { entropy: 1, sink: 0.9, distance: 4 }] }];
  it("are sorted by what is asked, those without the number last", () => {
    expect(ordered(sites, "entropy").map((x) => x.head)).toEqual([1, 0]);
    expect(ordered(sites, "distance").map((x) => x.head)).toEqual([1, 0]);
    expect(ordered(sites, "layer").map((x) => x.head)).toEqual([0, 1]);
    expect(described(sites[0].numbers[1])).toBe("entropy 1.00 bits · first key 90 % · distance 4.0");
  });
});
