import { describe, expect, it } from "vitest";
import { DifferenceHead } from "../src/difference";
import { Head } from "../src/head";
import { described, ordered } from "../src/heads";
import { levelsOf, type Level } from "../src/levels";
import { marksOf, overlap } from "../src/overlap";
import { fileName } from "../src/saving";
import { largest } from "../src/shading";
import { stepOf } from "../src/steps";
import { coloured, escaped, SvgPen } from "../src/svg";
import { inWindow, quoted, table } from "../src/table";
import { made } from "./made_by_python";

const head = (w: number[], rows: number, count: number[] | null = null) => {
  const values = Float32Array.from(w);
  const first: Level = { size: 1, rows, cols: w.length / rows, mean: values, peak: values, count: count && Float32Array.from(count) };
  return new Head(rows, first.cols, levelsOf(first, rows, first.cols), null, null);
};

describe("what a person marked", () => {
  it("overlaps with the weights as scikit-learn has it, ties together", () => {
    for (const { weights, marks, auprc, precision } of made.overlaps) {
      const found = overlap(weights, marks);
      expect(found.auprc).toBeCloseTo(auprc, 12);
      if (precision !== null) expect(found.precision).toBeCloseTo(precision, 12);
    }
  });
  it("is as good as chance where all weights are alike", () => {
    const found = overlap([1, 1, 1, 1], [1, 0, 0, 0]);
    expect([found.auprc, found.precision, found.chance]).toEqual([0.25, 0.25, 0.25]);
  });
  it("fits the columns it was made for and no others", () => {
    expect([...marksOf({ spans: [[1, 3]], length: 4 }, 4)!]).toEqual([0, 1, 1, 0]);
    expect(marksOf({ spans: [[1, 3]], length: 4 }, 5)).toBe(null);
    expect([...marksOf({ spans: [[1, 3]], length: null }, 5)!]).toEqual([0, 1, 1, 0, 0]);
    expect(marksOf({ spans: [[1, 3]], length: null }, 2)).toBe(null);
    expect(marksOf(undefined, 2)).toBe(null);
  });
});

describe("the importance of heads", () => {
  it("sorts them and is told", () => {
    const sites = [{ numbers: [{ importance: 0.1 }, { importance: 0.123456 }, {}] }];
    expect(ordered(sites, "importance").map((x) => x.head)).toEqual([1, 0, 2]);
    expect(described(sites[0].numbers[1])).toBe("importance 0.123");
  });
});

describe("steps", () => {
  it("are rows from the first that wrote, and none before or after", () => {
    const steps = { first: 3, written: ["a", "b", null] };
    expect([0, 3, 4, 5, 9].map((row) => stepOf(steps, row))).toEqual([0, 0, 1, 2, 2]);
    expect(largest([-3, 1, 2])).toBe(3);
    expect(largest([-3, 1, 2], 1)).toBe(2);
  });
});

describe("a table", () => {
  const site = { rows: ["=x", 'say "hi"'], columns: ["a", "b"], n: 2, m: 2 } as never;
  it("has a line for each pair that may meet", () => {
    const lines = table(site, head([1, 0, 0.25, 0.75], 2, [1, 0, 1, 1]), null, [], { i0: 0, i1: 2, j0: 0, j1: 2 }).split("\r\n");
    expect(lines).toEqual(['"row","row name","column","column name","weight","exact"', `0,"'=x",0,"a",1,1`,
      `1,"say ""hi""",0,"a",0.25,1`, `1,"say ""hi""",1,"b",0.75,1`, ""]);
  });
  it("of two maps has both and their difference", () => {
    const [a, b] = [head([0.5, 0.5, 1, 0], 2), head([0.25, 0.75, 0, 1], 2)];
    const both = new DifferenceHead(a, b, "=+", null);
    const lines = table(site, both, both, ["new", "old"], { i0: 0, i1: 2, j0: 0, j1: 1 }).split("\r\n");
    expect(lines[0]).toContain('"new","old","new - old","exact"');
    expect(lines[1]).toBe(`0,"'=x",0,"a",0.5,0.25,0.25,1`);
    expect(lines[2]).toBe(`1,"say ""hi""",0,"a",1,0,,1`);
  });
  it("begins and ends with what is in sight", () => {
    expect(inWindow({ x: 2.5, y: 0, scale: 10, tall: 0.5 }, { width: 20, height: 15 }, 99, 99)).toEqual({ i0: 0, i1: 3, j0: 2, j1: 5 });
    expect(inWindow({ x: -3, y: -2, scale: 1, tall: 1 }, { width: 50, height: 50 }, 9, 8)).toEqual({ i0: 0, i1: 9, j0: 0, j1: 8 });
    expect(["-1", "@x", "+", "a-1"].map(quoted)).toEqual([`"'-1"`, `"'@x"`, `"'+"`, '"a-1"']);
  });
});

describe("a drawing", () => {
  it("keeps what is drawn with a pen, and text as text", () => {
    const pen = new SvgPen(100, 50, () => ({ width: 7 }) as TextMetrics);
    pen.strokeStyle = "#123456";
    pen.lineWidth = 2.345;
    pen.globalAlpha = 0.5;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(1, 2);
    pen.bezierCurveTo(3, 2, 3, 4, 5, 4);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.textAlign = "right";
    pen.fillText("<script>\u0000", 9, 8);
    expect(String(pen)).toContain('<path d="M1 2C3 2 3 4 5 4" fill="none" stroke="#123456" stroke-width="2.35" stroke-dasharray="5 4" opacity="0.5"/>');
    expect(String(pen)).toContain('text-anchor="end">&lt;script&gt;\ufffd</text>');
    expect(pen.measureText("x").width).toBe(7);
    expect(escaped(`a & "b"`)).toBe("a &amp; &quot;b&quot;");
  });
  it("has colours that every reader knows", () => {
    expect(coloured("color(srgb 1 0.5 0 / 0.25)")).toEqual(["rgb(255,128,0)", 0.25]);
    expect(coloured("rgba(0, 0, 0, 0)")).toEqual(["rgb(0,0,0)", 0]);
    expect(coloured("rgb(1, 2, 3)")).toEqual(["rgb(1,2,3)", 1]);
  });
});

describe("a file's name", () => {
  it("is made of what is shown, without what a folder or a shell would read", () => {
    const store = { choice: { head: 3, side: "difference" }, site: { short: "2" }, data: { about: { title: "../a/<b>: 猫" } } };
    expect(fileName(store as never, "map", "csv")).toBe("a-b-猫-2.3-difference-map.csv");
  });
});
