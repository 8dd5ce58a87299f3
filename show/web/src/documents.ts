/** The documents that are on the screen: asked for again and again, one request of each at a time. */

import { request, SourceError, type Params, type Source } from "./source";

export interface Need {
  /** Under which the document is found. */
  name: string;
  path: string;
  params?: Params;
  /** Milliseconds from an answer to the next request; 0 to ask once. */
  every?: number;
  /** Not a document of one instant. */
  timeless?: boolean;
}

interface Entry {
  need: Need;
  /** What is wanted, and what the document answers. */
  wanted: string;
  answered: string | undefined;
  document: unknown;
  error: SourceError | undefined;
  asking: boolean;
  timer: number | undefined;
}

export const USUAL_INTERVAL = 1000;
const RETRY = 2000;
/** From an answer to the next request pass so many times the time that the answer took. */
const PATIENCE = 9;

/** No answer, or a server that has too much to do: the same request may be granted a moment later. */
export function isPassing(error: SourceError): boolean {
  return error.status === 0 || error.status === 429 || error.status === 503;
}

export class Documents {
  /** When the server answered last, by the page's own clock. */
  answeredAt: number | undefined;
  paused = false;
  /** Of a file nothing changes: what was answered once is not asked for again. */
  still = false;
  private at: string | null = null;
  private readonly entries = new Map<string, Entry>();

  constructor(
    readonly source: Source,
    private readonly onChange: () => void,
  ) {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) for (const entry of this.entries.values()) this.schedule(entry, 0);
    });
  }

  /** Asks for these from now on, and for no others; `at` is the instant of all of them. */
  set(needs: Need[], at: string | null): void {
    this.at = at;
    const names = new Set(needs.map((need) => need.name));
    for (const [name, entry] of this.entries) {
      if (names.has(name)) continue;
      clearTimeout(entry.timer);
      this.entries.delete(name);
    }
    for (const need of needs) {
      const wanted = this.request(need);
      let entry = this.entries.get(need.name);
      if (entry === undefined) {
        const nothing = { answered: undefined, document: undefined, error: undefined };
        entry = { need, wanted, ...nothing, asking: false, timer: undefined };
        this.entries.set(need.name, entry);
      } else if (entry.wanted === wanted) {
        entry.need = need;
        continue;
      }
      entry.need = need;
      entry.wanted = wanted;
      this.schedule(entry, 0);
    }
  }

  /** The newest document of a name: while another is on its way, that of before. */
  get<T>(name: string): T | undefined {
    return this.entries.get(name)?.document as T | undefined;
  }

  error(name: string): SourceError | undefined {
    return this.entries.get(name)?.error;
  }

  /** Whether what is there answers what is wanted now. */
  isCurrent(name: string): boolean {
    const entry = this.entries.get(name);
    return entry !== undefined && entry.answered === entry.wanted;
  }

  /** Asks for everything again, at once; refusals of before do not count any more. */
  refresh(): void {
    for (const entry of this.entries.values()) {
      entry.error = undefined;
      this.schedule(entry, 0);
    }
  }

  private request(need: Need): string {
    return request(need.path, this.params(need));
  }

  private params(need: Need): Params {
    return need.timeless || this.at === null ? (need.params ?? {}) : { ...need.params, at: this.at };
  }

  private schedule(entry: Entry, delay: number): void {
    clearTimeout(entry.timer);
    entry.timer = window.setTimeout(() => void this.ask(entry), delay);
  }

  private async ask(entry: Entry): Promise<void> {
    // Nobody looks, or an answer is on its way: whoever ends it asks for what is wanted then.
    if (entry.asking || document.hidden) return;
    if (this.paused && entry.answered === entry.wanted) return;
    entry.asking = true;
    const { wanted, need } = entry;
    const asked = performance.now();
    try {
      entry.document = await this.source.get(need.path, this.params(need));
      entry.answered = wanted;
      entry.error = undefined;
      this.answeredAt = performance.now();
    } catch (error) {
      entry.error = error instanceof SourceError ? error : new SourceError(0, "failed", String(error));
      // A refusal is an answer, unless it only says not now; what was shown before belongs to another request.
      if (!isPassing(entry.error) && entry.answered !== wanted) {
        entry.document = undefined;
        entry.answered = wanted;
      }
    }
    entry.asking = false;
    if (this.entries.get(need.name) !== entry) return;
    if (entry.wanted !== wanted) {
      this.schedule(entry, 0);
    } else {
      // What takes the server long is asked for less often: looking must not cost what it looks at.
      const every = need.every === 0 ? 0 : Math.max(need.every ?? USUAL_INTERVAL, PATIENCE * (performance.now() - asked));
      // What did not come is waited for: not so long that nobody is there any more.
      if (entry.error && isPassing(entry.error)) this.schedule(entry, RETRY);
      else if (entry.error) this.schedule(entry, Math.max(RETRY, every));
      else if (every > 0 && !this.still && (this.at === null || need.timeless)) this.schedule(entry, every);
    }
    this.onChange();
  }
}
