/** The page: its frame, the view that is shown, keys, and the documents that all views have in common. */

import type { Problems, Recording, Snapshot } from "./api";
import { Palette } from "./colours";
import { Documents, USUAL_INTERVAL, type Need } from "./documents";
import { h, replace, setClass, setText } from "./dom";
import { EmbeddedSource } from "./embedded";
import { count, duration, clock, seconds } from "./format";
import { Help } from "./help";
import { CLASSES, inOrder, used } from "./figures";
import { SignIn } from "./signin";
import type { Source } from "./source";
import { Store, VIEWS, write, changed, type State } from "./state";
import { applyTheme, switchTheme } from "./theme";
import { TimeBar } from "./timebar";
import { peaksOf } from "./timeline";
import type { Context, View } from "./view";
import { Buffers } from "./views/buffers";
import { DeviceView } from "./views/device";
import { Events } from "./views/events";
import { FailuresView } from "./views/failures";
import { LeaksView } from "./views/leaks";
import { MapView } from "./views/map";
import { Overview } from "./views/overview";
import { Processes } from "./views/processes";
import { Programs } from "./views/programs";
import { learnHidden } from "./hidden";

const MAKE: Record<State["view"], (context: () => Context) => View> = {
  overview: (context) => new Overview(context),
  processes: (context) => new Processes(context),
  device: (context) => new DeviceView(context),
  map: (context) => new MapView(context),
  programs: (context) => new Programs(context),
  buffers: (context) => new Buffers(context),
  events: (context) => new Events(context),
  leaks: (context) => new LeaksView(context),
  failures: (context) => new FailuresView(context),
};

/** Whether all that reported is the model of the runtime, and its devices are closed. */
function isEndedDemo(recording: Recording, { devices, processes }: Snapshot): boolean {
  return recording.source === "live" && processes.length > 0 && processes.every(({ source }) => source === "model") && devices.every(({ allocators }) => allocators.length === 0);
}

/** Figures without an answer for so long are called stale. */
const STALE = 3000;

export class App {
  private readonly store: Store;
  private readonly documents: Documents;
  private readonly palette = new Palette();
  private readonly help = new Help();
  private readonly signIn: SignIn;
  private readonly timebar: TimeBar;
  private readonly tabs: HTMLAnchorElement[];
  private readonly server = h("span", { class: "faint" });
  private readonly status = h("span", { class: "status", role: "status" });
  private readonly find = h("input", { type: "search", placeholder: "find", "aria-label": "find names, lines of Python, pids and addresses", maxlength: 200 });
  private readonly problem = h("a", { class: "problem", hidden: true });
  private readonly errors = h("p", { class: "notice", hidden: true });
  private readonly failure = h("button", { type: "button", onclick: () => this.timebar.key("f") }, "look at the failure");
  private readonly peak = h("button", { type: "button", onclick: () => this.timebar.key("p") }, "look at the peak");
  private readonly overText = h("span");
  private readonly over = h("p", { class: "notice", hidden: true }, this.overText, this.failure, this.peak);
  /** Where the page went by itself when a demo had ended; null where the user has left it. */
  private lastState: string | null | undefined;
  private readonly main = h("main", { id: "view", tabindex: -1 });
  private view: View;
  private framed = false;
  private rate: number | undefined;
  private counted: { events: number; time: number } | undefined;

  constructor(source: Source, root: HTMLElement) {
    this.documents = new Documents(source, () => this.frame());
    this.store = new Store((before) => this.changed(before));
    this.signIn = new SignIn(() => this.documents.refresh());
    this.timebar = new TimeBar(this.context);
    this.tabs = VIEWS.map(([key, name, title]) => {
      const tab = h("a", { href: `#/${name}` }, h("kbd", null, key), ` ${title}`);
      tab.addEventListener("click", (event) => {
        event.preventDefault();
        this.store.set({ view: name });
      });
      return tab;
    });
    this.find.addEventListener("input", () => this.store.set({ params: { find: this.find.value || null } }));
    this.view = MAKE[this.store.state.view](this.context);
    replace(root, ...this.layout());
    this.main.appendChild(this.view.element);
    addEventListener("keydown", (event) => this.key(event));
    // The age of stale figures goes on though nothing comes.
    setInterval(() => this.drawStatus(), 500);
    applyTheme(() => this.frame());
    this.changed(this.store.state);
  }

  private layout(): HTMLElement[] {
    const button = (text: string, label: string, act: () => void) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    const header = h(
      "header",
      null,
      h("a", { class: "skip", href: "#view", onclick: (event: Event) => { event.preventDefault(); this.main.focus(); } }, "to the view"),
      h("nav", { "aria-label": "views" }, h("strong", null, "ttmem"), ...this.tabs),
      h("div", { class: "line" }, this.server, h("span", { class: "grow" }), this.find, this.status, button("◐", "light or dark: T", () => this.switch()), button("?", "help: ?", () => this.showHelp())),
      this.problem,
      this.errors,
      this.over,
    );
    return [header, this.main, this.timebar.element, this.help.element, this.signIn.element];
  }

  private readonly context = (): Context => {
    const recording = this.documents.get<Recording>("recording");
    const snapshot = this.documents.get<Snapshot>("snapshot");
    // By number, as everywhere: a mesh has an order of its own.
    if (snapshot) {
      inOrder(snapshot);
      learnHidden(snapshot);
    }
    return {
      params: this.store.state.params,
      set: (change) => this.store.set(change),
      documents: this.documents,
      snapshot,
      recording,
      palette: this.palette,
      now: snapshot?.time ?? "",
    };
  };

  private needs(): Need[] {
    return [
      { name: "snapshot", path: "/api/v1/snapshot" },
      { name: "failures", path: "/api/v1/failures", params: { count: 64 }, every: 2 * USUAL_INTERVAL },
      { name: "problems", path: "/api/v1/problems", every: 2 * USUAL_INTERVAL },
      { name: "lines", path: "/api/v1/buffers/groups", params: { by: "line" }, every: 3 * USUAL_INTERVAL },
      { name: "recording", path: "/api/v1/recording", timeless: true, every: this.documents.error("recording") ? 60_000 : 2 * USUAL_INTERVAL },
      ...this.view.needs(this.context()),
    ];
  }

  /** Another view or other parameters. */
  private changed(before: State): void {
    const { view, params } = this.store.state;
    if (before.view !== view) {
      this.view.destroy?.();
      this.view = MAKE[view](this.context);
      replace(this.main, this.view.element);
      scrollTo(0, 0);
    }
    if (this.find.value !== (params["find"] ?? "") && document.activeElement !== this.find) this.find.value = params["find"] ?? "";
    VIEWS.forEach(([, name, title], place) => {
      const tab = this.tabs[place] as HTMLAnchorElement;
      tab.setAttribute("href", write(changed(this.store.state, { view: name })));
      if (name === view) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
      if (name === view) document.title = `${title} · ttmem`;
    });
    this.documents.set(this.needs(), params["at"] ?? null);
    this.frame();
  }

  private frame(): void {
    if (this.framed) return;
    this.framed = true;
    requestAnimationFrame(() => {
      this.framed = false;
      this.render();
    });
  }

  private render(): void {
    const context = this.context();
    // A server without a recording has no other instant than now.
    if (context.params["at"] !== undefined && this.documents.error("recording")?.status === 404) {
      return this.store.set({ params: { at: null } });
    }
    this.documents.still = context.recording?.source === "file" || this.documents.source.kind === "embedded";
    this.documents.set(this.needs(), context.params["at"] ?? null);
    if (this.documents.error("snapshot")?.status === 401) this.signIn.show();
    const { snapshot } = context;
    if (snapshot) {
      this.measure(snapshot);
      const parts = [snapshot.host, `${clock(snapshot.time).slice(11)} UTC`, this.rate === undefined ? null : `${count(this.rate)} events/s`, `ttmem ${snapshot.server.version}`];
      setText(this.server, parts.filter((part) => part !== null).join("  ·  "));
      this.drawProblem();
      this.drawErrors(snapshot);
      this.drawOver(context, snapshot);
    }
    this.view.render(context);
    this.timebar.render(context);
    this.drawStatus();
  }

  /** What comes first is not a page of zeros without a word: what has ended says so, and a demo shows its last state. */
  private drawOver(context: Context, snapshot: Snapshot): void {
    const { recording, params } = context;
    const at = params["at"];
    const isEmpty = !snapshot.devices.some((device) => CLASSES.some((each) => used(device[each]) > 0));
    const isOver = recording !== undefined && at === undefined && isEmpty && peaksOf(context).length > 0;
    this.failure.hidden = !recording?.failures.length;
    if (isOver && this.lastState === undefined && isEndedDemo(recording, snapshot)) {
      const instant = recording.failures.at(-1)?.time ?? peaksOf(context)[0]?.time;
      this.lastState = instant;
      if (instant !== undefined) return this.store.set({ params: { at: instant } });
    }
    const isLastState = this.lastState !== undefined && this.lastState === at;
    if (this.lastState && at === undefined) this.lastState = null;
    this.over.hidden = !isOver && !isLastState;
    if (this.over.hidden) return;
    const shown = recording?.failures.some(({ time }) => time === at) ? "its last failure" : "its peak";
    const texts = {
      demo: `The demo has ended and released everything. This is ${shown}, at ${clock(at ?? null, snapshot.time, true)} UTC; n shows now.`,
      file: "This recording ends with nothing held: its programs had ended.",
      live: "Nothing is held now: the programs have released everything.",
    };
    setText(this.overText, isLastState ? texts.demo : recording?.source === "file" ? texts.file : texts.live);
  }

  private measure(snapshot: Snapshot): void {
    const [events, time] = [snapshot.server.events_applied, seconds(snapshot.time)];
    const before = this.counted;
    if (before && time > before.time && events >= before.events) this.rate = Math.round((events - before.events) / (time - before.time));
    if (!before || time !== before.time) this.counted = { events, time };
  }

  private drawProblem(): void {
    const found = this.documents.get<Problems>("problems")?.problems ?? [];
    const first = found[0];
    this.problem.hidden = first === undefined;
    if (!first) return;
    const { target } = first;
    const [key, view] = VIEWS.find(([, name]) => name === target.view) ?? VIEWS[0];
    const device = target.device === null ? {} : { device: target.unique_id ?? String(target.device) };
    this.problem.setAttribute("href", write(changed(this.store.state, { view, params: device })));
    setClass(this.problem, "grave", first.urgency !== "warning");
    setText(this.problem, `! ${first.text}  [${key}]${found.length > 1 ? `, ${found.length - 1} more` : ""}`);
    this.problem.title = found.map((each) => each.text).join("\n");
  }

  /** What the server could not do or read: figures that are missing are not zero. */
  private drawErrors({ errors, machine }: Snapshot): void {
    const [first, ...others] = [...errors, ...(machine?.errors ?? [])];
    this.errors.hidden = first === undefined;
    if (first === undefined) return;
    setText(this.errors, others.length > 0 ? `${first}, ${others.length} more` : first);
    this.errors.title = [first, ...others].join("\n");
  }

  private drawStatus(): void {
    const { documents } = this;
    const error = documents.error("snapshot");
    const age = documents.answeredAt === undefined ? undefined : performance.now() - documents.answeredAt;
    const at = this.store.state.params["at"];
    let text: string;
    let isBad = false;
    if (error && error.status !== 0) [text, isBad] = [error.message, true];
    else if (age === undefined) [text, isBad] = error ? [error.message, true] : ["connecting", false];
    else if (error || (at === undefined && !documents.paused && !documents.still && !document.hidden && age > STALE)) {
      [text, isBad] = [`stale: no answer for ${duration(age / 1000)}`, true];
    } else if (documents.source instanceof EmbeddedSource) text = `report, as of ${clock(documents.source.nearest(at) ?? null, undefined, true).slice(11)} UTC`;
    else if (at !== undefined || documents.still) text = "recorded";
    else if (documents.paused) text = "paused";
    else text = `live, every ${USUAL_INTERVAL / 1000} s`;
    setText(this.status, text);
    setClass(this.status, "danger", isBad);
    setClass(this.main, "stale", isBad && age !== undefined);
  }

  private switch(): void {
    switchTheme();
    this.frame();
  }

  private showHelp(): void {
    const title = VIEWS.find(([, name]) => name === this.store.state.view)?.[2] ?? "";
    this.help.show(this.view, title);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || this.signIn.element.open) return;
    const target = event.target as HTMLElement;
    const typing = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
    if (event.key === "Escape" && target === this.find) {
      this.find.value = "";
      this.find.blur();
      this.store.set({ params: { find: null } });
      return;
    }
    if (event.key === "Enter" && target === this.find) return this.find.blur();
    if (typing || this.help.isOpen) return;
    // A button does what Space and Enter do to buttons.
    if ((event.key === " " || event.key === "Enter") && target.closest("button, a, select, [role=grid], tr")) return;
    if (event.key.startsWith("Arrow") && target.closest("[role=grid], .table")) return;
    if (this.act(event.key)) event.preventDefault();
  }

  private act(key: string): boolean {
    const context = this.context();
    const view = VIEWS.find(([each]) => each === key)?.[1];
    if (view) this.store.set({ view });
    else if (this.view.key?.(key, context)) return true;
    else if (key === "?") this.showHelp();
    else if (key === "/") this.find.focus();
    else if (key === "Escape") this.store.set({ params: { find: null, at: null } });
    else if (key === "n") this.store.set({ params: { at: null } });
    else if (key === "r") this.documents.refresh();
    else if (key === "T") this.switch();
    else if (this.timebar.key(key)) return true;
    else if (key === " ") this.pause();
    else return false;
    return true;
  }

  private pause(): void {
    this.documents.paused = !this.documents.paused;
    if (!this.documents.paused) this.documents.refresh();
    this.drawStatus();
  }
}
