/** A <details> as a menu: Escape closes it and returns focus to its button; leaving it closes it without moving focus. */

interface Menu {
  open: boolean;
  querySelector(selector: "summary"): { focus(): void } | null;
}

export function closedByKey(menu: Menu, event: Pick<KeyboardEvent, "key" | "preventDefault" | "stopPropagation">): void {
  if (event.key !== "Escape" || !menu.open) return;
  event.preventDefault();
  event.stopPropagation(); // Escape also means something to the page below
  menu.open = false;
  menu.querySelector("summary")?.focus();
}

/** Close when focus or pointer moves elsewhere; null is ignored, since not every browser focuses what is clicked. */
export function closedByLeaving(menu: Pick<Menu, "open">, way: readonly unknown[] | null): void {
  if (way !== null && !way.includes(menu)) menu.open = false;
}
