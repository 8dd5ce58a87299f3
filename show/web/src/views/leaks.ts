/** What was allocated since a mark and is still held, and what grows from mark to mark? */

import type { BufferGroup, BufferGroups, Device, HeldAtClose, Leaks, Mark } from "../api";
import { choice, h, panel, replace, setText, titleOf } from "../dom";
import { USUAL_INTERVAL, type Need } from "../documents";
import { deviceName, processName } from "../figures";
import { age, bytes, clock, counted } from "../format";
import { GroupTable, missing, notice, Toolbar, usualGrouping } from "../parts";
import { Table } from "../table";
import { calledFrom, shortLine } from "../text";
import { finds, type Context, type View } from "../view";
import { markName, named } from "../hidden";

const GROUPED = [
  ["line", "by Python line"],
  ["operation", "by operation"],
  ["process", "by process"],
] as const;

type Grouped = (typeof GROUPED)[number][0];

interface Since {
  device: Device;
  place: number;
}

export class LeaksView implements View {
  readonly keys: [string, string][] = [
    ["m", "set a mark"],
    ["[ ]", "mark"],
    ["b", "group by"],
    ["/", "find"],
  ];
  readonly words = ["mark", "leak candidate", "held at exit", "charged", "peak"];
  readonly element: HTMLElement;
  private readonly toolbar = new Toolbar();
  private readonly notice = notice();
  private readonly growing = h("ul", { class: "lines" });
  private readonly growingPanel: HTMLElement;
  private readonly held: Table<HeldAtClose>;
  private readonly heldPanel: HTMLElement;
  private readonly since: HTMLElement;
  private readonly groups: Record<Grouped, GroupTable>;
  private readonly devices: Table<Since>;
  private markPlace = -1;

  constructor(private readonly context: () => Context) {
    this.growingPanel = panel("Growing from mark to mark", this.growing);
    const open = (group: BufferGroup) => this.context().set({ view: "buffers", params: { find: group.key ?? null } });
    this.groups = {
      line: new GroupTable("PYTHON LINE", "line", open),
      operation: new GroupTable("OPERATION", "operation", open),
      process: new GroupTable("PROCESS", "process", open),
    };
    this.devices = new Table<Since>("devices since the mark", [
      { title: "DEVICE", text: (row) => deviceName(row.device) },
      { title: "DRAM NOW", numeric: true, text: (row) => bytes(row.device.dram.charged_bytes) },
      { title: "PEAK SINCE", numeric: true, text: (row) => bytes(row.device.peaks_since_marks[row.place]?.dram ?? null) },
      { title: "L1 BUFFERS", numeric: true, text: (row) => bytes(row.device.l1.charged_bytes) },
      { title: "PEAK SINCE", numeric: true, text: (row) => bytes(row.device.peaks_since_marks[row.place]?.l1 ?? null) },
      { title: "L1_SMALL", numeric: true, text: (row) => bytes(row.device.l1_small.charged_bytes) },
      { title: "TRACE", numeric: true, text: (row) => bytes(row.device.trace.charged_bytes) },
    ]);
    this.held = new Table("held at close", [
      { title: "HELD AT CLOSE BY", grows: true, text: (group) => (group.line ? shortLine(group.line) + calledFrom(group.callers) : named(group.operation, group.pid, "not known where")), hint: (group) => group.line },
      { title: "OPERATION", text: (group) => named(group.operation, group.pid) },
      { title: "PROCESS", text: (group) => `${group.pid ?? "?"} ${named(group.process, group.pid, "")}${group.departed ? " (ended)" : ""}` },
      { title: "BUFFERS", numeric: true, text: (group) => String(group.buffers) },
      { title: "CHARGED", numeric: true, text: (group) => bytes(group.bytes) },
      { title: "GROWING", text: (group) => (group.growing ? "yes" : "no") },
    ]);
    this.heldPanel = panel("Held when devices were closed", this.held.element);
    const faint = h("p", { class: "faint" }, "Held is not leaked: weights, caches and running work are held on purpose.");
    this.since = panel("Since the mark", faint, ...Object.values(this.groups).map((each) => each.table.element), this.devices.element);
    this.element = h("div", { class: "view" }, this.toolbar.element, this.notice, this.growingPanel, this.since, this.heldPanel);
  }

  needs(context: Context): Need[] {
    const mark = this.mark(context)?.[0];
    const params = { by: grouped(context), since: mark?.time ?? context.snapshot?.server.started };
    return [
      { name: "since", path: "/api/v1/buffers/groups", params, every: 2000 },
      { name: "leaks", path: "/api/v1/leaks", every: 5 * USUAL_INTERVAL },
    ];
  }

  render(context: Context): void {
    const { snapshot, documents, params } = context;
    if (!snapshot) return;
    const [mark, place] = this.mark(context) ?? [undefined, -1];
    const by = grouped(context);
    const state = JSON.stringify([snapshot.marks.length, place, by, snapshot.marks.at(-1)?.time, context.recording?.source]);
    this.toolbar.update(state, () => [this.picker(snapshot.marks, place), choice("group by", GROUPED, by, (value) => context.set({ params: { by: value } }))]);
    this.markPlace = place;
    const groups = documents.get<BufferGroups>("since");
    const when = mark ? `mark ${place + 1} of ${snapshot.marks.length}, ${markName(mark, "unnamed")}, ${clock(mark.time, context.now)} UTC, ${age(mark.time, context.now)} ago` : "the start of the server: no mark is set";
    const size = !groups ? (documents.error("since")?.message ?? "") : `${counted(groups.buffers, "buffer")} with ${bytes(groups.charged_bytes)}${snapshot.devices.length > 1 ? " on each device" : ""} allocated since and still held`;
    setText(titleOf(this.since), `Since ${when}: ${size}`);
    for (const [name, table] of Object.entries(this.groups)) table.table.element.hidden = name !== by;
    if (groups) {
      const shown = groups.groups.filter((group) => finds(params["find"], group.key));
      this.groups[by].update(shown, groups.charged_bytes, groups.time, "nothing allocated since is still held");
    }
    this.devices.update(place < 0 ? [] : snapshot.devices.map((device) => ({ device, place })), "peaks since a mark need one");
    this.drawLeaks(documents.get<Leaks>("leaks"));
  }

  key(key: string, context: Context): boolean {
    const marks = context.snapshot?.marks ?? [];
    if (key === "m") void this.setMark();
    else if ((key === "[" || key === "]") && marks.length > 0) {
      const next = Math.min(marks.length - 1, Math.max(0, this.markPlace + (key === "]" ? 1 : -1)));
      context.set({ params: { mark: marks[next]?.time ?? null } });
    } else if (key === "b") {
      const names = GROUPED.map(([name]) => name);
      context.set({ params: { by: names[(names.indexOf(grouped(context)) + 1) % names.length] } });
    } else return false;
    return true;
  }

  private drawLeaks(leaks: Leaks | undefined): void {
    if (!leaks) return;
    const find = this.context().params["find"];
    const lines = leaks.growing.filter((group) => finds(find, group.line, group.operation, group.pid, group.process));
    this.growingPanel.hidden = lines.length === 0;
    const text = (each: Leaks["growing"][number]) => `${each.sentence} · ${counted(each.buffers, "buffer")} · ${processName(each.pid, named(each.process, each.pid, ""))}`;
    const wanted = lines.map(text);
    if ([...this.growing.children].map((item) => item.textContent).join("\n") !== wanted.join("\n")) {
      replace(this.growing, ...wanted.map((line) => h("li", { class: "warning" }, line)));
    }
    const held = leaks.held_at_close.filter((group) => finds(find, group.line, group.operation, group.pid, group.process));
    this.heldPanel.hidden = held.length === 0;
    this.held.update(held);
  }

  private picker(marks: Mark[], chosen: number): HTMLElement {
    const options = marks.map((mark, place) => h("option", { value: mark.time, selected: place === chosen }, `since mark ${place + 1}: ${markName(mark, "unnamed")}`));
    const select = h("select", { "aria-label": "since which mark" }, ...options.reverse());
    select.addEventListener("change", () => this.context().set({ params: { mark: select.value } }));
    select.hidden = marks.length === 0;
    const set = h("button", { type: "button", onclick: () => void this.setMark() }, "set a mark");
    // What is over takes no marks.
    set.hidden = this.context().recording?.source === "file";
    return h("div", { class: "choice" }, select, set);
  }

  private async setMark(): Promise<void> {
    const { documents } = this.context();
    try {
      if (!documents.source.post) throw new Error("a report takes no marks");
      await documents.source.post("/api/v1/mark", { name: "" });
      missing(this.notice, null);
      documents.refresh();
    } catch (error) {
      missing(this.notice, `no mark was set: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** The mark of the address, or the newest. */
  private mark({ snapshot, params }: Context): [Mark, number] | undefined {
    const marks = snapshot?.marks ?? [];
    const wanted = marks.findIndex((mark) => mark.time === params["mark"]);
    const place = wanted < 0 ? marks.length - 1 : wanted;
    const mark = marks[place];
    return mark ? [mark, place] : undefined;
  }
}

function grouped(context: Context): Grouped {
  return GROUPED.find(([name]) => name === context.params["by"])?.[0] ?? usualGrouping(context);
}
