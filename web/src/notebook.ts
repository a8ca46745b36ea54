/** A page in a notebook: anywidget hands over a model whose state is what a file would carry. */

import { MapData, type PageAbout } from "./data";
import { RegardPage, start } from "./page";
import { Store, type Choice } from "./store";

/** What anywidget's model has of Backbone's. */
interface Model {
  get(name: "about"): PageAbout;
  get(name: "blobs"): string[];
  get(name: "chosen"): Partial<Choice>;
  set(name: "chosen", value: Choice): void;
  save_changes(): void;
  on(event: string, heard: () => void): void;
  off(event: string, heard: () => void): void;
}

const QUIET = 120; // milliseconds without a new choice before the kernel is told

export function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const blobs = model.get("blobs");
  const store = new Store(new MapData(model.get("about"), (x) => blobs[x]));
  const page = document.createElement("regard-page") as RegardPage;
  page.store = store;
  page.style.minHeight = "0";
  // Keys on the map are the map's: a notebook would take "0 0" or "d d" for commands of its own.
  el.dataset.lmSuppressShortcuts = "true";
  el.addEventListener("keydown", (event) => event.stopPropagation());
  let timer = 0;
  const tell = () => {
    if (!timer) return;
    clearTimeout(timer);
    timer = 0;
    model.set("chosen", store.choice);
    model.save_changes();
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(tell, QUIET);
  };
  for (const left of ["pointerleave", "focusout"]) el.addEventListener(left, tell); // before a cell that reads it can run
  const told = () => store.choose(model.get("chosen"));
  store.addEventListener("choice", later);
  model.on("change:chosen", told);
  const asked = model.get("chosen");
  if (Object.keys(asked).length) store.choose(asked);
  else void start(store, "");
  el.append(page);
  return () => {
    clearTimeout(timer);
    model.off("change:chosen", told);
    page.remove();
  };
}
