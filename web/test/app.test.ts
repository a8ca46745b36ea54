import { describe, expect, it } from "vitest";
import { toggled } from "../src/app/live";
import { offsetBlobs, unpack } from "../src/app/remote";
import { sized } from "../src/app/record_list";
import { shown } from "../src/token_names";

describe("what a server sends", () => {
  it("is JSON and then the arrays that it names", () => {
    const text = new TextEncoder().encode(JSON.stringify({ form: "weights", sizes: [3, 0, 2] }));
    const raw = new Uint8Array(4 + text.length + 5);
    new DataView(raw.buffer).setUint32(0, text.length, true);
    raw.set(text, 4);
    raw.set([1, 2, 3, 4, 5], 4 + text.length);
    const { about, arrays } = unpack(raw.buffer);
    expect(about).toEqual({ form: "weights" });
    expect(arrays.map((x) => [...x])).toEqual([[1, 2, 3], [], [4, 5]]);
  });
  it("has its arrays offsetBlobs on from those that are there, however deep they stand", () => {
    const site = { thumbs: { blob: 0, shape: [1, 2] }, beside: { other: { thumbs: { blob: 2 } } }, numbers: [{ entropy: 1 }], rows: null };
    expect(offsetBlobs(site, 5)).toEqual({ thumbs: { blob: 5, shape: [1, 2] }, beside: { other: { thumbs: { blob: 7 } } }, numbers: [{ entropy: 1 }], rows: null });
  });
});

describe("changes", () => {
  it("stack in the order they were made, and the same one again takes itself back", () => {
    const head = { site: "layer.0", head: 1 };
    const both = toggled(toggled([], { token: 2 }), head);
    expect(both).toEqual([{ token: 2 }, head]);
    expect(toggled(both, { token: 2 })).toEqual([head]);
    expect(toggled(both, { site: "layer.0", head: 2 })).toHaveLength(3);
  });
});

describe("sizes of files", () => {
  it("have three digits and a unit", () => {
    expect([0, 999, 1000, 50_726_016, 3.2e9].map(sized)).toEqual(["0 B", "999 B", "1.00 kB", "50.7 MB", "3.20 GB"]);
  });
});

describe("tokens", () => {
  it("are written without what a page would obey: line ends and spaces are signs, control characters dots", () => {
    const seen = { "\n": "⏎", "Ċ": "⏎", "Ġcat": "cat", "##ing": "ing", " ": "␣", "a\nb": "a⏎b", "\u202eevil": "·evil", "\x1b[2J": "·[2J", "été 猫": "été 猫" };
    expect(Object.keys(seen).map(shown)).toEqual(Object.values(seen));
  });
});
