/** Maps of a view on the server: described at once, fetched site by site on demand. */

import type { Blob64 } from "../codec";
import { MapData, type PageAbout, type SiteAbout } from "../data";
import type { Side } from "../difference";
import type { Head } from "../head";
import { requestJson, bytes } from "./api";

export interface Viewed {
  view: string;
  about: PageAbout & { drawn?: boolean };
}

const CACHED_PARTS = 24; // parts

/** Maps of a view: fetched on demand, or all at once for graphs. */
export async function dataOf({ about, view }: Viewed, onError: (problem: string) => void): Promise<MapData> {
  if (!about.drawn) return new RemoteData(about, view, onError);
  const page = unpack(await bytes(`/api/views/${view}/whole`));
  return new MapData(page.about as unknown as PageAbout, (blob) => page.arrays[blob]);
}

/** Tell the server that the view is closed. */
export function release(view: string, data: MapData): void {
  if (data instanceof RemoteData) data.released = true;
  void requestJson(`/api/views/${view}`, undefined, "DELETE").catch(() => undefined);
}

/** 4 bytes of length, JSON, and the arrays that it names. */
export function unpack(raw: ArrayBuffer): { about: Record<string, unknown>; arrays: Uint8Array<ArrayBuffer>[] } {
  const length = new DataView(raw).getUint32(0, true);
  const { sizes, ...about } = JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 4, length))) as { sizes: number[] };
  let at = 4 + length;
  return { about, arrays: sizes.map((size) => new Uint8Array(raw, (at += size) - size, size)) };
}

/** The description with its blob indices shifted. */
export function offsetBlobs(x: unknown, by: number): Record<string, unknown> {
  const made = Object.entries(x as object).map(([name, value]) => {
    if (name === "blob" && typeof value === "number") return [name, value + by];
    const inner = typeof value === "object" && value !== null && !Array.isArray(value);
    return [name, inner ? offsetBlobs(value, by) : value];
  });
  return Object.fromEntries(made) as Record<string, unknown>;
}

const NONE: Blob64 = { blob: -1, type: "u8", shape: [0, 0, 0] };

export class RemoteData extends MapData {
  private overviews = new Map<number, Promise<void>>();
  private parts = new Map<string, Promise<MapData>>();
  private stored: Uint8Array<ArrayBuffer>[] = [];
  released = false;

  constructor(
    about: PageAbout,
    private view: string,
    private onError: (problem: string) => void,
  ) {
    for (const site of about.sites) {
      const none = { numbers: Array.from({ length: site.heads }, () => ({})), thumbs: NONE };
      Object.assign(site, none);
      if (site.beside) Object.assign(site.beside, { other: { ...site, beside: undefined, ...none }, difference: { thumbs: NONE } });
    }
    super(about, (blob) => this.stored[blob]);
  }

  /** Thumbnails and statistics of all heads of a site; resolved when they have arrived. */
  override readonly overview = (site: number): Promise<void> => {
    let found = this.overviews.get(site);
    if (!found) this.overviews.set(site, (found = this.fetchOverview(site)));
    return found;
  };

  /** A payload; on failure the error is reported once and the promise stays pending. */
  private async fetched(path: string, failed: () => void): Promise<ReturnType<typeof unpack>> {
    try {
      return unpack(await bytes(`/api/views/${this.view}/${path}`));
    } catch (problem) {
      failed();
      if (!this.released) this.onError((problem as Error).message);
      return new Promise(() => undefined);
    }
  }

  private async fetchOverview(site: number): Promise<void> {
    const { about, arrays } = await this.fetched(`sites/${site}`, () => this.overviews.delete(site));
    const { beside, ...own } = offsetBlobs(about, this.stored.length) as unknown as SiteAbout;
    this.stored.push(...arrays);
    const here = this.sites[site];
    Object.assign(here, own);
    if (beside && here.beside) {
      Object.assign(here.beside.other, beside.other);
      Object.assign(here.beside.difference, beside.difference);
    }
  }

  override async head(site: number, head: number, side: Side = "this"): Promise<Head> {
    const { large = false } = this.sites[site];
    const key = large ? `${site}.${head}` : `${site}`;
    let found = this.parts.get(key);
    if (!found) {
      while (this.parts.size >= CACHED_PARTS) this.parts.delete(this.parts.keys().next().value!);
      this.parts.set(key, (found = this.part(site, head, large, () => this.parts.delete(key))));
    }
    return (await found).head(0, large ? 0 : head, side);
  }

  private async part(site: number, head: number, large: boolean, failed: () => void): Promise<MapData> {
    const { about, arrays } = await this.fetched(`sites/${site}/heads/${head}`, failed);
    const own = { ...this.sites[site], ...about, ...(large ? { heads: 1 } : {}) };
    return new MapData({ ...this.about, sites: [own] }, (blob) => arrays[blob]);
  }
}
