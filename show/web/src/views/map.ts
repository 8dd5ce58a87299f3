/** Where does everything lie: L1 core by core, a bank by address, or the addresses over time? */

import type { Allocations, Block, BlockMap, Device, L1Core, L1Map, Rectangle, Resident, Segment, SegmentKind, Stretch } from "../api";
import { addresses, AllocationMap } from "../charts/allocations";
import { Canvas, readableOn } from "../charts/canvas";
import { colour, HEAT, KIND_LABEL, SEGMENT_KIND } from "../colours";
import { choice, h, panel, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { deviceName, headroom, NARROW_HEADROOM, type DeviceClass } from "../figures";
import { address, age, bytes, clock, count, counted, hex, lasted, percent, permille, seconds, stamp } from "../format";
import { chosenGrouping, classPicker, devicePicker, groupingPicker, groupLabel, legend, missing, notice, Toolbar } from "../parts";
import { Table } from "../table";
import { shortLine } from "../text";
import { cursor, lookedAtInParts, READING } from "../timeline";
import { chosenClass, chosenDevice, chosenKey, finds, stepDevice, type Context, type View } from "../view";
import { named } from "../hidden";
import { besides } from "../machine";

const MODES = [
  ["now", "at this instant"],
  ["time", "over time"],
] as const;

const RANGES = [
  ["used", "used addresses"],
  ["bank", "whole bank"],
] as const;

type Mode = (typeof MODES)[number][0];


export class MapView implements View {
  readonly keys: [string, string][] = [
    ["arrows", "core"],
    ["[ ]", "device"],
    ["d t l", "DRAM TRACE L1"],
    ["o", "over time"],
  ];
  readonly words = ["occupied", "reserved", "config ring", "CBs", "CB headroom", "clash", "bank", "largest fit", "fragmented", "resident"];
  readonly element: HTMLElement;
  private readonly toolbar = new Toolbar();
  private readonly notice = notice();
  private readonly l1 = new L1Grid((x, y) => this.context().set({ params: { core: `${x},${y}` } }));
  private readonly bank = new Bank();
  private readonly time: AllocationMap;
  private readonly timeTable: Table<Rectangle>;
  private readonly timePanel: HTMLElement;

  constructor(private readonly context: () => Context) {
    this.time = new AllocationMap(
      (from, to) => this.context().set({ params: { from: from === null ? null : stamp(from), to: to === null ? null : stamp(to) } }),
      (time) => this.context().set({ params: { at: stamp(time) } }),
    );
    this.timeTable = new Table<Rectangle>("the largest allocations of this window", [
      { title: "ADDRESS", numeric: true, text: (row) => address(row.address) },
      { title: "PER BANK", numeric: true, text: (row) => bytes(row.per_bank_bytes) },
      { title: "PYTHON LINE", text: (row) => shortLine(named(row.line, row.pid)), hint: (row) => row.line },
      { title: "OPERATION", grows: true, text: (row) => named(row.operation, row.pid) },
      { title: "PID", numeric: true, text: (row) => String(row.pid ?? "–") },
      { title: "FROM (UTC)", numeric: true, text: (row) => clock(row.from, row.from, true) },
      { title: "FOR", numeric: true, text: (row) => (row.to === null ? "still held" : lasted(seconds(row.to) - seconds(row.from))) },
    ], undefined, 30);
    this.timePanel = panel("Addresses over time", this.time.element, this.timeTable.element);
    this.element = h("div", { class: "view" }, this.toolbar.element, this.notice, this.l1.element, this.bank.element, this.timePanel);
  }

  needs(context: Context): Need[] {
    const key = chosenKey(context);
    if (key === undefined) return [];
    const kind = mapClass(context);
    const blocks: Need = { name: "blocks", path: `/api/v1/blocks/${key}`, params: { class: kind, cells: 1024 } };
    if (mode(context) === "time") {
      const { from, to } = context.params;
      const params = { class: kind, from, to };
      return context.recording ? [blocks, { name: "allocations", path: `/api/v1/allocations/${key}`, params, timeless: true, every: 3000 }] : [blocks];
    }
    const [x, y] = core(context);
    const l1: Need = { name: "l1map", path: `/api/v1/l1map/${key}`, params: { x, y } };
    return kind === "l1" ? [l1] : [blocks];
  }

  render(context: Context): void {
    const device = chosenDevice(context);
    const { snapshot, documents, params } = context;
    if (!device || !snapshot) return;
    const [kind, how] = [mapClass(context), mode(context)];
    const state = JSON.stringify([snapshot.devices.map(deviceName), device.id, kind, how, params["by"], params["from"], params["range"]]);
    this.toolbar.update(state, () => [
      devicePicker(context),
      classPicker(context, kind, how === "now" ? "L1" : undefined),
      choice("map", MODES, how, (value) => context.set({ params: { mode: value } })),
      how === "time" ? groupingPicker(context) : null,
      how === "time" ? choice("addresses", RANGES, params["range"] === "bank" ? "bank" : "used", (value) => context.set({ params: { range: value === "bank" ? value : null } })) : null,
      params["from"] ? h("button", { type: "button", onclick: () => context.set({ params: { from: null, to: null } }) }, "zoomed: show all") : null,
    ]);
    const error = documents.error("l1map") ?? documents.error("blocks") ?? documents.error("allocations");
    const reading = how === "time" && !documents.get("allocations") ? READING : null;
    const none = how === "time" && !context.recording ? "This server keeps no recording: allocations over time need one." : null;
    const parts = how === "time" ? lookedAtInParts(documents.get<Allocations>("allocations")) : null;
    missing(this.notice, error?.message ?? none ?? reading ?? parts ?? besides(device));
    this.l1.element.hidden = how !== "now" || kind !== "l1";
    this.bank.element.hidden = how !== "now" || kind === "l1";
    this.timePanel.hidden = how !== "time" || !context.recording;
    if (how === "time") this.drawTime(device, kind, context);
    else if (kind === "l1") this.l1.update(device, context);
    else this.bank.update(device, kind, context);
  }

  key(key: string, context: Context): boolean {
    const classes: Record<string, DeviceClass> = { d: "dram", t: "trace", l: "l1", s: "l1_small" };
    const steps: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const kind = classes[key];
    const step = steps[key];
    if (key === "[" || key === "]") stepDevice(context, key === "]" ? 1 : -1);
    else if (kind) context.set({ params: { class: kind } });
    else if (key === "o") context.set({ params: { mode: mode(context) === "time" ? "now" : "time" } });
    else if (step && mode(context) === "now" && mapClass(context) === "l1") this.move(step, context);
    else return false;
    return true;
  }

  private move([dx, dy]: [number, number], context: Context): void {
    const map = context.documents.get<L1Map>("l1map");
    const [x, y] = core(context);
    const [columns, rows] = [map?.columns ?? 1, map?.rows ?? 1];
    const next = [Math.min(Math.max(x + dx, 0), columns - 1), Math.min(Math.max(y + dy, 0), rows - 1)];
    context.set({ params: { core: next.join(",") } });
  }

  private drawTime(device: Device, kind: DeviceClass, context: Context): void {
    const found = context.documents.get<Allocations>("allocations");
    const blocks = context.documents.get<BlockMap>("blocks");
    if (!found) return;
    const { rectangles, left_out: leftOut } = found;
    const { base, top, beyond } = addresses(rectangles, context.params["range"] === "bank" ? blocks : undefined);
    const by = chosenGrouping(context);
    const title = `${KIND_LABEL[kind]} of device ${device.id} by address over time: ${counted(rectangles.length, "allocation")}`;
    const far = beyond > 0 ? `, ${count(beyond)} of them far from the others: see the whole bank` : "";
    setText(titleOf(this.timePanel), `${title}${leftOut > 0 ? `, ${counted(leftOut, "smaller one")} left out` : ""}${far}`);
    const key = (each: Rectangle) => (by === "line" ? each.line : by === "operation" ? each.operation : each.pid === null ? null : String(each.pid));
    this.time.update({
      rectangles,
      from: seconds(found.from),
      to: seconds(found.to),
      base,
      top,
      at: cursor(context),
      palette: context.palette,
      key,
      summary: `${title}; the table below has the largest, coloured here by ${groupLabel("", by)}`,
    });
    const largest = rectangles.filter((each) => finds(context.params["find"], each.line, each.operation, each.pid, each.address));
    largest.sort((one, other) => other.per_bank_bytes - one.per_bank_bytes);
    this.timeTable.update(largest, "nothing was allocated in this window");
  }
}

function mode(context: Context): Mode {
  return context.params["mode"] === "time" ? "time" : "now";
}

/** L1 is what this view is opened for, unless another class was chosen in it. */
function mapClass(context: Context): DeviceClass {
  return context.params["class"] === undefined ? "l1" : chosenClass(context);
}

function core({ params }: Context): [number, number] {
  const [x = 0, y = 0] = (params["core"] ?? "0,0").split(",").map((part) => Math.max(0, Math.floor(Number(part)) || 0));
  return [x, y];
}

/** As in the legend. */
function segmentLabel(kind: SegmentKind): string {
  return KIND_LABEL[SEGMENT_KIND[kind]];
}

const SEGMENT_COLUMNS = (now: () => string) => [
  { title: "", text: () => "", kind: (row: Segment) => `key-${SEGMENT_KIND[row.kind]}` },
  { title: "ADDRESS", numeric: true, text: (row: Segment) => address(row.address) },
  { title: "SIZE", numeric: true, text: (row: Segment) => bytes(row.size_bytes) },
  { title: "KIND", text: (row: Segment) => segmentLabel(row.kind) + (row.more > 0 ? ` (+${row.more} at this place)` : "") },
  { title: "OWNER", grows: true, text: (row: Segment) => named(row.owner, row.pid), hint: (row: Segment) => row.owner },
  { title: "PYTHON LINE", text: (row: Segment) => shortLine(named(row.line, row.pid)), hint: (row: Segment) => row.line },
  { title: "PID", numeric: true, text: (row: Segment) => String(row.pid ?? "–") },
  { title: "AGE", numeric: true, text: (row: Segment) => age(row.time, now()) },
];

/** The grid of cores, and one core from the top of its L1 to address 0. */
class L1Grid {
  readonly element: HTMLElement;
  private readonly grid = h("div", { class: "grid", role: "group", "aria-label": "compute cores by how full their L1 is" });
  private readonly facts = h("p", { class: "facts" });
  private readonly column: Canvas;
  private readonly segments: Table<Segment>;
  private readonly gridPanel: HTMLElement;
  private readonly corePanel: HTMLElement;
  private readonly residents;
  private buttons: HTMLButtonElement[] = [];
  private shown: Segment[] = [];
  private top = 1;
  private now = "";

  constructor(private readonly choose: (x: number, y: number) => void) {
    this.column = new Canvas("the core's L1 by address", 460, (ctx, width, height) => this.paint(ctx, width, height));
    this.segments = new Table<Segment>("segments of the core, from the top", SEGMENT_COLUMNS(() => this.now));
    this.residents = new Table<Resident>("programs that ran last on some core", [
      { title: "RAN LAST", grows: true, text: (row) => named(row.name, row.pid) },
      { title: "CORES", numeric: true, text: (row) => count(row.cores) },
      { title: "PID", numeric: true, text: (row) => String(row.pid ?? "–") },
      { title: "AGO", numeric: true, text: (row) => age(row.time, this.now) },
    ]);
    const scale = h("p", { class: "legend" }, h("span", null, "0%", h("span", { class: "scale" }, ...HEAT.map((_, step) => h("i", { class: `swatch heat-${step}` }))), "100%"), "! CB headroom below 16 KiB");
    this.gridPanel = panel("L1 by core", this.grid, scale, this.residents.element);
    const kinds = legend(["reserved", "kernel", "cb", "l1", "l1_small", "free"], false);
    this.corePanel = panel("Core", this.facts, kinds, h("div", { class: "core" }, this.column.element, this.segments.element));
    this.element = h("div", { class: "map" }, this.gridPanel, this.corePanel);
  }

  update(device: Device, context: Context): void {
    const map = context.documents.get<L1Map>("l1map");
    if (!map) return;
    this.now = map.time;
    const room = device.cb_headroom_bytes;
    const narrow = room === null ? "no CBs resident" : `CB headroom ${headroom(room)}${room < NARROW_HEADROOM ? ", narrow" : ""}`;
    const taken = percent(permille(device.l1.occupied_bytes ?? 0, device.l1.physical_bytes));
    setText(titleOf(this.gridPanel), `L1 ${taken} by core, ${map.columns ?? "?"}×${map.rows ?? "?"}: ${narrow}`);
    this.drawCores(map, context);
    this.residents.update(map.residents, "no program ran");
    const core = map.core;
    this.corePanel.hidden = core === null;
    if (!core) return;
    setText(titleOf(this.corePanel), `Core ${core.x},${core.y} from ${hex(map.bytes_per_core)} down to 0x0`);
    const of = map.cores.find((each) => each.x === core.x && each.y === core.y);
    setText(this.facts, of ? factsOfCore(of, map) : "");
    this.top = map.bytes_per_core ?? 1;
    this.shown = core.segments;
    this.column.describe(`L1 of core ${core.x},${core.y} by address; the table beside it has the same segments`);
    this.column.draw();
    const find = context.params["find"];
    this.segments.update([...core.segments].reverse().filter((row) => finds(find, row.owner, row.line, row.pid, row.address)), "nothing known");
  }

  private drawCores(map: L1Map, context: Context): void {
    this.grid.style.setProperty("--across", String(map.columns ?? 8));
    while (this.buttons.length > map.cores.length) this.buttons.pop()?.remove();
    while (this.buttons.length < map.cores.length) {
      const button = h("button", { type: "button" });
      button.addEventListener("click", () => this.choose(Number(button.dataset["x"]), Number(button.dataset["y"])));
      this.buttons.push(button);
      this.grid.appendChild(button);
    }
    const [x, y] = core(context);
    map.cores.forEach((each, place) => {
      const button = this.buttons[place] as HTMLButtonElement;
      const share = permille(each.occupied_bytes ?? 0, map.bytes_per_core);
      const gap = each.cb_end === null || each.lowest_buffer === null ? null : each.lowest_buffer - each.cb_end;
      const narrow = gap !== null && gap < NARROW_HEADROOM;
      button.dataset["x"] = String(each.x);
      button.dataset["y"] = String(each.y);
      button.className = `heat-${share === null ? "none" : Math.min(7, Math.floor((Math.min(share, 999) * 8) / 1000))}`;
      button.setAttribute("aria-pressed", each.x === x && each.y === y ? "true" : "false");
      button.setAttribute("aria-label", `core ${each.x},${each.y}: ${percent(share)} occupied${narrow ? ", narrow" : ""}`);
      setText(button, `${share === null ? "–" : Math.floor(share / 10)}${narrow ? "!" : ""}`);
    });
  }

  private paint(ctx: CanvasRenderingContext2D, width: number, height: number): void {
    const y = (place: number) => height - (height * place) / this.top;
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    for (const segment of this.shown) {
      const kind = SEGMENT_KIND[segment.kind];
      const fill = colour(kind);
      const [upper, lower] = [y(segment.address + segment.size_bytes), y(segment.address)];
      ctx.fillStyle = fill;
      ctx.fillRect(0, upper, width, Math.max(lower - upper - 0.5, 0.5));
      if (lower - upper < 13) continue;
      ctx.fillStyle = kind === "free" ? colour("faint") : readableOn(fill);
      ctx.fillText(`${hex(segment.address)}  ${bytes(segment.size_bytes)}`, 6, (upper + lower) / 2, width - 8);
    }
  }
}

function factsOfCore(core: L1Core, map: L1Map): string {
  const gap = core.cb_end === null || core.lowest_buffer === null ? null : core.lowest_buffer - core.cb_end;
  const facts = [
    `occupied ${bytes(core.occupied_bytes)} ${percent(permille(core.occupied_bytes ?? 0, map.bytes_per_core))}`,
    `CBs ${bytes(core.cb_bytes)}`,
    core.cb_end === null ? null : `CBs end at ${address(core.cb_end)}`,
    core.lowest_buffer === null ? "no L1 buffers" : `lowest L1 buffer at ${address(core.lowest_buffer)}`,
    gap === null ? null : `CB headroom ${headroom(gap)}`,
  ];
  return facts.filter((fact) => fact !== null).join(" · ");
}

const CELL_ROWS = 16;

/** One class of which all banks are alike. */
class Bank {
  readonly element: HTMLElement;
  private readonly canvas: Canvas;
  private readonly panel: HTMLElement;
  private readonly largest: Table<Block>;
  private readonly free: Table<Stretch>;
  private map: BlockMap | undefined;
  private kind: DeviceClass = "dram";
  private now = "";

  constructor() {
    this.canvas = new Canvas("a bank by address", CELL_ROWS * 18, (ctx, width) => this.paint(ctx, width));
    this.largest = new Table<Block>("the largest blocks", [
      { title: "ADDRESS", numeric: true, text: (row) => address(row.address) },
      { title: "PER BANK", numeric: true, text: (row) => bytes(row.size_bytes) },
      { title: "OPERATION", grows: true, text: (row) => named(row.operation, row.pid) },
      { title: "PYTHON LINE", text: (row) => shortLine(named(row.line, row.pid)), hint: (row) => row.line },
      { title: "PID", numeric: true, text: (row) => String(row.pid ?? "–") },
      { title: "AGE", numeric: true, text: (row) => age(row.time, this.now) },
    ]);
    this.free = new Table<Stretch>("the largest free stretches", [
      { title: "ADDRESS", numeric: true, text: (row) => address(row.address) },
      { title: "FREE PER BANK", numeric: true, text: (row) => bytes(row.size_bytes) },
    ]);
    this.panel = panel("Bank", this.canvas.element);
    const tables = h("div", { class: "two" }, panel("Largest blocks", this.largest.element), panel("Free, largest first", this.free.element));
    this.element = h("div", { class: "stack" }, this.panel, tables);
  }

  update(device: Device, kind: DeviceClass, context: Context): void {
    const map = context.documents.get<BlockMap>("blocks");
    if (!map) return;
    [this.map, this.kind, this.now] = [map, kind, map.time];
    const banks = map.banks === null ? "a bank" : `each of ${map.banks} banks`;
    const title = `${KIND_LABEL[kind]} of device ${device.id}, ${banks}: ${bytes(map.free_bytes)} of ${bytes(map.per_bank_bytes)} free in ${counted(map.free_count, "piece")}`;
    setText(titleOf(this.panel), title);
    this.canvas.describe(`${title}; the tables below have the largest blocks and the free stretches`);
    this.canvas.draw();
    const find = context.params["find"];
    this.largest.update(map.largest.filter((row) => finds(find, row.operation, row.line, row.pid, row.address)), "nothing is allocated");
    this.free.update(map.free, "nothing is free");
  }

  /** The bank in rows, the lowest address at the top left. */
  private paint(ctx: CanvasRenderingContext2D, width: number): void {
    const map = this.map;
    if (!map || map.per_bank_bytes === null || map.cells.length === 0) return;
    const across = Math.ceil(map.cells.length / CELL_ROWS);
    const whole = map.per_bank_bytes / map.cells.length;
    const left = 96;
    const wide = (width - left) / across;
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    for (let row = 0; row < CELL_ROWS; row += 1) {
      ctx.fillStyle = colour("faint");
      ctx.textAlign = "right";
      ctx.fillText(hex(Math.round((map.base ?? 0) + row * across * whole)), left - 6, row * 18 + 8);
      ctx.fillStyle = colour("sunken");
      ctx.fillRect(left, row * 18, width - left, 16);
    }
    ctx.textAlign = "left";
    ctx.fillStyle = colour(this.kind);
    map.cells.forEach((taken, place) => {
      if (taken === 0) return;
      const [row, column] = [Math.floor(place / across), place % across];
      const high = Math.max(2, 16 * Math.min(1, taken / whole));
      const start = Math.round(left + column * wide);
      ctx.fillRect(start, row * 18 + 16 - high, Math.max(Math.round(left + (column + 1) * wide) - start, 1), high);
    });
  }
}
