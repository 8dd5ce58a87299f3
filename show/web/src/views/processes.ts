/** Which processes use the devices, and what does each hold where? */

import type { ProcessDevice } from "../api";
import { choice, h, panel, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { incomplete } from "../figures";
import { bytes, clock, count, counted, onDevices } from "../format";
import { hasSizes, notAttached, remarkOf } from "../machine";
import { byDram, dram, processColumns, Toolbar } from "../parts";
import type { ProcessRow } from "../processrow";
import { Table, type Column } from "../table";
import { finds, type Context, type View } from "../view";
import { named } from "../hidden";

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

/** Labels that processes are grouped by. */
const WAYS = [
  ["each", "each process"],
  ["job", "by job"],
  ["rank", "by rank"],
] as const;

type Way = (typeof WAYS)[number][0];

const way = (param: string | undefined): Way => WAYS.find(([name]) => name === param)?.[0] ?? "each";

/** Processes that have one value of a label; of a rank, those of one job: every job has a rank 0. */
export interface Group {
  job: string | null;
  value: string | null;
  processes: ProcessRow[];
}

const valueOf = (process: ProcessRow, label: string): string | null =>
  Object.entries(process.labels).find(([name]) => name === label)?.[1] ?? null;

/** 2 before 10, and what is not there first. */
const inOrder = (one: string | null, other: string | null): number => (one ?? "").localeCompare(other ?? "", "en", { numeric: true });

/** Processes by a label, those without it last: ranks in their order, of others the group that holds most first. */
export function grouped(processes: ProcessRow[], label: string): Group[] {
  const groups = new Map<string, Group>();
  for (const process of processes) {
    const value = valueOf(process, label);
    const job = label === "rank" && value !== null ? valueOf(process, "job") : null;
    const key = JSON.stringify([job, value]);
    const group = groups.get(key) ?? { job, value, processes: [] };
    groups.set(key, group);
    group.processes.push(process);
  }
  const held = (group: Group) => group.processes.reduce((sum, process) => sum + dram(process), 0);
  const order = (one: Group, other: Group) =>
    label === "rank" ? inOrder(one.job, other.job) || inOrder(one.value, other.value) : held(other) - held(one);
  return [...groups.values()].sort((one, other) => Number(one.value === null) - Number(other.value === null) || order(one, other));
}

/** A group as it is shown, which is also what finds its processes. */
const groupName = (job: string | null, label: string, value: string): string => `${job === null ? "" : `job ${job} `}${label} ${value}`;

const rankOf = (process: ProcessRow): string | null => {
  const rank = valueOf(process, "rank");
  return rank === null ? null : groupName(valueOf(process, "job"), "rank", rank);
};

/** What a process says of where it runs, in a line. */
const labelsOf = (process: ProcessRow): string | null => {
  const pairs = Object.entries(process.labels).map(([name, value]) => `${name} ${value}`);
  return pairs.length === 0 ? null : pairs.join(", ");
};

const key = (process: ProcessRow) => process.instance ?? String(process.pid);

export class Processes implements View {
  readonly keys: [string, string][] = [
    ["Enter", "what a process holds on each device"],
    ["/", "find"],
    ["b", "by job, by rank"],
  ];
  readonly words = ["charged", "peak", "held at exit", "incomplete", "anomalies", "checked"];
  readonly element: HTMLElement;
  private readonly table: Table<ProcessRow>;
  private readonly devices = new Table<ProcessDevice>("what the process holds on each device", DEVICE_COLUMNS, (row) =>
    this.context().set({ view: "device", params: { device: String(row.id) } }),
  );
  private readonly groups: Table<Group>;
  private readonly grouping: HTMLElement;
  private label: Way = "each";
  private readonly toolbar = new Toolbar();
  private readonly list: HTMLElement;
  private readonly detail: HTMLElement;
  private readonly facts = h("p", { class: "facts" });

  constructor(private readonly context: () => Context) {
    const columns = processColumns();
    columns.splice(6, 0, { title: "HOST MEMORY", numeric: true, text: (row) => bytes(row.host?.rss_bytes ?? null) });
    this.table = new Table("processes", columns, (row) => this.context().set({ params: { pid: key(row) } }));
    const sum = (group: Group, of: (on: ProcessDevice) => number) =>
      group.processes.reduce((all, process) => all + process.devices.reduce((part, on) => part + of(on), 0), 0);
    this.groups = new Table<Group>(
      "processes by what they say of where they run",
      [
        { title: "GROUP", grows: true, text: (group) => (group.value === null ? `no ${this.label}` : groupName(group.job, this.label, group.value)) },
        { title: "PROCESSES", numeric: true, text: (group) => count(group.processes.length) },
        { title: "DRAM", numeric: true, text: (group) => bytes(sum(group, (on) => on.dram_bytes)) },
        { title: "L1 BUFFERS", numeric: true, text: (group) => bytes(sum(group, (on) => on.l1_bytes)) },
      ],
      (group) => this.context().set({ params: { find: group.value === null ? null : groupName(group.job, this.label, group.value) } }),
    );
    this.grouping = panel("Groups", this.groups.element);
    this.list = panel("Processes", this.table.element);
    this.detail = panel("Process", this.facts, this.devices.element);
    this.element = h("div", { class: "view" }, this.toolbar.element, this.grouping, this.list, this.detail);
  }

  /** `b` goes around: no groups, by job, by rank. */
  key(pressed: string, { params, set }: Context): boolean {
    if (pressed !== "b") return false;
    const ways = WAYS.map(([way]) => way);
    const next = ways[(ways.indexOf(way(params["by"])) + 1) % ways.length] ?? "each";
    set({ params: { by: next === "each" ? null : next } });
    return true;
  }

  needs(): Need[] {
    return [];
  }

  render({ snapshot, params }: Context): void {
    if (!snapshot) return;
    const all = byDram([...snapshot.processes, ...notAttached(snapshot.machine)]);
    const shown = all.filter((each) => finds(params["find"], each.pid, each.name, each.host?.command, each.host?.user, labelsOf(each), rankOf(each)));
    const by = way(params["by"]);
    const labelled = all.some((each) => each.labels["job"] !== undefined || each.labels["rank"] !== undefined);
    this.toolbar.element.hidden = !labelled && by === "each";
    this.toolbar.update(by, () => [choice("group", WAYS, by, (value) => this.context().set({ params: { by: value === "each" ? null : value } }))]);
    this.label = by;
    this.grouping.hidden = by === "each";
    if (by !== "each") {
      setText(titleOf(this.grouping), `Processes by ${this.label}`);
      this.groups.update(grouped(shown, this.label));
    }
    const chosen = shown.find((each) => key(each) === params["pid"]) ?? shown[0];
    const sum = shown.reduce((total, each) => total + dram(each), 0);
    setText(titleOf(this.list), `${counted(shown.length, "process", "processes")}: DRAM ${onDevices(sum, snapshot.devices.length)}`);
    this.table.update(shown, "no process has reported anything", (row) => row === chosen);
    this.detail.hidden = chosen === undefined;
    if (!chosen) return;
    setText(titleOf(this.detail), `${`pid ${chosen.pid ?? "?"} ${named(chosen.name, chosen.pid, "")}`.trim()}: what it holds on each device`);
    const why = incomplete(chosen);
    const facts = [
      chosen.host?.user,
      chosen.host?.command,
      labelsOf(chosen),
      chosen.start_time === null ? null : `started ${clock(chosen.start_time, snapshot.time)} UTC`,
      remarkOf(chosen) ?? `source ${chosen.source}`,
      chosen.anomalies > 0 ? counted(chosen.anomalies, "anomaly", "anomalies") : null,
      why === null ? (remarkOf(chosen) ? null : "no problems seen") : `incomplete: ${why}`,
    ];
    setText(this.facts, facts.filter(Boolean).join(" · "));
    this.devices.update(hasSizes(chosen) ? chosen.devices : [], "nothing is known");
  }
}
