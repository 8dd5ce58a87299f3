/** Pages of live buffers: those around what is on the screen, of a list of any length. */

import type { BufferRow } from "./api";
import type { BufferListPage } from "./embedded";
import { request, type Params, type Source } from "./source";
import type { Rows } from "./table";

const PAGE = 200;
const KEPT = 24;
/** How old a page on the screen may become. */
const FRESH = 3000;

interface Kept {
  rows: BufferRow[];
  /** When; never if it belongs to another list. */
  asked: number | undefined;
}

/** Rows as the screen needs them: a page is asked for when one of its rows is seen, a few at a time. */
export class BufferPages implements Rows<BufferRow> {
  length = 0;
  matchedBytes: number | null = null;
  leftOut = 0;
  error: string | null = null;
  private pages = new Map<number, Kept>();
  private query = "";
  private params: Params = {};
  private asking = new Set<number>();
  private seen: [number, number] = [0, 0];

  constructor(
    private readonly source: Source,
    private readonly onChange: () => void,
  ) {}

  /** Another list, or the same one at another instant: rows of before stay until those of now come. */
  ask(params: Params): void {
    const query = request("", params);
    if (query !== this.query) {
      this.query = query;
      this.params = params;
      for (const page of this.pages.values()) page.asked = undefined;
    }
    this.look(...this.seen);
  }

  at(place: number): BufferRow | undefined {
    return this.pages.get(Math.floor(place / PAGE))?.rows[place % PAGE];
  }

  look(first: number, last: number): void {
    this.seen = [first, last];
    const now = performance.now();
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) {
      const kept = this.pages.get(page);
      const fresh = this.params["at"] === undefined ? FRESH : Infinity;
      if (this.asking.size < 2 && !this.asking.has(page) && (kept?.asked === undefined || now - kept.asked > fresh)) void this.fetch(page);
    }
  }

  private async fetch(page: number): Promise<void> {
    this.asking.add(page);
    const query = this.query;
    try {
      const found = await this.source.get<BufferListPage>("/api/v1/buffers", { ...this.params, offset: page * PAGE, limit: PAGE });
      if (query === this.query) {
        this.pages.delete(page);
        this.pages.set(page, { rows: found.rows, asked: performance.now() });
        this.length = found.matched ?? page * PAGE + found.rows.length;
        this.matchedBytes = found.matched_bytes;
        this.leftOut = found.left_out ?? 0;
        this.error = null;
        this.forget();
      }
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.asking.delete(page);
    // Another list was wanted meanwhile.
    if (query !== this.query) this.look(...this.seen);
    this.onChange();
  }

  /** The pages that were asked for longest ago go. */
  private forget(): void {
    for (const page of this.pages.keys()) {
      if (this.pages.size <= KEPT) return;
      this.pages.delete(page);
    }
  }
}
