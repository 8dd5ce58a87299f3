/** Pieces that several views have: bars, pickers of device, class, grouping and window, tables of who holds what. */

import type { BufferGroup, BufferGroups, Device } from "./api";
import { KIND_LABEL, type Kind } from "./colours";
import { choice, h, replace, setText } from "./dom";
import { CLASSES, deviceKey, deviceName, filled, filledL1, fullest, isGone, overlap, share, stateOf, type DeviceClass, type Filled } from "./figures";
import { age, bytes, count, ids, onDevices, percent, permille } from "./format";
import { hasSizes } from "./machine";
import type { ProcessRow } from "./processrow";
import { shortLine } from "./text";
import { Table, type Column } from "./table";
import { chosenClass, chosenDevice, type Context } from "./view";
import { HIDDEN, namedOfAll } from "./hidden";

/** A bar: each kind gets its share, never more; a tick stands at the peak. */
export class Bar {
  readonly element = h("div", { class: "bar", role: "img" });

  update(label: string, memory: Filled, isKnown = true): void {
    const { element } = this;
    element.classList.toggle("unknown", !isKnown);
    const whole = Math.max(memory.whole ?? 0, memory.used, 1);
    while (element.children.length < memory.parts.length + 1) element.appendChild(h("i"));
    while (element.children.length > memory.parts.length + 1) element.lastElementChild?.remove();
    memory.parts.forEach(([kind, size], place) => {
      const part = element.children[place] as HTMLElement;
      part.className = `k-${kind}`;
      part.style.width = `${(size * 100) / whole}%`;
    });
    const tick = element.lastElementChild as HTMLElement;
    tick.className = "tick";
    tick.hidden = memory.peak === null || memory.peak === 0;
    tick.style.left = `${Math.min(100, ((memory.peak ?? 0) * 100) / whole)}%`;
    element.setAttribute("aria-label", `${label} ${isKnown ? fullness(memory) : "not known"}`);
  }
}

export function fullness(memory: Filled): string {
  const whole = memory.whole === null ? "" : ` of ${bytes(memory.whole)}`;
  return `${percent(share(memory))}: ${bytes(memory.used)}${whole}`;
}

export function legend(kinds: Kind[], withPeak = true): HTMLElement {
  const items = kinds.map((kind) => h("span", null, h("i", { class: `swatch k-${kind}` }), KIND_LABEL[kind]));
  const peak = withPeak ? h("span", null, h("i", { class: "swatch tick" }), "peak") : null;
  return h("p", { class: "legend" }, ...items, peak);
}

/** The bar above a view: made again only when one of its parts changes, so that it keeps the focus. */
export class Toolbar {
  readonly element = h("div", { class: "toolbar" });
  private made = "";

  update(state: string, make: () => (HTMLElement | null)[]): void {
    if (this.made === state) return;
    this.made = state;
    const active = document.activeElement;
    const label = active && this.element.contains(active) ? active.textContent : null;
    replace(this.element, ...make());
    if (label === null) return;
    [...this.element.querySelectorAll("button")].find((button) => button.textContent === label)?.focus();
  }
}

export function devicePicker(context: Context): HTMLElement | null {
  const devices = context.snapshot?.devices ?? [];
  const chosen = chosenDevice(context);
  if (!chosen) return null;
  const options = devices.map((device) =>
    h("option", { value: deviceKey(device), selected: device === chosen }, `Device ${deviceName(device)}`),
  );
  const select = h("select", { "aria-label": "device" }, ...options);
  select.addEventListener("change", () => context.set({ params: { device: select.value, core: null } }));
  return select;
}

/** `l1` is what L1 is called where more than its buffers is shown. */
export function classPicker(context: Context, chosen: DeviceClass = chosenClass(context), l1 = KIND_LABEL.l1): HTMLElement {
  const options = CLASSES.map((each) => [each, each === "l1" ? l1 : KIND_LABEL[each]] as const);
  return choice("class", options, chosen, (value) => context.set({ params: { class: value } }));
}

export const GROUPINGS = [
  ["line", "Python line"],
  ["operation", "operation"],
  ["process", "process"],
] as const;

/** What is usual as long as nothing is live that would say something else. */
let usual: "line" | "operation" = "line";

/** Lines of Python where they are recorded, or else operations. */
export function usualGrouping({ documents }: Context): "line" | "operation" {
  const groups = documents.get<BufferGroups>("lines")?.groups ?? [];
  if (groups.length > 0) usual = groups.some((group) => group.key !== null) ? "line" : "operation";
  return usual;
}

export type Grouping = (typeof GROUPINGS)[number][0];

export function chosenGrouping(context: Context): Grouping {
  return GROUPINGS.find(([name]) => name === context.params["by"])?.[0] ?? usualGrouping(context);
}

export function groupingPicker(context: Context): HTMLElement {
  return choice("stacked by", GROUPINGS, chosenGrouping(context), (value) => context.set({ params: { by: value } }));
}

/** What a group is called. */
export function groupLabel(by: string, key: string | null): string {
  if (key === null || key === "") return namedOfAll(null, by === "line" ? "no Python line shown" : "not known");
  if (by === "line") return shortLine(key);
  return by === "process" && /^\d+$/.test(key) ? `pid ${key}` : key;
}

/** Lines of Python or operations with what they hold. */
export function groupTable(title: string, by: string, open: (group: BufferGroup) => void): GroupTable {
  return new GroupTable(title, by, open);
}

export class GroupTable {
  readonly table: Table<BufferGroup>;
  private total = 0;
  private now = "";

  constructor(title: string, by: string, open: (group: BufferGroup) => void) {
    const columns: Column<BufferGroup>[] = [
      { title, grows: true, text: (group) => groupLabel(by, group.key), hint: (group) => group.key },
      { title: "CHARGED", numeric: true, text: (group) => bytes(group.charged_bytes) },
      { title: "SHARE", numeric: true, text: (group) => percent(permille(group.charged_bytes, this.total)) },
      { title: "BUFFERS", numeric: true, text: (group) => count(group.buffers) },
      { title: "REQUESTED", numeric: true, text: (group) => bytes(group.requested_bytes) },
      { title: "OLDEST", numeric: true, text: (group) => age(group.oldest, this.now) },
      { title: "NEWEST", numeric: true, text: (group) => age(group.newest, this.now) },
    ];
    this.table = new Table(title, columns, open);
  }

  update(groups: BufferGroup[], total: number, now: string, empty = "no buffers"): void {
    this.total = total;
    this.now = now;
    this.table.update(groups, empty);
  }
}

export function dram(process: ProcessRow): number {
  return process.devices.reduce((sum, device) => sum + device.dram_bytes, 0);
}

export function processColumns(): Column<ProcessRow>[] {
  return [
    { title: "PID", numeric: true, text: (process) => (process.pid === null ? "–" : String(process.pid)) },
    {
      title: "COMMAND", grows: true,
      text: (process) => process.host?.command ?? process.name ?? (process.names_hidden ? HIDDEN : "–"),
      hint: (process) =>
        process.names_hidden ? "names are shown to its user only; serve --http-names shows them here" : (process.host?.command ?? null),
    },
    { title: "DEVICES", text: (process) => ids(process.devices.map((device) => device.id)) || "–" },
    { title: "DRAM", numeric: true, text: (process) => (hasSizes(process) ? onDevices(dram(process), process.devices.length) : "–") },
    { title: "ON FULLEST", numeric: true, text: (process) => (hasSizes(process) ? bytes(fullest(process)?.dram_bytes ?? 0) : "–") },
    { title: "ITS PEAK", numeric: true, text: (process) => bytes(fullest(process)?.peak?.dram ?? null) },
    { title: "STATE", text: stateOf, kind: (process) => (isGone(process) ? "faint" : null) },
  ];
}

/** Those that hold most first, ended ones last. */
export function byDram(processes: ProcessRow[]): ProcessRow[] {
  return [...processes].sort((one, other) => Number(isGone(one)) - Number(isGone(other)) || dram(other) - dram(one));
}

export function sumOf(devices: Device[], of: (device: Device) => Filled): Filled {
  const parts = new Map<Kind, number>();
  let [used, whole]: [number, number | null] = [0, 0];
  for (const device of devices) {
    const memory = of(device);
    used += memory.used;
    whole = whole === null || memory.whole === null ? null : whole + memory.whole;
    for (const [kind, size] of memory.parts) parts.set(kind, (parts.get(kind) ?? 0) + size);
  }
  return { parts: [...parts], used, whole, peak: null };
}

/** `DRAM 9.4%: 9.0 GiB of 95.4 GiB on 8 devices`, with a remark where a device has less than was given out. */
export function sumTitle(label: string, kind: "dram" | "l1", devices: Device[]): string {
  const memory = sumOf(devices, (device) => (kind === "dram" ? filled("dram", device.dram) : filledL1(device)));
  const whole = memory.whole === null ? "" : ` of ${onDevices(memory.whole, devices.length)}`;
  const beyond = devices.find((device) => overlap(device, kind) !== null);
  const remark = beyond ? `${devices.length > 1 ? `, device ${beyond.id} ` : ", "}${overlap(beyond, kind)}` : "";
  return `${label} ${percent(share(memory))}: ${bytes(memory.used)}${whole}${remark}`;
}

/** `Operations, sizes are on each device`: buffers of a mesh are as large on each of its devices. */
export function onEach(title: string, devices: number): string {
  return devices > 1 ? `${title}: sizes are on each device` : title;
}

/** A sentence about what a server cannot do, in the place of what is missing. */
export function missing(element: HTMLElement, text: string | null): void {
  element.hidden = text === null;
  setText(element, text ?? "");
}

export function notice(): HTMLElement {
  return h("p", { class: "notice", role: "status", hidden: true });
}
