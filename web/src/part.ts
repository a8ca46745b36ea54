/** What every component has: the shared choice, and drawing once a frame. */

import { LitElement, type TemplateResult } from "lit";
import { savers } from "./saving";
import type { Act, Store } from "./store";

export abstract class Part extends LitElement {
  static override properties = { store: { attribute: false } };
  declare store: Store | null;
  protected loading: Promise<void> = Promise.resolve(); // what was asked for last
  private frame = 0;
  private watch: ResizeObserver | null = null;
  private readonly listen = (event: Event) => this.chosen((event as CustomEvent).detail);
  private readonly recolour = () => this.later();

  constructor() {
    super();
    this.store = null;
  }

  protected abstract draw(): void;
  protected abstract chosen(before: Store["choice"]): void;
  /** A store was given. */
  protected abstract begun(): void;

  override connectedCallback(): void {
    super.connectedCallback();
    this.watch = new ResizeObserver(() => this.later());
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
      if (this.store) this.begun();
    }
    this.later();
  }

  /** Whether another map is to be read since then. */
  protected another(before: Store["choice"]): boolean {
    const { site, head, side } = this.store!.choice;
    return site !== before.site || head !== before.head || side !== before.side;
  }

  later(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.isConnected && this.store && this.clientWidth > 0) this.draw();
    });
  }

  /** Buttons that save what is chosen, once it is loaded and drawn: never what was chosen before. */
  protected saver(kinds: Record<string, () => void>, what: string): TemplateResult {
    return savers(kinds, what, async (run) => {
      for (let last; last !== this.loading; await last) last = this.loading;
      await this.updateComplete;
      this.draw();
      run();
    });
  }

  /** A double-click: an application that has the model does something about it. */
  protected act(detail: Act): void {
    const left = this.dispatchEvent(new CustomEvent("act", { detail, bubbles: true, composed: true, cancelable: true }));
    if (!left) getSelection()?.removeAllRanges(); // the word that a double-click marks is not what was meant
  }

  protected canvas(): HTMLCanvasElement {
    return this.renderRoot.querySelector("canvas")!;
  }
}
