import { describe, expect, it } from "vitest";
import { HEAD_COLOURS } from "../src/colour";
import { EdgeHead, Edges } from "../src/edges";
import { classColour, drawn, endsOf, graphStyle, loopsOf, shades } from "../src/graph_style";
import { shifted } from "../src/deferred_render";
import { inBoxes, patchAt, patchOf, shareOf, tokenOf } from "../src/patches";
import type { Inks } from "../src/theme";

// 0 <- 1 (twice), 0 <- 0, 1 <- 2, 2 has nobody
const edges = () => new Edges(3, 3, Uint8Array.of(0, 3, 4, 4), Uint8Array.of(1, 1, 0, 2), Uint8Array.of(0, 2, 3, 1), Float32Array.of(0.5, 0.125, 0.375, 1), 3);
type Pair = [{ x: number; y: number }, { x: number; y: number }];
const inks: Inks = { paper: "#fff", raised: "#fff", ink: "#000", soft: "#555", line: "#ccc", mark: "#d70", dark: false };

describe("edges", () => {
  it("are the matrix they stand for, repeated ones added up", () => {
    const of = edges();
    const matrix = [[0.375, 0.625, 0], [0, 0, 1], [0, 0, 0]];
    matrix.forEach((row, i) => {
      expect([...of.row(i)]).toEqual(row);
      row.forEach((w, j) => expect(of.weight(i, j)).toBe(w));
    });
    expect([...of.column(1)]).toEqual([0.625, 0, 0]);
    expect([...of.tile(0, 1, 2)]).toEqual([0.625, 0, 0, 1]);
    expect([...of.level().peak]).toEqual(matrix.flat());
  });
  it("tell a node's neighbourhood strongest first, with the caller's edges", () => {
    expect(edges().incoming(0)).toEqual([{ node: 1, w: 0.5, id: 0 }, { node: 0, w: 0.375, id: 3 }, { node: 1, w: 0.125, id: 2 }]);
    expect(edges().outgoing(1).map((x) => x.node)).toEqual([0, 0]);
    expect(edges().incoming(2)).toEqual([]);
  });
  it("leave out what is beyond a share of a node's mass", () => {
    expect([...edges().least(0.8)]).toEqual([0.375, 1, 0]);
    expect([...edges().least(1)]).toEqual([0, 0, 0]);
  });
  it("open at the node that attends to most, and at whom it looks hardest but itself", () => {
    expect(edges().opening()).toEqual({ row: 0, column: 1 });
  });
  it("of a large graph are cells whose peaks and means are those of their edges", () => {
    const n = 3000;
    const of = new Edges(n, n, Uint32Array.from({ length: n + 1 }, (_, i) => 2 * Math.min(i, 1)), Uint16Array.of(5, 6), Uint8Array.of(0, 1), Float32Array.of(0.25, 0.75), 2);
    const level = of.level();
    expect(level.size).toBe(4);
    expect([level.peak[1], level.mean[1], level.count![1], level.count![0]]).toEqual([0.75, 0.5, 2, 0]);
    const head = new EdgeHead(of);
    expect(head.dense).toBe(null);
    expect(head.weight(0, 6)).toEqual({ value: 0.75, exact: true });
    expect(head.tile(0, 0, true)![6]).toBe(0.75);
  });
});

describe("the look of a graph", () => {
  const named = { count: 3, first: 0, names: ["a", "b", "c"], classes: Uint8Array.of(0, 1, 0) };
  it("draws loops as rings and the rest as edges", () => {
    const of = edges();
    expect([...drawn(of, 0)]).toEqual([0, 1, 3]);
    expect([...drawn(of, 3)]).toEqual([0, 1, 2, 3]); // sources are other nodes: nothing is a loop
    expect([...endsOf(of, drawn(of, 0), 0)]).toEqual([1, 0, 1, 0, 2, 1]);
    expect([...loopsOf(of)]).toEqual([0.375, 0, 0]);
  });
  it("is broader, darker and further up the larger the weight", () => {
    const of = edges();
    const { edge, node } = graphStyle(of, drawn(of, 0), named, { scale: "linear", top: 1, mass: 1 }, inks);
    expect(edge.width[2]).toBeGreaterThan(edge.width[0]);
    expect(edge.width[0]).toBeGreaterThan(edge.width[1]);
    expect([...edge.order]).toEqual([128, 32, 255]);
    expect(edge.colour[2]).toBe(shades(false).warm[255]);
    expect([...edge.hidden]).toEqual([0, 0, 0]);
    expect(node.colour).toEqual([HEAD_COLOURS[1], HEAD_COLOURS[2], HEAD_COLOURS[1]]);
    expect(node.ring[0]).toBeCloseTo(0.1875);
    expect([node.ring[1], node.ring[2]]).toEqual([0, 0]);
    expect(node.size[2]).toBeGreaterThan(node.size[1]); // 1 received by the third, 0.625 by the second
  });
  it("hides what is beyond the mass, and shows what is below zero in the other colours", () => {
    const of = edges();
    of.w[1] = -0.125;
    const { edge } = graphStyle(of, drawn(of, 0), named, { scale: "linear", top: 1, mass: 0.8 }, inks);
    expect([...edge.hidden]).toEqual([0, 1, 0]);
    expect(edge.colour[1]).toBe(shades(false).cold[Math.round(30 + 225 / 8)]);
  });
  it("never gives a class the colour of weights while there are others", () => {
    expect(Array.from({ length: 11 }, (_, x) => classColour(x))).not.toContain(HEAD_COLOURS[0]);
  });
});

describe("patches", () => {
  const image = { grid: [2, 3] as [number, number], skip: 1, patch: [10, 20] as [number, number], boxes: [[0, 0, 30, 10]] };
  it("go row by row after the tokens that stand for none", () => {
    expect([tokenOf(image, 0, 0), tokenOf(image, 1, 2)]).toEqual([1, 6]);
    expect([0, 1, 6, 7].map((t) => patchOf(image, t))).toEqual([null, { r: 0, c: 0 }, { r: 1, c: 2 }, null]);
  });
  it("are found under a pixel, and none beyond the grid", () => {
    expect([[0, 0], [59, 19], [60, 5], [5, 20], [-1, 5]].map(([x, y]) => patchAt(image, x, y))).toEqual([1, 6, null, null, null]);
  });
  it("have the share that is said, and so have boxes", () => {
    const w = Float32Array.of(0.5, 0.25, 0.125, 0, 0.125, 0, 0);
    expect(shareOf(image, w)).toEqual({ patches: 0.5, total: 1 });
    const { mass, area } = inBoxes(image, w); // the first patch and half of the second
    expect(mass).toBeCloseTo((0.25 + 0.0625) / 0.5, 6);
    expect(area).toBeCloseTo(1.5 / 6, 6);
  });
});

describe("a moved picture", () => {
  it("stands where the camera now sees it", () => {
    const [seen, now] = [[{ x: 10, y: 90 }, { x: 110, y: 40 }], [{ x: 50, y: 60 }, { x: 250, y: -40 }]] as [Pair, Pair];
    const { x, y, scale } = shifted(seen, now);
    seen.forEach((spot, at) => expect({ x: x + scale * spot.x, y: y + scale * spot.y }).toEqual(now[at]));
  });
});
