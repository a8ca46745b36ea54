/** The address of the application after its #, so that a reload, a link and the back button lead to the same view. */

import type { Choice } from "../store";
import type { Change } from "./live";
import type { RecordEntry } from "./record_list";

type FileName = Pick<RecordEntry, "from" | "name">;

/** An open record, alone or beside another one. */
export interface Origin extends FileName {
  beside?: FileName;
}

/** The selected weight, and the head that its head is compared with. */
export type Selection = Pick<Choice, "site" | "head" | "row" | "column"> & { against?: Choice["against"] };

/** The selection of a view, for its address: what was pinned or compared. */
export function selectionOf(choice: Choice | null | undefined): Selection | null {
  if (!choice || !(choice.pinned || choice.against)) return null;
  const { site, head, row, column, against } = choice;
  return { site, head, row, column, ...(against ? { against } : {}) };
}

/** What a view is told to show, of an address. */
export function chosen(place: Selection): Partial<Choice> {
  return { ...place, pinned: true, against: place.against ?? null, ...(place.against ? { side: "difference" } : {}) };
}

export function sameRecord(one: Origin, other: Origin): boolean {
  const file = (x?: FileName) => x && `${x.from}:${x.name}`;
  return file(one) === file(other) && file(one.beside) === file(other.beside);
}

export interface Address {
  at: string; // "model", "records", or the number of an open record
  records: Origin[];
  text: string; // of the live model
  second: string; // a second text that it is compared with
  changes: Change[];
  place: Selection | null;
}

const MOST = 6000; // characters of a text that an address holds

/** at=model&text=...&change=token:2&change=head:3:encoder.layer.5&place=5,11,9,2 */
export function written(address: Address): string {
  const made = new URLSearchParams({ at: address.at });
  address.records.forEach(({ from, name, beside }, at) => {
    made.append("record", `${from}:${name}`);
    if (beside) made.append("beside", `${at}:${beside.from}:${beside.name}`);
  });
  if (address.text && address.text.length <= MOST) made.set("text", address.text);
  if (address.second && address.second.length <= MOST) made.set("second", address.second);
  for (const { token, site, head, cut } of address.changes)
    if (cut) made.append("change", `cut:${cut.row}:${cut.column}:${cut.side}:${head}:${encodeURIComponent(cut.writer)}:${site}`);
    else made.append("change", token === undefined ? `head:${head}:${site}` : `token:${token}`);
  const { place } = address;
  if (place) made.set("place", [place.site, place.head, place.row, place.column, ...(place.against ? [place.against.site, place.against.head] : [])].join(","));
  return `#${made}`;
}

/** What an address says; null if it says nothing. Whatever does not fit is left out. */
export function read(hash: string): Address | null {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const at = found.get("at");
  if (!at || !/^(model|records|\d{1,4})$/.test(at)) return null;
  const records = found.getAll("record").flatMap((one) => {
    const parts = /^(argument|folder|upload):(.+)$/s.exec(one);
    return parts ? [{ from: parts[1] as Origin["from"], name: parts[2] }] : [];
  });
  for (const one of found.getAll("beside")) {
    const parts = /^(\d{1,4}):(argument|folder|upload):(.+)$/s.exec(one);
    if (parts && records[Number(parts[1])]) (records[Number(parts[1])] as Origin).beside = { from: parts[2] as Origin["from"], name: parts[3] };
  }
  const changes = found.getAll("change").flatMap((one): Change[] => {
    const cut = /^cut:(\d{1,7}):(\d{1,7}):(query|key):(\d{1,4}):([^:]+):(.+)$/s.exec(one);
    if (cut) return [{ head: Number(cut[4]), site: cut[6], cut: { row: Number(cut[1]), column: Number(cut[2]), side: cut[3] as "query" | "key", writer: decodeURIComponent(cut[5]) } }];
    const token = /^token:(\d{1,7})$/.exec(one);
    const head = /^head:(\d{1,4}):(.+)$/s.exec(one);
    return token ? [{ token: Number(token[1]) }] : head ? [{ head: Number(head[1]), site: head[2] }] : [];
  });
  const place = /^(\d+),(\d+),(\d+),(\d+)(?:,(\d+),(\d+))?$/.exec(found.get("place") ?? "");
  const [site, head, row, column, otherSite, otherHead] = (place ?? []).slice(1).map(Number);
  const against = place?.[5] === undefined ? {} : { against: { site: otherSite, head: otherHead } };
  return { at, records, text: found.get("text") ?? "", second: found.get("second") ?? "", changes, place: place ? { site, head, row, column, ...against } : null };
}

/** Whether two addresses show the same: then the newer replaces the entry of the history instead of adding one. Other open
 * records and the selection are no view of their own. */
export function sameView(one: string, other: string): boolean {
  const view = (hash: string) => {
    const found = read(hash);
    if (!found) return hash;
    if (found.at === "model") return JSON.stringify([found.text, found.second, found.changes]);
    return JSON.stringify(found.at === "records" ? found.at : (found.records[Number(found.at)] ?? found.at));
  };
  return view(one) === view(other);
}
