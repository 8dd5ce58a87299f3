/**
 * The documents of a report file: the page with its data inside.
 *
 * The data are JSON, packed by gzip and then base64, in the element with the id `ttmem-data`: the instants at which
 * there are documents, contents, and the place of each request's content (path and parameters in alphabetical order).
 * Requests of one instant have `at`, one of the instants; their contents have no `time`, so that equal ones are
 * there once. A report has few of the requests that a server answers; what is asked for is looked up
 * in its exact form first, and then with fewer parameters, which are applied here.
 */

import type { Allocations, BufferRow, BufferRowPage, Timeline } from "./api";
import { request, SourceError, type Params, type Source } from "./source";

export interface Embedded {
  /** The instants at which there are documents, oldest first. */
  instants: string[];
  contents: unknown[];
  documents: Record<string, number>;
}

/** A page of live buffers as lists show it. */
export interface BufferListPage extends BufferRowPage {
  /** From a report: rows it does not have, smaller than those it has. */
  left_out?: number;
}

const ID = "ttmem-data";

/** Parameters that a report may leave out of its requests, by a part of the path. */
const OPTIONAL: [part: string, names: string[]][] = [
  ["/timeline/", ["from", "to", "points"]],
  ["/allocations/", ["from", "to", "limit"]],
  ["/buffers", ["class", "descending", "device", "find", "limit", "offset", "pid", "sort", "unique_id"]],
  ["/groups", ["device", "unique_id"]],
  ["/history", ["points", "seconds"]],
  ["/failures", ["count"]],
  ["/programs", ["limit"]],
  ["/last", ["count", "pid"]],
];

/** The data of the file that the page is in; null if a server sent the page. */
export async function embedded(): Promise<EmbeddedSource | null> {
  const text = document.getElementById(ID)?.textContent;
  if (!text) return null;
  const packed = Uint8Array.from(atob(text.trim()), (sign) => sign.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new EmbeddedSource((await new Response(unpacked).json()) as Embedded);
}

export class EmbeddedSource implements Source {
  readonly kind = "embedded";
  private readonly times: number[];

  constructor(private readonly data: Embedded) {
    this.times = data.instants.map((instant) => Date.parse(instant));
  }

  async get<T>(path: string, params: Params = {}): Promise<T> {
    const exact = this.find(path, params);
    if (exact !== undefined) return exact as T;
    const optional = OPTIONAL.find(([part]) => path.endsWith(part) || (part.endsWith("/") && path.includes(part)))?.[1] ?? ["x", "y", "cells"];
    const fewer = Object.fromEntries(Object.entries(params).filter(([name]) => !optional.includes(name)));
    const found = this.find(path, fewer);
    if (found === undefined) throw new SourceError(404, "not_found", "this report does not have it");
    if (path.includes("/timeline/")) return windowOf(found as Timeline, params) as T;
    if (path.includes("/allocations/")) return allocationsIn(found as Allocations, params) as T;
    if (path.endsWith("/buffers")) return pageOf(found as BufferRowPage, params) as T;
    return found as T;
  }

  /** The instant that is shown for a time; the last one for none. Several may lie in one millisecond. */
  nearest(at: Params[string]): string | undefined {
    if (typeof at === "string" && this.data.instants.includes(at)) return at;
    const wanted = typeof at === "string" ? Date.parse(at) : Infinity;
    let best = this.times.length - 1;
    this.times.forEach((time, place) => {
      if (Math.abs(time - wanted) <= Math.abs((this.times[best] ?? 0) - wanted)) best = place;
    });
    return this.data.instants[best];
  }

  async stream(): Promise<void> {
    throw new SourceError(404, "not_found", "a report has no stream of events");
  }

  private find(path: string, params: Params): unknown {
    const { at, ...others } = params;
    const { contents, documents } = this.data;
    const whenever = documents[request(path, others)];
    if (whenever !== undefined) return contents[whenever];
    const time = this.nearest(at);
    const place = documents[request(path, { ...others, at: time })];
    return place === undefined ? undefined : { time, ...(contents[place] as object) };
  }
}

function bounds(params: Params): [from: number, to: number] {
  const time = (value: Params[string], usual: number) => (typeof value === "string" ? Date.parse(value) : usual);
  return [time(params["from"], -Infinity), time(params["to"], Infinity)];
}

/** The steps that overlap a window. */
export function windowOf(timeline: Timeline, params: Params): Timeline {
  const [from, to] = bounds(params);
  const times = timeline.times.map((time) => Date.parse(time));
  const first = Math.max(0, times.findIndex((_, step) => (times[step + 1] ?? Infinity) > from));
  const behind = times.findIndex((time) => time >= to);
  const end = behind < 0 ? times.length - 1 : Math.max(behind, first + 1);
  const cut = <T>(values: T[]) => values.slice(first, end);
  return {
    ...timeline,
    times: timeline.times.slice(first, end + 1),
    series: timeline.series.map((each) => ({ ...each, values: cut(each.values) })),
    other: cut(timeline.other),
    total_max: cut(timeline.total_max),
    dispatches: cut(timeline.dispatches),
  };
}

function allocationsIn(found: Allocations, params: Params): Allocations {
  const [from, to] = bounds(params);
  const rectangles = found.rectangles.filter((each) => Date.parse(each.from) <= to && (each.to === null || Date.parse(each.to) >= from));
  const shown = (value: Params[string], usual: string) => (typeof value === "string" ? value : usual);
  return { ...found, rectangles, from: shown(params["from"], found.from), to: shown(params["to"], found.to) };
}

const ORDERS: Record<string, (row: BufferRow) => number | string> = {
  size: (row) => row.charged_bytes,
  address: (row) => row.address ?? -1,
  time: (row) => row.time ?? "",
};

/** Filters, order and page of live buffers, as the server has them. */
export function pageOf(all: BufferRowPage, params: Params): BufferListPage {
  const find = String(params["find"] ?? "").toLowerCase();
  const device = params["device"] ?? null;
  const numbers = (value: number | null) => (value === null ? [] : [String(value), `0x${value.toString(16)}`]);
  const rows = all.rows.filter((row) => {
    if (params["class"] && row.class !== params["class"]) return false;
    if (params["pid"] && String(row.pid) !== String(params["pid"])) return false;
    if (device !== null && !row.device_ids.includes(Number(device))) return false;
    const texts = [row.operation ?? "", ...(row.python ?? []), row.id, ...numbers(row.pid), ...numbers(row.address)];
    return find === "" || texts.some((text) => text.toLowerCase().includes(find));
  });
  const order = ORDERS[String(params["sort"] ?? "")];
  const way = String(params["descending"]) === "true" ? -1 : 1;
  if (order) rows.sort((one, other) => (order(one) < order(other) ? -way : order(one) > order(other) ? way : 0));
  const offset = Number(params["offset"] ?? 0);
  return {
    schema: all.schema,
    rows: rows.slice(offset, offset + Number(params["limit"] ?? 1000)),
    next: null,
    matched: rows.length,
    matched_bytes: rows.reduce((sum, row) => sum + row.charged_bytes, 0),
    left_out: Math.max(0, (all.matched ?? 0) - all.rows.length),
  };
}

