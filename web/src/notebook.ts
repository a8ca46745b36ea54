/** A page in a notebook: the anywidget model carries what an HTML file would. */

import { MapData, type PageAbout } from "./data";
import { RegardPage, start } from "./page";
import { Store, type Choice } from "./store";

/** The part of the Backbone model that is used. */
interface Model {
  get(name: "about"): PageAbout;
  get(name: "blobs"): string[];
  get(name: "chosen"): Partial<Choice>;
  set(name: "chosen", value: Choice): void;
  save_changes(): void;
  on(event: string, callback: () => void): void;
  off(event: string, callback: () => void): void;
}

const SYNC_DELAY = 120; // milliseconds of rest before the selection is synced to the kernel

export function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const blobs = model.get("blobs");
  const store = new Store(new MapData(model.get("about"), (x) => blobs[x]));
  const page = document.createElement("regard-page") as RegardPage;
  page.store = store;
  page.style.minHeight = "0";
  // Keep keys on the map from the notebook, which would take "0 0" or "d d" for commands of its own.
  el.dataset.lmSuppressShortcuts = "true";
  el.addEventListener("keydown", (event) => event.stopPropagation());
  let timer = 0;
  const sync = () => {
    if (!timer) return;
    clearTimeout(timer);
    timer = 0;
    model.set("chosen", store.choice);
    model.save_changes();
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(sync, SYNC_DELAY);
  };
  for (const left of ["pointerleave", "focusout"]) el.addEventListener(left, sync); // before a cell that reads it can run
  const fromKernel = () => store.choose(model.get("chosen"));
  store.addEventListener("choice", later);
  model.on("change:chosen", fromKernel);
  const asked = model.get("chosen");
  if (Object.keys(asked).length) store.choose(asked);
  else void start(store, "");
  el.append(page);
  return () => {
    clearTimeout(timer);
    model.off("change:chosen", fromKernel);
    page.remove();
  };
}
