// @ts-expect-error This module is node's own, whose types are not installed.
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { read, sameRecord, sameView, selectionOf, written, type Address } from "../src/app/address";
import { MapData, type PageAbout, type SiteAbout } from "../src/data";
import { addressed } from "../src/page";
import { comparable, Store } from "../src/store";

const WEIGHTS = [0.25, 0.75, 0.5, 0.5, 1, 0, 0.5, 0.5]; // two heads of 2 x 2

const site = (name: string, change: Partial<SiteAbout> = {}): SiteAbout => ({
  site: name, short: name, heads: 2, n: 2, m: 2, rows: ["a", "b"], columns: ["a", "b"], numbers: [{}, {}],
  thumbs: { blob: 0, type: "u8", shape: [0, 0, 0] }, form: "weights", weights: { blob: 0, type: "f32", shape: [2, 2, 2] }, ...change,
});

/** As Python packs arrays: the first byte of each number, then the second of each, ... */
const packed = (numbers: number[]): Uint8Array<ArrayBuffer> => {
  const bytes = new Uint8Array(Float32Array.from(numbers).buffer);
  const planes = bytes.map((_, at) => bytes[(at % numbers.length) * 4 + Math.floor(at / numbers.length)]);
  return new Uint8Array(gzipSync(planes));
};

const store = (...sites: SiteAbout[]) => {
  const about: PageAbout = { version: 1, title: "", facts: "", text: "", sites };
  return new Store(new MapData(about, () => packed(WEIGHTS)));
};

describe("two heads", () => {
  it("are subtracted weight by weight, and named", async () => {
    const one = store(site("0"), site("1"));
    one.choose({ against: { site: 1, head: 1 }, side: "difference" });
    expect(one.names).toEqual(["head 0.0", "head 1.1"]);
    const found = (await one.head()).dense!;
    [-0.75, 0.75, 0, 0].forEach((x, at) => expect(found[at]).toBeCloseTo(x, 6));
    one.choose({ side: "other" });
    expect([...(await one.head()).dense!]).toEqual(WEIGHTS.slice(4));
    one.choose({ side: "this" });
    expect([...(await one.head()).dense!]).toEqual(WEIGHTS.slice(0, 4));
  });
  it("are compared only on the same tokens", () => {
    expect(comparable(site("0"), site("1"))).toBe(true);
    expect(comparable(site("0"), site("1", { columns: ["a", "c"] }))).toBe(false);
    expect(comparable(site("0"), site("1", { n: 3 }))).toBe(false);
    expect(comparable(site("0"), site("1", { form: "cells" }))).toBe(false);
    expect(comparable(site("0", { large: true }), site("0", { large: true }))).toBe(false);
  });
  it("are compared no longer where the selection moves to another sort of map", () => {
    const one = store(site("0"), site("1", { columns: ["a", "c"] }));
    one.choose({ against: { site: 0, head: 1 }, side: "difference" });
    one.choose({ site: 1 });
    expect([one.choice.against, one.choice.side, one.names]).toEqual([null, "this", null]);
  });
  it("that an address names and that are not there are left out", () => {
    const one = store(site("0"));
    one.choose({ against: { site: 7, head: 0 }, side: "difference" });
    expect([one.choice.against, one.choice.side]).toEqual([null, "this"]);
  });
});

describe("the address", () => {
  const address: Address = {
    at: "1", text: "", second: "", changes: [], place: { site: 5, head: 11, row: 9, column: 2, against: { site: 4, head: 3 } },
    records: [{ from: "argument", name: "a.regard" }, { from: "argument", name: "a.regard", beside: { from: "folder", name: "runs/b:1.regard" } }],
  };
  it("carries a second head and a second record", () => {
    expect(read(written(address))).toEqual(address);
    expect(addressed("#5,11,9,2,4,3")).toEqual([5, 11, 9, 2, 4, 3]);
    expect(addressed("#5,11,9,2,4")).toBe(null);
  });
  it("tells a record from its comparison", () => {
    expect(sameRecord(address.records[0], address.records[1])).toBe(false);
    expect(sameView(written(address), written({ ...address, at: "0" }))).toBe(false);
  });
  it("has a selection where something was pinned or compared", () => {
    const choice = { site: 0, head: 1, row: 0, column: 0, pinned: false, side: "this" as const, against: null };
    expect(selectionOf(choice)).toBe(null);
    expect(selectionOf({ ...choice, against: { site: 0, head: 0 } })).toEqual({ site: 0, head: 1, row: 0, column: 0, against: { site: 0, head: 0 } });
  });
});
