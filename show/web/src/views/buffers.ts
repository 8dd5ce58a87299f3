/** What is live: every buffer, in groups, or by the Python calls that it comes from. */

import type { BufferGroup, BufferGroups, BufferRow } from "../api";
import { Flame, tree, type Frame } from "../charts/flame";
import { KIND_LABEL } from "../colours";
import { choice, h, panel, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { CLASSES, deviceName, type DeviceClass } from "../figures";
import { address, age, bytes, count, counted, ids, percent, permille } from "../format";
import { BufferPages } from "../pages";
import { devicePicker, GroupTable, missing, notice, Toolbar } from "../parts";
import type { Params } from "../source";
import { LongTable, Table } from "../table";
import { shortLine, userFrame } from "../text";
import { peaksOf } from "../timeline";
import { chosenDevice, stepDevice, type Context, type View } from "../view";
import { sort } from "./programs";
import { named } from "../hidden";

const SHOWN = [
  ["list", "every buffer"],
  ["line", "by Python line"],
  ["operation", "by operation"],
  ["process", "by process"],
  ["layout", "by layout"],
  ["flame", "flame graph"],
] as const;

type Shown = (typeof SHOWN)[number][0];

/** What the buffers of a group have in common. */
const inCommon = (show: Shown) => (show === "flame" ? "stack" : show);

/** Filled in once a class was chosen here. */
const ANY_CLASS = [["all", "all classes"], ...CLASSES.map((each) => [each, KIND_LABEL[each]] as const)] as const;

export class Buffers implements View {
  readonly keys: [string, string][] = [
    ["b", "group by, flame graph"],
    ["c", "class"],
    ["d", "one device or all"],
    ["[ ]", "device"],
    ["/", "find"],
    ["Esc", "out of the flame graph's zoom"],
  ];
  readonly words = ["charged", "requested", "bank", "classes", "mesh"];
  readonly element: HTMLElement;
  private readonly toolbar = new Toolbar();
  private readonly notice = notice();
  private readonly pages: BufferPages;
  private readonly list: LongTable<BufferRow>;
  private readonly listPanel: HTMLElement;
  private readonly groups: Record<Exclude<Shown, "list" | "flame">, GroupTable>;
  private readonly groupPanel: HTMLElement;
  private readonly flame: Flame;
  private readonly flameTable: Table<Frame>;
  private readonly flamePanel: HTMLElement;
  private now = "";
  private total = 0;
  private drawn: BufferGroups | undefined;

  constructor(private readonly context: () => Context) {
    this.pages = new BufferPages(context().documents.source, () => this.drawList());
    this.list = new LongTable<BufferRow>(
      "live buffers",
      [
        { title: "ADDRESS", numeric: true, text: (row) => address(row.address), width: "13rem", sort: "address" },
        { title: "CHARGED", numeric: true, text: (row) => bytes(row.charged_bytes), width: "6.5rem", sort: "size" },
        { title: "REQUESTED", numeric: true, text: (row) => bytes(row.requested_bytes), width: "6.5rem" },
        { title: "CLASS", text: (row) => KIND_LABEL[row.class], kind: (row) => `ink-${row.class}`, width: "6rem" },
        { title: "PYTHON LINE", text: (row) => shortLine(named(userFrame(row.python), row.pid)), hint: (row) => row.python?.join("\n") ?? null, width: "minmax(15rem, 1fr)" },
        { title: "OPERATION", text: (row) => named(row.operation, row.pid), hint: (row) => row.operation, width: "minmax(9rem, 1.5fr)" },
        { title: "DEVICES", text: (row) => ids(row.device_ids), width: "5.5rem" },
        { title: "LAYOUT", text: (row) => (row.layout ?? "–").replaceAll("_", " "), width: "8rem" },
        { title: "PID", numeric: true, text: (row) => String(row.pid ?? "–"), width: "5rem" },
        { title: "AGE", numeric: true, text: (row) => age(row.time, this.now), width: "6.5rem", sort: "time" },
      ],
      { sort: (column) => this.sort(column) },
    );
    this.listPanel = panel("Buffers", this.list.element);
    const find = (group: BufferGroup) => this.context().set({ params: { show: "list", find: group.key ?? null } });
    this.groups = {
      line: new GroupTable("PYTHON LINE", "line", find),
      operation: new GroupTable("OPERATION", "operation", find),
      process: new GroupTable("PROCESS", "process", find),
      layout: new GroupTable("LAYOUT", "layout", find),
    };
    this.groupPanel = panel("Groups", ...Object.values(this.groups).map((each) => each.table.element));
    this.flameTable = new Table<Frame>("calls from here, most bytes first", [
      { title: "CALLED FROM HERE", grows: true, text: (frame) => frame.name, hint: (frame) => frame.name },
      { title: "CHARGED", numeric: true, text: (frame) => bytes(frame.bytes) },
      { title: "SHARE", numeric: true, text: (frame) => percent(permille(frame.bytes, this.total)) },
      { title: "BUFFERS", numeric: true, text: (frame) => count(frame.buffers) },
    ], (frame) => this.flame.zoom(frame), 30);
    this.flame = new Flame((frame) => this.flameTable.update(frame.children, "nothing is called from here"));
    this.flamePanel = panel("Flame graph", this.flame.element, this.flameTable.element);
    this.element = h("div", { class: "view tall" }, this.toolbar.element, this.notice, this.listPanel, this.groupPanel, this.flamePanel);
  }

  needs(context: Context): Need[] {
    const show = shown(context);
    if (show === "list") return [];
    const params = this.filter(context);
    return [{ name: "groups", path: "/api/v1/buffers/groups", params: { ...params, by: inCommon(show) }, every: 2000 }];
  }

  render(context: Context): void {
    const { snapshot, params, documents } = context;
    if (!snapshot) return;
    this.now = context.now;
    const show = shown(context);
    const state = JSON.stringify([show, params["device"], params["class"], params["where"], snapshot.devices.map(deviceName), Boolean(context.recording)]);
    this.toolbar.update(state, () => this.controls(context));
    this.listPanel.hidden = show !== "list";
    this.groupPanel.hidden = show === "list" || show === "flame";
    this.flamePanel.hidden = show !== "flame";
    const error = show === "list" ? this.pages.error : (documents.error("groups")?.message ?? null);
    missing(this.notice, error);
    if (show === "list") {
      this.pages.ask({ ...this.filter(context), ...this.order(params["sort"]), at: params["at"] });
      return this.drawList();
    }
    const groups = documents.get<BufferGroups>("groups");
    if (!groups || groups.by !== inCommon(show)) return;
    this.total = groups.charged_bytes;
    const sizes = `${counted(groups.buffers, "buffer")}, ${bytes(groups.charged_bytes)} on each device`;
    if (show === "flame") {
      setText(titleOf(this.flamePanel), `Which calls do the bytes come from? ${sizes}`);
      if (this.drawn !== groups) this.flame.update(tree(groups.groups, "all live buffers"));
      this.drawn = groups;
      return;
    }
    setText(titleOf(this.groupPanel), `${sizes}, ${counted(groups.groups.length + groups.left_out, "group")}`);
    for (const [name, table] of Object.entries(this.groups)) table.table.element.hidden = name !== show;
    this.groups[show].update(groups.groups, groups.charged_bytes, groups.time);
  }

  key(key: string, context: Context): boolean {
    const names = SHOWN.map(([name]) => name);
    const next = <T>(list: readonly T[], chosen: T) => list[(list.indexOf(chosen) + 1) % list.length] as T;
    if (key === "b") context.set({ params: { show: next(names, shown(context)) } });
    else if (key === "c") context.set({ params: { class: classParameter(next(ANY_CLASS.map(([name]) => name), classOf(context))) } });
    else if (key === "d") context.set({ params: { where: context.params["where"] ? null : "device" } });
    else if (key === "[" || key === "]") stepDevice(context, key === "]" ? 1 : -1);
    else if (key === "Escape" && shown(context) === "flame" && this.flame.zoomed) this.flame.out();
    else return false;
    return true;
  }

  private controls(context: Context): (HTMLElement | null)[] {
    const { params } = context;
    const where = choice("where", [["all", "all devices"], ["device", "one device"]] as const, params["where"] ? "device" : "all", (value) =>
      context.set({ params: { where: value === "all" ? null : value } }),
    );
    const peak = () => {
      const [highest] = peaksOf(this.context());
      if (highest) this.context().set({ params: { at: highest.time } });
    };
    return [
      choice("show", SHOWN, shown(context), (value) => context.set({ params: { show: value } })),
      choice("class", ANY_CLASS, classOf(context), (value) => context.set({ params: { class: classParameter(value) } })),
      where,
      params["where"] ? devicePicker(context) : null,
      context.recording ? h("button", { type: "button", onclick: peak }, "at the peak") : null,
    ];
  }

  private filter(context: Context): Params {
    const kind = classOf(context);
    const device = chosenDevice(context);
    return {
      class: kind === "all" ? null : kind,
      find: context.params["find"],
      pid: context.params["pid"],
      device: context.params["where"] && device && device.unique_id === null ? device.id : null,
      unique_id: context.params["where"] && device ? device.unique_id : null,
    };
  }

  private order(text: string | undefined): Params {
    const { column, descending } = sort(text, "size");
    return { sort: column, descending };
  }

  private sort(column: string): void {
    const { set, params } = this.context();
    const now = sort(params["sort"], "size");
    set({ params: { sort: `${column}.${now.column === column && now.descending ? "up" : "down"}` } });
  }

  private drawList(): void {
    const { length, matchedBytes, leftOut } = this.pages;
    const title = `${counted(length, "buffer")}, ${bytes(matchedBytes)} on each device`;
    setText(titleOf(this.listPanel), leftOut > 0 ? `${title}; ${counted(leftOut, "smaller one")} not in this report` : title);
    this.list.update(this.pages, sort(this.context().params["sort"], "size"));
  }
}

function shown(context: Context): Shown {
  return SHOWN.find(([name]) => name === context.params["show"])?.[0] ?? "list";
}

function classOf(context: Context): DeviceClass | "all" {
  return CLASSES.find((each) => each === context.params["class"]) ?? "all";
}

function classParameter(value: DeviceClass | "all"): string | null {
  return value === "all" ? null : value;
}
