/** Base of the components: shared selection, and drawing at most once per frame. */

import { LitElement, type TemplateResult } from "lit";
import { savers } from "./saving";
import type { Act, Store } from "./store";

export abstract class Component extends LitElement {
  static override properties = { store: { attribute: false } };
  declare store: Store | null;
  protected loading: Promise<void> = Promise.resolve(); // the latest request
  private frame = 0;
  private watch: ResizeObserver | null = null;
  private readonly listen = (event: Event) => this.choiceChanged((event as CustomEvent).detail);
  private readonly recolour = () => this.scheduleDraw();

  constructor() {
    super();
    this.store = null;
  }

  protected abstract draw(): void;
  protected abstract choiceChanged(before: Store["choice"]): void;
  /** A store was assigned. */
  protected abstract storeChanged(): void;

  override connectedCallback(): void {
    super.connectedCallback();
    this.watch = new ResizeObserver(() => this.scheduleDraw());
    this.watch.observe(this);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.recolour);
    this.store?.addEventListener("choice", this.listen);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.watch?.disconnect();
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    matchMedia("(prefers-color-scheme: dark)").removeEventListener("change", this.recolour);
    this.store?.removeEventListener("choice", this.listen);
  }

  protected override updated(changed: Map<PropertyKey, unknown>): void {
    if (changed.has("store")) {
      (changed.get("store") as Store | null)?.removeEventListener("choice", this.listen);
      this.store?.addEventListener("choice", this.listen);
      if (this.store) this.storeChanged();
    }
    this.scheduleDraw();
  }

  /** Whether the selection moved to another map. */
  protected mapChanged(before: Store["choice"]): boolean {
    const { site, head, side, against } = this.store!.choice;
    return site !== before.site || head !== before.head || side !== before.side || against !== before.against;
  }

  scheduleDraw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.isConnected && this.store && this.clientWidth > 0) this.draw();
    });
  }

  /** Export buttons; they wait until the current selection is loaded and drawn. */
  protected saver(kinds: Record<string, () => void>, what: string): TemplateResult {
    return savers(kinds, what, async (run) => {
      for (let last; last !== this.loading; await last) last = this.loading;
      await this.updateComplete;
      this.draw();
      run();
    });
  }

  /** A double-click: the live application intervenes on the token or head. */
  protected act(detail: Act): void {
    const left = this.dispatchEvent(new CustomEvent("act", { detail, bubbles: true, composed: true, cancelable: true }));
    if (!left) getSelection()?.removeAllRanges(); // undo the text selection of the double-click
  }

  protected canvas(): HTMLCanvasElement {
    return this.renderRoot.querySelector("canvas")!;
  }
}
