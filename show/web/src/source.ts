/** Where documents come from: a server over HTTP, or the file that the page itself is in. */

export type Params = Record<string, string | number | boolean | null | undefined>;

export class SourceError extends Error {
  constructor(
    /** The HTTP status; 0 when there was no answer at all. */
    readonly status: number,
    readonly word: string,
    detail: string,
  ) {
    super(detail);
  }
}

export interface Source {
  readonly kind: "http" | "embedded";
  /** A document; the parameters that are null or undefined are left out. */
  get<T>(path: string, params?: Params): Promise<T>;
  /** Messages of a stream until it ends or is aborted. */
  stream(path: string, params: Params, take: (message: unknown) => void, signal: AbortSignal): Promise<void>;
  /** Sets a mark; only where somebody listens. */
  post?(path: string, params: Params): Promise<void>;
}

/** A request as text, always in the same order. */
export function request(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const name of Object.keys(params).sort()) {
    const value = params[name];
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}

const TOKEN = "ttmem-token";

/** The token of this tab: it ends with the tab, is sent as a header, and is never part of an address. */
export const token = {
  get: (): string | null => sessionStorage.getItem(TOKEN),
  set: (value: string): void => sessionStorage.setItem(TOKEN, value),
  clear: (): void => sessionStorage.removeItem(TOKEN),
};

/** A little less than a connection may last: of a long recording the server needs some of it, and others may be before. */
const ANSWER_TIMEOUT = 55_000;

export class HttpSource implements Source {
  readonly kind = "http";

  async get<T>(path: string, params?: Params): Promise<T> {
    const answer = await this.ask("GET", request(path, params), AbortSignal.timeout(ANSWER_TIMEOUT));
    try {
      return (await answer.json()) as T;
    } catch {
      throw new SourceError(0, "broken_answer", "the server's answer was broken off");
    }
  }

  async post(path: string, params: Params): Promise<void> {
    await this.ask("POST", request(path, params), AbortSignal.timeout(ANSWER_TIMEOUT));
  }

  async stream(path: string, params: Params, take: (message: unknown) => void, signal: AbortSignal): Promise<void> {
    const answer = await this.ask("GET", request(path, params), signal);
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    const lines = new EventLines(take);
    for (;;) {
      const part = await reader?.read();
      if (!part || part.done) return;
      lines.push(part.value);
    }
  }

  private async ask(method: string, target: string, signal: AbortSignal): Promise<Response> {
    const secret = token.get();
    const headers: Record<string, string> = secret === null ? {} : { Authorization: `Bearer ${secret}` };
    let answer: Response;
    try {
      answer = await fetch(target, {
        method,
        headers,
        signal,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        referrerPolicy: "no-referrer",
      });
    } catch {
      throw new SourceError(0, "no_answer", "the server does not answer");
    }
    if (answer.ok) return answer;
    // Somebody signed in while this was on its way.
    if (answer.status === 401 && token.get() !== secret) return this.ask(method, target, signal);
    const problem = (await answer.json().catch(() => ({}))) as { error?: string; detail?: string };
    throw new SourceError(answer.status, problem.error ?? "refused", problem.detail ?? answer.statusText);
  }
}

/** Server-sent events out of pieces of text: the JSON of each `data:`. */
export class EventLines {
  private rest = "";

  constructor(private readonly take: (message: unknown) => void) {}

  push(piece: string): void {
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      let message: unknown;
      try {
        message = JSON.parse(line.slice(5));
      } catch {
        continue;
      }
      this.take(message);
    }
  }
}
