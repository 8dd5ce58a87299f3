/** What happens: events as they are applied; of a recording those before the instant that is looked at. */

import type { FieldValue, LastEvent, LastEvents, StreamMessage } from "../api";
import { choice, h, panel, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { bytes, clock, count, counted, hex, ids } from "../format";
import { missing, notice, Toolbar } from "../parts";
import { SourceError } from "../source";
import { LongTable, type Rows } from "../table";
import { finds, type Context, type View } from "../view";

const KEPT = 5000;
const RETRY = 2000;

/** While nothing is looked for no more are read than anybody could: so many in each tick. */
const TICK = 250;
const MOST_PER_TICK = 300;
const NEWEST = 60;

/** Events before an instant of a recording. */
const LAST = 500;

const KINDS = [
  ["all", "all"],
  ["buffer", "buffers"],
  ["program", "programs"],
  ["kernel", "kernels"],
  ["failure", "failures"],
] as const;

type Kind = (typeof KINDS)[number][0];

/** Fields that have a column of their own. */
const COLUMNS = ["anomaly", "devices", "address"];

export class Events implements View {
  readonly keys: [string, string][] = [
    ["Space", "pause"],
    ["e", "kind"],
    ["G", "newest"],
    ["/", "find"],
  ];
  readonly words = ["anomalies", "recovered", "missed", "allocation failed", "clash", "mark"];
  readonly element: HTMLElement;
  private readonly toolbar = new Toolbar();
  private readonly notice = notice();
  private readonly table: LongTable<LastEvent>;
  private readonly panel: HTMLElement;
  private readonly abort = new AbortController();
  private kept: LastEvent[] = [];
  private missed = 0;
  private last: number | undefined;
  private following = true;
  private error: string | null = null;
  private framed = false;
  private begun = false;
  /** The connection that is read, when it was opened, and how many came by it. */
  private connection = new AbortController();
  private opened = 0;
  private came = 0;
  private started: string | undefined;

  constructor(private readonly context: () => Context) {
    this.table = new LongTable<LastEvent>("events", [
      { title: "TIME (UTC)", text: (row) => clock(row.time, row.time, true), width: "8rem" },
      { title: "PID", numeric: true, text: (row) => String(row.pid ?? "–"), width: "5rem" },
      { title: "EVENT", text: (row) => `${row.recovered ? "R " : ""}${row.event}`, kind: (row) => (isFailure(row) ? "danger" : null), width: "13rem" },
      { title: "DEVICES", text: (row) => ids(devicesOf(row)), width: "6rem" },
      { title: "ADDRESS", numeric: true, text: (row) => addressOf(row), width: "8rem" },
      { title: "WHAT", text: (row) => what(row), hint: (row) => what(row), width: "minmax(16rem, 1fr)" },
    ]);
    this.panel = panel("Events", this.table.element);
    this.element = h("div", { class: "view tall" }, this.toolbar.element, this.notice, this.panel);
  }

  needs(context: Context): Need[] {
    return isPast(context) ? [{ name: "last", path: "/api/v1/last", params: { count: LAST } }] : [];
  }

  render(context: Context): void {
    const kind = kindOf(context);
    this.toolbar.update(JSON.stringify([kind, this.following]), () => [
      choice("kind", KINDS, kind, (value) => context.set({ params: { kind: value === "all" ? null : value } })),
      h("button", { type: "button", "aria-pressed": this.following ? "false" : "true", onclick: () => this.pause() }, this.following ? "pause" : "go on"),
    ]);
    const past = isPast(context);
    // A file has no stream: whether there is one is known with the first answer about a recording.
    const isKnown = context.recording !== undefined || context.documents.error("recording") !== undefined;
    if (!past && isKnown && !this.begun) {
      this.begun = true;
      void this.follow();
    }
    missing(this.notice, past ? (context.documents.error("last")?.message ?? null) : this.error);
    this.draw();
  }

  key(key: string, context: Context): boolean {
    if (key === " ") this.pause();
    else if (key === "G") this.table.toEnd();
    else if (key === "e") {
      const names = KINDS.map(([name]) => name);
      const next = names[(names.indexOf(kindOf(context)) + 1) % names.length];
      context.set({ params: { kind: next === "all" ? null : next } });
    } else return false;
    return true;
  }

  destroy(): void {
    this.abort.abort();
  }

  private pause(): void {
    this.following = !this.following;
    this.render(this.context());
  }

  /** Follows the stream, and comes back behind the last event that it saw. */
  private async follow(): Promise<void> {
    const { source } = this.context().documents;
    let skips = false;
    while (!this.abort.signal.aborted) {
      this.connection = new AbortController();
      [this.opened, this.came] = [performance.now(), 0];
      try {
        const params = this.last === undefined ? { last: 500 } : skips ? { last: NEWEST } : { after: this.last };
        const signal = AbortSignal.any([this.abort.signal, this.connection.signal]);
        await source.stream("/api/v1/events", params, (message) => this.take(message as StreamMessage), signal);
        this.error = "the server ended the stream";
      } catch (error) {
        skips = this.connection.signal.aborted;
        if (skips) {
          await new Promise((done) => setTimeout(done, TICK));
          continue;
        }
        this.error = error instanceof SourceError ? error.message : "the stream was broken off";
        if (error instanceof SourceError && error.status === 404) return this.render(this.context());
      }
      if (this.abort.signal.aborted) return;
      this.render(this.context());
      await new Promise((done) => setTimeout(done, RETRY));
    }
  }

  private take(message: StreamMessage): void {
    this.error = null;
    if (message.type === "hello") {
      // Another server counts anew.
      if (message.started !== this.started) this.last = undefined;
      this.started = message.started;
    }
    if (message.type !== "event") return;
    const { id } = message;
    if (this.last !== undefined && id <= this.last) return;
    // Ids are consecutive: what was skipped is counted.
    if (this.last !== undefined) this.missed += id - this.last - 1;
    this.last = id;
    this.kept.push(message);
    this.came += 1;
    const ticks = 1 + Math.floor((performance.now() - this.opened) / TICK);
    if (this.came > ticks * MOST_PER_TICK + 500 && this.looksForNothing()) this.connection.abort();
    // Not one by one: that would move thousands for each.
    if (this.kept.length > KEPT * 1.5) this.kept = this.kept.slice(-KEPT);
    if (!this.following || this.framed) return;
    this.framed = true;
    setTimeout(() => {
      this.framed = false;
      if (!this.abort.signal.aborted) this.draw();
    }, 250);
  }

  private looksForNothing(): boolean {
    const context = this.context();
    return kindOf(context) === "all" && !context.params["find"];
  }

  private draw(): void {
    const context = this.context();
    const [kind, find] = [kindOf(context), context.params["find"]];
    const past = isPast(context);
    const last = context.documents.get<LastEvents>("last")?.events ?? [];
    const shown = (past ? last : this.kept.slice(-KEPT)).filter((row) => isOf(kind, row) && (!find || finds(find, row.pid, row.process, row.event, what(row), addressOf(row))));
    const rows: Rows<LastEvent> = { length: shown.length, at: (place) => shown[place] };
    const isAtEnd = this.table.isAtEnd;
    const state = this.following ? "following" : "paused";
    const missed = this.missed > 0 ? `, ${count(this.missed)} missed` : "";
    setText(titleOf(this.panel), past ? `The last ${counted(shown.length, "event")} before this instant` : `${counted(shown.length, "event")}, ${state}${missed}`);
    this.table.update(rows);
    if (this.following && isAtEnd) this.table.toEnd();
  }
}

/** Whether what is looked at is over: a file, or an instant before now. */
function isPast({ params, recording }: Context): boolean {
  return recording?.source === "file" || (recording !== undefined && params["at"] !== undefined);
}

function kindOf(context: Context): Kind {
  return KINDS.find(([name]) => name === context.params["kind"])?.[0] ?? "all";
}

function isFailure(row: LastEvent): boolean {
  return /failed|refused|clash/.test(row.event) || row.fields["anomaly"] !== undefined;
}

function isOf(kind: Kind, row: LastEvent): boolean {
  if (kind === "all") return true;
  return kind === "failure" ? isFailure(row) : row.event.includes(kind);
}

function listed(value: FieldValue): string {
  return Array.isArray(value) ? value.join(",") : String(value);
}

function devicesOf(row: LastEvent): number[] {
  const value = row.fields["devices"];
  return Array.isArray(value) ? value : [];
}

function addressOf(row: LastEvent): string {
  const value = row.fields["address"];
  return typeof value === "number" ? hex(value) : "";
}

/** The fields without a column of their own, in the order of the event table. */
function what(row: LastEvent): string {
  const fields = Object.entries(row.fields).filter(([name, value]) => !COLUMNS.includes(name) && value !== null);
  const texts = fields.map(([name, value]) =>
    name.endsWith("_bytes") && typeof value === "number" ? `${name.slice(0, -6)}=${bytes(value)}` : `${name}=${listed(value)}`,
  );
  const anomaly = row.fields["anomaly"];
  return [...(anomaly === undefined ? [] : [String(anomaly)]), ...texts].join(" ");
}
