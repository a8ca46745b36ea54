import { describe, expect, it } from "vitest";
import { closedByKey, closedByLeaving } from "../src/app/menu";

function menu(open: boolean) {
  const focused: string[] = [];
  return { open, focused, querySelector: (selector: string) => ({ focus: () => void focused.push(selector) }) };
}

function pressed(key: string) {
  const done: string[] = [];
  return { key, done, preventDefault: () => void done.push("prevented"), stopPropagation: () => void done.push("stopped") };
}

describe("a menu", () => {
  it("is closed by Escape, which goes back to its button and no further", () => {
    const [one, event] = [menu(true), pressed("Escape")];
    closedByKey(one, event);
    expect(one.open).toBe(false);
    expect(one.focused).toEqual(["summary"]);
    expect(event.done).toEqual(["prevented", "stopped"]);
  });
  it("leaves other keys alone, and Escape where it is closed", () => {
    for (const [open, key] of [[true, "Enter"], [true, "a"], [false, "Escape"]] as const) {
      const [one, event] = [menu(open), pressed(key)];
      closedByKey(one, event);
      expect([one.open, one.focused, event.done]).toEqual([open, [], []]);
    }
  });
  it("is closed by going elsewhere, not by going from one of its buttons to another", () => {
    const one = menu(true);
    closedByLeaving(one, [{}, one, {}]);
    closedByLeaving(one, null);
    expect(one.open).toBe(true);
    closedByLeaving(one, [{}]);
    expect(one.open).toBe(false);
    expect(one.focused).toEqual([]);
  });
});
