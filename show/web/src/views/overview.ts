/** How full is every device, with what, and who holds it? */

import type { BufferGroups, Device, History, Machine } from "../api";
import { StackChart, type Layer } from "../charts/stack";
import { h, panel, setClass, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { deviceKey, deviceName, filled, filledL1, headroom, largestFitText, free, overlap, percent, share, type Filled } from "../figures";
import { bytes, count, counted } from "../format";
import { barsOf, countedApart, FROM_COUNTERS, elsewhere, isReported, notAttached, sensors, upstream } from "../machine";
import { Bar, byDram, groupTable, legend, onEach, processColumns, sumOf, sumTitle, usualGrouping } from "../parts";
import type { ProcessRow } from "../processrow";
import { Table } from "../table";
import { cursor, edgesOf, firstWorthShowing, historyNeed, l1OverTime, moments, sumOver } from "../timeline";
import { finds, type Context, type View } from "../view";

interface Card {
  element: HTMLElement;
  dram: Bar;
  l1: Bar;
  texts: HTMLElement[];
}

const HISTORY_SECONDS = 600;

/** From so many devices on a card has only what is compared. */
const MANY = 8;

/** Whose figures bars are made of, and what the counters have besides: where bars are theirs, their first sentence says the same. */
function remarksOf(device: Device, remark: string | null): string[] {
  const isTheirs = remark?.startsWith(FROM_COUNTERS) ?? false;
  return [...(remark === null ? [] : [remark]), ...upstream(device).slice(isTheirs ? 1 : 0)];
}

export class Overview implements View {
  readonly keys: [string, string][] = [
    ["Enter", "open the device"],
    ["/", "find"],
  ];
  readonly words = ["charged", "occupied", "capacity", "reserved", "CBs", "largest fit", "peak", "classes", "incomplete"];
  readonly element: HTMLElement;
  private readonly graphs: HTMLElement;
  private readonly dramPanel: HTMLElement;
  private readonly l1Panel: HTMLElement;
  private readonly devices: HTMLElement;
  private readonly linePanel: HTMLElement;
  private readonly operationPanel: HTMLElement;
  private readonly cards = h("div", { class: "cards" });
  private readonly dram = new StackChart({ height: 150, small: true, whole: true });
  private readonly l1 = new StackChart({ height: 150, small: true, whole: true });
  private readonly processes: Table<ProcessRow>;
  private readonly processPanel: HTMLElement;
  private readonly lines;
  private readonly operations;
  private made: Card[] = [];

  constructor(private readonly context: () => Context) {
    const set = (params: Record<string, string>, view: "buffers" | "processes") => this.context().set({ view, params });
    this.processes = new Table<ProcessRow>("processes", processColumns(), (row) => set({ find: String(row.pid ?? "") }, "processes"), 12);
    this.lines = groupTable("PYTHON LINE", "line", (group) => set({ find: group.key ?? "" }, "buffers"));
    this.operations = groupTable("OPERATION", "operation", (group) => set({ find: group.key ?? "" }, "buffers"));
    this.dramPanel = panel("DRAM", this.dram.element);
    this.l1Panel = panel("L1", this.l1.element);
    this.linePanel = panel("Lines of Python", this.lines.table.element);
    this.operationPanel = panel("Operations", this.operations.table.element);
    this.devices = panel("Devices", this.cards, legend(["dram", "reserved", "cb", "l1", "l1_small", "free"]));
    this.processPanel = panel("Processes", this.processes.element);
    this.graphs = h("div", { class: "two graphs" }, this.dramPanel, this.l1Panel);
    this.element = h(
      "div",
      { class: "view overview" },
      this.graphs,
      this.devices,
      this.processPanel,
      h("div", { class: "two" }, this.linePanel, this.operationPanel),
    );
  }

  needs(context: Context): Need[] {
    return [
      historyNeed(context, HISTORY_SECONDS),
      { name: "operations", path: "/api/v1/buffers/groups", params: { by: "operation" }, every: 2000 },
    ];
  }

  render(context: Context): void {
    const { snapshot, documents, params } = context;
    if (!snapshot) return;
    const { devices } = snapshot;
    // The history has what attached processes report; bars of devices may have more.
    const isAll = (device: Device) => !countedApart(device) && barsOf(device, snapshot.machine).isKnown;
    const ofAttached = devices.every(isAll) ? "" : " of attached processes";
    setText(titleOf(this.dramPanel), sumTitle(`DRAM${ofAttached}`, "dram", devices));
    setText(titleOf(this.l1Panel), sumTitle(`L1${ofAttached}`, "l1", devices));
    this.graphs.hidden = devices.length > 0 && !devices.some(isReported);
    setText(titleOf(this.linePanel), onEach("Lines of Python", devices.length));
    setText(titleOf(this.operationPanel), onEach("Operations", devices.length));
    // Of many devices none says whose figures it has.
    const whose = devices.length > MANY && devices.some((device) => barsOf(device).remark) ? `, ${FROM_COUNTERS} where nothing is attached` : "";
    const others = elsewhere(snapshot.machine);
    setText(titleOf(this.devices), counted(devices.length, "device") + whose + (others === null ? "" : `; ${others}`));
    this.drawCards(devices, snapshot.machine);
    const processes = byDram([...snapshot.processes, ...notAttached(snapshot.machine)]).filter((each) => finds(params["find"], each.pid, each.name, each.host?.command));
    setText(titleOf(this.processPanel), count(processes.length) + (processes.length === 1 ? " process" : " processes"));
    this.processes.update(processes, "no process has reported anything");
    this.linePanel.hidden = usualGrouping(context) !== "line";
    for (const [name, table] of [["lines", this.lines], ["operations", this.operations]] as const) {
      const groups = documents.get<BufferGroups>(name);
      const shown = groups?.groups.filter((group) => finds(params["find"], group.key)).slice(0, 8) ?? [];
      if (groups) table.update(shown, groups.charged_bytes, groups.time);
    }
    const history = documents.get<History>("history");
    if (history) this.drawHistory(history, devices, context);
  }

  private drawHistory(history: History, devices: Device[], context: Context): void {
    const dram = sumOver(history, history.devices, (device) => device.dram_bytes);
    const allDram = sumOf(devices, (device) => filled("dram", device.dram));
    this.drawSum(this.dram, "DRAM", history, dram, [{ label: "DRAM", colour: "dram", values: dram }], allDram, context);
    const [occupied, layers] = l1OverTime(history, devices);
    this.drawSum(this.l1, "L1", history, occupied, layers, sumOf(devices, filledL1), context);
  }

  private drawSum(chart: StackChart, label: string, history: History, total: (number | null)[], all: Layer[], whole: Filled, context: Context): void {
    const first = firstWorthShowing(history, total, HISTORY_SECONDS);
    const edges = edgesOf(history, first);
    const layers = all.map((layer) => ({ ...layer, values: layer.values.slice(first) }));
    const capacity = whole.whole === null ? "" : ` of ${bytes(whole.whole)}`;
    const summary = `${label} of all devices over the last minutes, now ${bytes(whole.used)}${capacity}`;
    chart.draw({ times: edges, layers, capacity: whole.whole, moments: moments(context), at: cursor(context), summary });
  }

  private drawCards(devices: Device[], machine: Machine | null): void {
    while (this.made.length > devices.length) this.made.pop()?.element.remove();
    while (this.made.length < devices.length) this.addCard();
    setClass(this.cards, "many", devices.length > MANY);
    devices.forEach((device, place) => {
      const card = this.made[place] as Card;
      const [name, dramText, dramMore, l1Text, l1More, values, remarks] = card.texts as [HTMLElement, HTMLElement, HTMLElement, HTMLElement, HTMLElement, HTMLElement, HTMLElement];
      const { dram, l1, remark, isKnown } = barsOf(device, machine);
      card.element.setAttribute("href", `#/device?device=${encodeURIComponent(deviceKey(device))}`);
      setText(name, deviceName(device));
      setText(values, sensors(device.telemetry).join(" · "));
      setText(remarks, remarksOf(device, remark).join(" · "));
      card.dram.update("DRAM", dram, isKnown);
      card.l1.update("L1", l1, isKnown);
      const taken = (memory: Filled) => (isKnown ? `${bytes(memory.used)} ${percent(share(memory))}` : "–");
      setText(dramText, taken(dram));
      setText(l1Text, taken(l1));
      const fit = largestFitText(device.dram, free(device.dram));
      // Of allocators that are empty: where bars have others' figures, it is not what fits.
      setText(dramMore, overlap(device, "dram") ?? (fit === null || remark !== null ? "" : `largest fit ${fit}`));
      const room = device.cb_headroom_bytes;
      const noCbs = isReported(device) ? "no CBs resident" : "";
      setText(l1More, overlap(device, "l1") ?? (room === null ? noCbs : `CB headroom ${headroom(room)}`));
    });
  }

  private addCard(): void {
    const [dram, l1] = [new Bar(), new Bar()];
    const text = (name: string) => h("span", { class: name });
    const texts = [h("b"), text("number"), text("faint"), text("number"), text("faint"), text("values"), text("remarks")];
    const [name, dramText, dramMore, l1Text, l1More, values, remarks] = texts;
    const element = h(
      "a",
      { class: "card" },
      h("span", { class: "name" }, name, " ", values),
      h("span", { class: "label" }, "DRAM"), dram.element, dramText, dramMore,
      h("span", { class: "label" }, "L1"), l1.element, l1Text, l1More,
      remarks,
    );
    this.made.push({ element, dram, l1, texts });
    this.cards.appendChild(element);
  }

  destroy(): void {
    this.dram.destroy();
    this.l1.destroy();
  }
}
