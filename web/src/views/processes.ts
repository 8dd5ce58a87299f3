/** Which processes use the devices, and what does each hold where? */

import type { Process, ProcessDevice } from "../api";
import { h, panel, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { incomplete } from "../figures";
import { bytes, clock, count, counted, onDevices } from "../format";
import { byDram, dram, processColumns } from "../parts";
import { Table, type Column } from "../table";
import { finds, type Context, type View } from "../view";

const DEVICE_COLUMNS: Column<ProcessDevice>[] = [
  { title: "DEVICE", text: (row) => String(row.id) },
  { title: "DRAM", numeric: true, text: (row) => bytes(row.dram_bytes) },
  { title: "ITS PEAK", numeric: true, text: (row) => bytes(row.peak?.dram ?? null) },
  { title: "L1 BUFFERS", numeric: true, text: (row) => bytes(row.l1_bytes) },
  { title: "ITS PEAK", numeric: true, text: (row) => bytes(row.peak?.l1 ?? null) },
  { title: "L1_SMALL", numeric: true, text: (row) => bytes(row.l1_small_bytes) },
  { title: "TRACE", numeric: true, text: (row) => bytes(row.trace_bytes) },
  { title: "BUFFERS", numeric: true, text: (row) => count(row.buffers) },
];

const key = (process: Process) => process.instance ?? String(process.pid);

export class Processes implements View {
  readonly keys: [string, string][] = [
    ["Enter", "what a process holds on each device"],
    ["/", "find"],
  ];
  readonly words = ["charged", "peak", "held at exit", "incomplete", "anomalies", "checked"];
  readonly element: HTMLElement;
  private readonly table: Table<Process>;
  private readonly devices = new Table<ProcessDevice>("what the process holds on each device", DEVICE_COLUMNS, (row) =>
    this.context().set({ view: "device", params: { device: String(row.id) } }),
  );
  private readonly list: HTMLElement;
  private readonly detail: HTMLElement;
  private readonly facts = h("p", { class: "facts" });

  constructor(private readonly context: () => Context) {
    const columns = processColumns();
    columns.splice(6, 0, { title: "HOST MEMORY", numeric: true, text: (row) => bytes(row.host?.rss_bytes ?? null) });
    this.table = new Table("processes", columns, (row) => this.context().set({ params: { pid: key(row) } }));
    this.list = panel("Processes", this.table.element);
    this.detail = panel("Process", this.facts, this.devices.element);
    this.element = h("div", { class: "view" }, this.list, this.detail);
  }

  needs(): Need[] {
    return [];
  }

  render({ snapshot, params }: Context): void {
    if (!snapshot) return;
    const all = byDram(snapshot.processes);
    const shown = all.filter((each) => finds(params["find"], each.pid, each.name, each.host?.command, each.host?.user));
    const chosen = shown.find((each) => key(each) === params["pid"]) ?? shown[0];
    const sum = shown.reduce((total, each) => total + dram(each), 0);
    setText(titleOf(this.list), `${counted(shown.length, "process", "processes")}: DRAM ${onDevices(sum, snapshot.devices.length)}`);
    this.table.update(shown, "no process has reported anything", (row) => row === chosen);
    this.detail.hidden = chosen === undefined;
    if (!chosen) return;
    setText(titleOf(this.detail), `pid ${chosen.pid ?? "?"} ${chosen.name ?? ""}: what it holds on each device`);
    const why = incomplete(chosen);
    const facts = [
      chosen.host?.user,
      chosen.host?.command,
      chosen.start_time === null ? null : `started ${clock(chosen.start_time, snapshot.time)} UTC`,
      `source ${chosen.source}`,
      chosen.anomalies > 0 ? counted(chosen.anomalies, "anomaly", "anomalies") : null,
      why === null ? "no problems seen" : `incomplete: ${why}`,
    ];
    setText(this.facts, facts.filter(Boolean).join(" · "));
    this.devices.update(chosen.devices, "nothing");
  }
}
