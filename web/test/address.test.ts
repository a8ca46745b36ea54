import { describe, expect, it } from "vitest";
import { read, sameView, written, type Address } from "../src/app/address";

const ADDRESS: Address = {
  at: "model", records: [{ from: "folder", name: "a & b/ü:1.regard" }, { from: "upload", name: "x.regard" }], text: "50 % of #1?\n猫", second: "b",
  changes: [{ token: 2 }, { site: "encoder.layer.5:1", head: 11 }], place: { site: 5, head: 11, row: 9, column: 2 },
};

describe("the address", () => {
  it("says again what was written into it", () => {
    expect(read(written(ADDRESS))).toEqual(ADDRESS);
    const bare = { ...ADDRESS, records: [], text: "", second: "", changes: [], place: null };
    expect(read(written(bare))).toEqual(bare);
  });
  it("of nobody is none, and leaves out what does not fit", () => {
    for (const hash of ["", "#", "#5,11,9,2", "#at=elsewhere", "#at=99999"]) expect(read(hash)).toBeNull();
    const found = read("#at=0&record=etc:passwd&record=folder:&change=token:x&change=head:1:&place=1,2,3");
    expect(found).toEqual({ at: "0", records: [], text: "", second: "", changes: [], place: null });
  });
  it("leaves out a text that is too long for one", () => {
    expect(read(written({ ...ADDRESS, text: "x".repeat(7000) }))!.text).toBe("");
  });
  it("is of the same view where the selection or other open records differ, and of another where the text does", () => {
    const here = written(ADDRESS);
    expect(sameView(here, written({ ...ADDRESS, place: null, records: [] }))).toBe(true);
    expect(sameView(here, written({ ...ADDRESS, text: "other" }))).toBe(false);
    expect(sameView(here, written({ ...ADDRESS, changes: [] }))).toBe(false);
    expect(sameView(written({ ...ADDRESS, at: "0" }), written({ ...ADDRESS, at: "1" }))).toBe(false);
  });
});
