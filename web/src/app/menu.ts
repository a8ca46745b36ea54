/** A <details> as a menu: Escape closes it and goes back to its button; so does leaving it, without going back. */

interface Menu {
  open: boolean;
  querySelector(selector: "summary"): { focus(): void } | null;
}

export function closedByKey(menu: Menu, event: Pick<KeyboardEvent, "key" | "preventDefault" | "stopPropagation">): void {
  if (event.key !== "Escape" || !menu.open) return;
  event.preventDefault();
  event.stopPropagation(); // the page under it has an Escape of its own
  menu.open = false;
  menu.querySelector("summary")?.focus();
}

/** Where the keyboard or the pointer goes next; nowhere (null) says nothing: a browser may not focus what is clicked. */
export function closedByLeaving(menu: Pick<Menu, "open">, way: readonly unknown[] | null): void {
  if (way !== null && !way.includes(menu)) menu.open = false;
}
