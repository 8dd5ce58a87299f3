/** One device over time: what takes a class, since when, and where is it going? */

import type { AllocatorUsage, ClassUsage, Device, History, PeakContents, PeakGroup, Timeline } from "../api";
import { StackChart, type Stack } from "../charts/stack";
import { KIND_LABEL } from "../colours";
import { choice, h, panel, replace, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { checked, CLASSES, deviceName, fragmented, free, largestFit, largestFitText, overlap, region, used, type DeviceClass } from "../figures";
import { bytes, clock, count, percent, permille, seconds, stamp } from "../format";
import { barsOf, countedApart, namesOf, sensors, upstream } from "../machine";
import { chosenGrouping, classPicker, devicePicker, groupingPicker, GROUPINGS, missing, notice, Toolbar } from "../parts";
import { Table } from "../table";
import { calledFrom, shortLine } from "../text";
import { historyNeed, lookedAtInParts, ofFree, ofHistory, ofTimeline, peaksOf, READING, WINDOWS } from "../timeline";
import { chosenClass, chosenDevice, chosenKey, stepDevice, type Context, type View } from "../view";
import { named } from "../hidden";

interface LegendRow {
  label: string;
  colour: string;
  now: number | null;
  highest: number | null;
}

interface ClassRow {
  kind: DeviceClass | "system";
  usage: ClassUsage;
}

export class DeviceView implements View {
  readonly keys: [string, string][] = [
    ["[ ]", "device"],
    ["c", "class"],
    ["b", "stacked by"],
    ["w W", "window"],
    ["z", "all of it"],
  ];
  readonly words = ["charged", "requested", "capacity", "largest fit", "fragmented", "peak", "checked", "CB headroom", "dispatches", "mark"];
  readonly element: HTMLElement;
  private readonly toolbar = new Toolbar();
  private readonly facts = h("p", { class: "facts" });
  private readonly notice = notice();
  private readonly chart: StackChart;
  private readonly runs: StackChart;
  private readonly fit: StackChart;
  private readonly legend: Table<LegendRow>;
  private readonly timePanel: HTMLElement;
  private readonly runsPanel: HTMLElement;
  private readonly fitPanel: HTMLElement;
  private readonly classes: Table<ClassRow>;
  private readonly regions = h("p", { class: "facts" });
  private readonly allocators: Table<AllocatorUsage>;
  private readonly peak: Table<PeakGroup>;
  private readonly peakPanel: HTMLElement;
  private readonly toPeak: HTMLButtonElement;
  private readonly fitLegend = h("p", { class: "legend" });
  private stack: Stack | undefined;
  private hovered: number | null = null;
  private now = "";

  constructor(private readonly context: () => Context) {
    const window = (from: number | null, to: number | null) =>
      this.context().set({ params: { from: from === null ? null : stamp(from), to: to === null ? null : stamp(to) } });
    const instant = (time: number) => {
      if (this.context().recording) this.context().set({ params: { at: stamp(time) } });
    };
    const hover = (step: number | null) => {
      if (step === this.hovered) return;
      this.hovered = step;
      this.drawLegend();
    };
    this.chart = new StackChart({ height: 280, onWindow: window, onInstant: instant, onHover: hover });
    this.runs = new StackChart({ height: 80, small: true, onWindow: window, onInstant: instant, text: (value) => count(Math.round(value)) });
    this.fit = new StackChart({ height: 130, small: true, onWindow: window, onInstant: instant });
    this.legend = new Table<LegendRow>("series of the chart", [
      { title: "", text: () => "", kind: (row) => `key-${row.colour}` },
      { title: "HELD BY", grows: true, text: (row) => row.label, hint: (row) => row.label },
      { title: "IN STEP", numeric: true, text: (row) => bytes(row.now) },
      { title: "HIGHEST", numeric: true, text: (row) => bytes(row.highest) },
    ]);
    this.classes = new Table<ClassRow>("memory by class", this.classColumns(), (row) => {
      if (row.kind !== "system") this.context().set({ params: { class: row.kind } });
    });
    this.allocators = new Table<AllocatorUsage>("allocators", ALLOCATOR_COLUMNS);
    this.peak = new Table("what the peak was made of", [
      { title: "HELD BY", grows: true, text: (row) => (row.line ? shortLine(row.line) + calledFrom(row.callers) : named(row.name, row.pid, "not known")), hint: (row) => row.line },
      { title: "OPERATION", text: (row) => named(row.name, row.pid) },
      { title: "PID", numeric: true, text: (row) => (row.pid === null ? "–" : `${row.pid}${row.departed ? " (ended)" : ""}`) },
      { title: "BYTES", numeric: true, text: (row) => bytes(row.bytes) },
      { title: "BUFFERS", numeric: true, text: (row) => count(row.count) },
    ], undefined, 12);
    this.timePanel = panel("Over time", this.notice, this.chart.element, this.legend.element);
    this.runsPanel = panel("Program runs", this.runs.element);
    this.fitPanel = panel("Free", this.fit.element, this.fitLegend);
    this.toPeak = h("button", { type: "button", onclick: () => this.goToPeak() }, "look at that instant");
    this.peakPanel = panel("Peak", this.toPeak, this.peak.element);
    this.element = h(
      "div",
      { class: "view" },
      this.toolbar.element,
      this.facts,
      this.timePanel,
      this.fitPanel,
      this.runsPanel,
      panel("Memory by class", this.classes.element, this.regions),
      h("div", { class: "two" }, this.peakPanel, panel("Allocators", this.allocators.element)),
    );
  }

  needs(context: Context): Need[] {
    const key = chosenKey(context);
    if (key === undefined) return [];
    const { documents } = context;
    const zoomed = context.params["from"] !== undefined;
    const kind = chosenClass(context);
    const { from, to } = this.window(context);
    const points = this.chart.steps;
    const params = { class: kind, by: chosenGrouping(context), from, to, points };
    const needs: Need[] = [{ name: "peak", path: `/api/v1/peak/${key}`, params: { of: kind }, every: 5000 }];
    // The timeline is the recording's; a server without one has samples.
    if (context.recording) needs.push({ name: "timeline", path: `/api/v1/timeline/${key}`, params, timeless: true, every: 2000 });
    // The timeline first: what the recording is read for then is what most look at.
    if (!context.recording || documents.get("timeline")) needs.push(historyNeed(context, zoomed ? 0 : this.seconds(context)));
    return needs;
  }

  render(context: Context): void {
    const device = chosenDevice(context);
    const { snapshot, documents, params } = context;
    if (!device || !snapshot) return;
    const kind = chosenClass(context);
    const state = JSON.stringify([snapshot.devices.map(deviceName), device.id, kind, params["by"], params["window"], params["from"]]);
    this.toolbar.update(state, () => this.controls(context));
    this.now = context.now;
    const { remark, isKnown } = barsOf(device, snapshot.machine);
    setText(this.facts, isKnown || remark === null ? factsOf(device) : `${factsOf(device)} · ${remark}`);
    const memory = device[kind];
    const share = percent(permille(used(memory), memory.capacity_bytes));
    const peak = memory.peak_time === null ? "" : `, peak ${bytes(memory.peak_bytes)} at ${clock(memory.peak_time, context.now)} UTC`;
    const beyond = kind === "dram" || kind === "l1" ? overlap(device, kind) : null;
    const whose = countedApart(device) || !isKnown ? " of attached processes" : "";
    setText(titleOf(this.timePanel), `${KIND_LABEL[kind]}${whose} ${share}: ${bytes(used(memory))} of ${bytes(memory.capacity_bytes)}${beyond ? `, ${beyond}` : ""}${peak}`);
    this.drawTime(device, kind, context);
    this.classes.update([...CLASSES, "system" as const].map((each) => ({ kind: each, usage: device[each] })), "", (row) => row.kind === kind);
    setText(this.regions, device.regions.map((each) => `set ${region(each)}`).join(" · "));
    this.allocators.update(device.allocators, "no allocator is open");
    const contents = documents.get<PeakContents>("peak");
    this.peakPanel.hidden = !contents || contents.peak_bytes === 0;
    this.toPeak.hidden = !context.recording;
    if (contents) {
      setText(titleOf(this.peakPanel), `${KIND_LABEL[kind]} at its peak: ${bytes(contents.peak_bytes)}, ${clock(contents.peak_time, context.now)} UTC`);
      this.peak.update(contents.groups, "nothing");
    }
  }

  key(key: string, context: Context): boolean {
    const turn = <T>(list: readonly T[], chosen: T, step: number) => list[(list.indexOf(chosen) + step + list.length) % list.length] as T;
    if (key === "[" || key === "]") stepDevice(context, key === "]" ? 1 : -1);
    else if (key === "c") context.set({ params: { class: turn(CLASSES, chosenClass(context), 1) } });
    else if (key === "b") context.set({ params: { by: turn(GROUPINGS.map(([name]) => name), chosenGrouping(context), 1) } });
    else if (key === "w" || key === "W") {
      const names: string[] = WINDOWS.map(([name]) => name);
      const next = turn(names, String(this.seconds(context)), key === "w" ? 1 : -1);
      context.set({ params: { window: next, from: null, to: null } });
    } else if (key === "z") context.set({ params: { from: null, to: null, window: "0" } });
    else return false;
    return true;
  }

  destroy(): void {
    this.chart.destroy();
    this.runs.destroy();
    this.fit.destroy();
  }

  private controls(context: Context): (HTMLElement | null)[] {
    const zoomed = context.params["from"] !== undefined;
    const window = choice("window", WINDOWS, (zoomed ? "" : String(this.seconds(context))) as "60", (value) =>
      context.set({ params: { window: value, from: null, to: null } }),
    );
    const all = zoomed ? h("button", { type: "button", onclick: () => this.key("z", this.context()) }, "zoomed: show all") : null;
    return [devicePicker(context), classPicker(context), groupingPicker(context), window, all];
  }

  private seconds(context: Context): number {
    return Number(WINDOWS.find(([name]) => name === context.params["window"])?.[0] ?? "600");
  }

  private window(context: Context): { from: string | undefined; to: string | undefined } {
    const { from, to } = context.params;
    const window = this.seconds(context);
    const { recording } = context;
    if (from !== undefined || window === 0 || !recording) return { from, to };
    // Whole steps, so that a request is the same for a while.
    const step = Math.max(1, window / 50);
    const start = Math.max(seconds(recording.from), Math.floor((seconds(recording.to) - window) / step) * step);
    return { from: stamp(start), to: undefined };
  }

  private drawTime(device: Device, kind: DeviceClass, context: Context): void {
    const timeline = context.documents.get<Timeline>("timeline");
    const history = context.documents.get<History>("history");
    const by = chosenGrouping(context);
    let stack: Stack | undefined;
    let runs: (number | null)[] = [];
    if (timeline && context.recording) {
      stack = ofTimeline(timeline, by, context.palette, context);
      runs = timeline.dispatches;
    } else if (history) {
      stack = ofHistory(history, device, kind, this.seconds(context), context);
      const all = history.devices.find((each) => each.id === device.id)?.dispatches ?? [];
      runs = all.slice(all.length - stack.times.length + 1);
    }
    const error = context.documents.error("timeline");
    missing(
      this.notice,
      error ? error.message : context.recording ? (timeline ? lookedAtInParts(timeline) : READING) : "This server keeps no recording: totals in samples of a second, not stacked, and no looking back.",
    );
    this.fitPanel.hidden = true;
    if (!stack) return;
    if (history) this.drawFit(history, device, kind, stack, context);
    this.stack = stack;
    const total = Math.max(0, ...sums(stack).map((value) => value ?? 0));
    const [from, to] = [stack.times[0], stack.times.at(-1)].map((time) => (time === undefined ? "" : clock(stamp(time), context.now, true)));
    stack.summary = `${KIND_LABEL[kind]} of device ${device.id} from ${from} to ${to} UTC: now ${bytes(used(device[kind]))}, highest ${bytes(total)} in this window`;
    this.chart.draw(stack);
    this.drawLegend();
    const summary = `programs run on device ${device.id}: ${count(device.dispatches)} in all`;
    const layers = [{ label: "runs", colour: "kernel", values: runs }];
    this.runs.draw({ ...stack, layers, capacity: null, moments: [], summary });
    setText(titleOf(this.runsPanel), `Program runs: ${count(device.dispatches)}, ${count(device.trace_replays)} trace replays`);
  }

  /** How much of what is free one request could have. */
  private drawFit(history: History, device: Device, kind: DeviceClass, { times }: Stack, context: Context): void {
    const memory = device[kind];
    // While nothing happens a recording does not go on, and time does.
    const end = context.params["from"] === undefined ? Infinity : (times.at(-1) ?? Infinity);
    const stack = ofFree(history, device, kind, [times[0] ?? 0, end], context);
    this.fitPanel.hidden = !stack;
    if (!stack) return;
    const [room, fit] = [free(memory), largestFitText(memory, free(memory))];
    const title = `${KIND_LABEL[kind]}: ${bytes(room)} free, largest fit ${fit ?? "–"}, ${percent(fragmented(memory, room))} fragmented`;
    setText(titleOf(this.fitPanel), title);
    if (!this.fitLegend.hasChildNodes()) {
      replace(this.fitLegend, ...stack.layers.map((layer) => h("span", null, h("i", { class: `swatch k-${layer.colour}` }), layer.label)));
    }
    this.fit.draw({ ...stack, summary: `${title}; over time` });
  }

  private drawLegend(): void {
    const stack = this.stack;
    if (!stack) return;
    const last = stack.times.length - 2;
    const at = stack.at;
    const cursor = at === null ? last : Math.max(0, stack.times.findLastIndex((time) => time <= at));
    const step = Math.min(this.hovered ?? cursor, last);
    const highest = (values: (number | null)[]) => values.reduce<number | null>((most, value) => (value === null ? most : Math.max(most ?? 0, value)), null);
    const rows = stack.layers.map((layer) => ({
      label: layer.label,
      colour: layer.colour,
      now: layer.values[step] ?? null,
      highest: highest(layer.values),
    }));
    const all = sums(stack);
    const [from, to] = [stack.times[step], stack.times[step + 1]].map((time) => (time === undefined ? "" : clock(stamp(time), this.now, true)));
    const total = { label: to === "" ? "total" : `total, highest from ${from} to ${to} UTC`, colour: "none", now: all[step] ?? null, highest: highest(all) };
    this.legend.update([...rows, ...(rows.length > 1 ? [total] : [])], "nothing in this window");
  }

  private goToPeak(): void {
    const context = this.context();
    const [peak] = peaksOf(context);
    if (peak) context.set({ params: { at: peak.time } });
  }

  private classColumns() {
    return [
      { title: "MEMORY", text: (row: ClassRow) => KIND_LABEL[row.kind] },
      { title: "CHARGED", numeric: true, text: (row: ClassRow) => bytes(row.usage.charged_bytes) },
      { title: "CAPACITY", numeric: true, text: (row: ClassRow) => bytes(row.usage.capacity_bytes) },
      { title: "%", numeric: true, text: (row: ClassRow) => percent(permille(used(row.usage), row.usage.capacity_bytes)) },
      { title: "PEAK", numeric: true, text: (row: ClassRow) => bytes(row.usage.peak_bytes) },
      { title: "AT (UTC)", numeric: true, text: (row: ClassRow) => clock(row.usage.peak_time, this.now) },
      { title: "LARGEST FIT", numeric: true, text: (row: ClassRow) => largestFitText(row.usage, free(row.usage)) ?? "–" },
      { title: "FRAGMENTED", numeric: true, text: (row: ClassRow) => percent(fragmented(row.usage, free(row.usage))) },
      { title: "BUFFERS", numeric: true, text: (row: ClassRow) => count(row.usage.buffers) },
      { title: "REQUESTED", numeric: true, text: (row: ClassRow) => bytes(row.usage.requested_bytes) },
    ];
  }
}

const allocatorFree = (row: AllocatorUsage) => (row.capacity_bytes === null ? null : Math.max(0, row.capacity_bytes - row.charged_bytes));

const ALLOCATOR_COLUMNS = [
  { title: "ALLOCATOR", text: (row: AllocatorUsage) => KIND_LABEL[row.class] },
  { title: "PID", numeric: true, text: (row: AllocatorUsage) => String(row.pid ?? "–") },
  { title: "MESH", numeric: true, text: (row: AllocatorUsage) => String(row.mesh ?? "–") },
  { title: "CHARGED", numeric: true, text: (row: AllocatorUsage) => bytes(row.charged_bytes) },
  { title: "FREE", numeric: true, text: (row: AllocatorUsage) => bytes(allocatorFree(row)) },
  { title: "LARGEST FIT", numeric: true, text: (row: AllocatorUsage) => bytes(largestFit(row, allocatorFree(row))) },
  { title: "FRAGMENTED", numeric: true, text: (row: AllocatorUsage) => percent(fragmented(row, allocatorFree(row))) },
  { title: "BUFFERS", numeric: true, text: (row: AllocatorUsage) => count(row.buffers) },
  { title: "CHECKED", text: (row: AllocatorUsage) => checked(row.verified).replace(/ (to|against|from) the allocator/, "") },
];

function factsOf(device: Device): string {
  const facts = [
    device.board,
    device.arch,
    device.remote === null ? null : device.remote ? "remote" : "PCIe",
    checked(device.verified),
    device.source === null ? null : `source ${device.source}`,
    device.scope === null ? null : `visible devices ${device.scope}`,
    ...namesOf(device),
    ...sensors(device.telemetry),
    ...upstream(device),
  ];
  return facts.filter((fact) => fact !== null).join(" · ");
}

function sums(stack: Stack): (number | null)[] {
  return stack.times.slice(1).map((_, step) =>
    stack.layers.reduce<number | null>((sum, layer) => {
      const value = layer.values[step] ?? null;
      return value === null ? sum : (sum ?? 0) + value;
    }, null),
  );
}
