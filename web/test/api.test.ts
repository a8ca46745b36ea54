import { afterEach, expect, it, vi } from "vitest";
import { follow, type Job } from "../src/app/api";

afterEach(() => vi.unstubAllGlobals());

it("tells the notes of a job that is done at once", async () => {
  const cut = "The text has 600 tokens: the first 512 were read.";
  const job = { job: "1", state: "done", says: "", done: 1, of: 1, error: "", notes: [cut], result: 7 };
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify(job), { status: 200 })));
  const updates: (Job<number> | null)[] = [];
  expect(await follow<number>("/api/read", {}, (one) => updates.push(one))).toBe(7);
  expect(updates[0]?.notes).toEqual([cut]);
  expect(updates.at(-1)).toBeNull();
});
