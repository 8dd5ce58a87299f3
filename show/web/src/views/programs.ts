/** Which programs are compiled, how large are they, how often did they run; what is in the rings and caches? */

import type { CacheCounts, ConfigRingEntry, ConfigRingUsage, PrefetchUsage, ProgramRow, ProgramRowPage } from "../api";
import { choice, h, panel, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { deviceName } from "../figures";
import { address, age, bytes, count, counted, percent, permille } from "../format";
import { devicePicker, Toolbar } from "../parts";
import { LongTable, rowsOf, Table, type Sorted } from "../table";
import { shortLine, userFrame } from "../text";
import { chosenDevice, finds, stepDevice, type Context, type View } from "../view";
import { named } from "../hidden";

const PAGES = [
  ["programs", "programs"],
  ["rings", "rings and caches"],
] as const;

type Entry = ConfigRingEntry & { of: string };

const SORTS: Record<string, (row: ProgramRow) => number | string> = {
  name: (row) => row.name ?? "",
  cores: (row) => row.cores ?? 0,
  text: (row) => row.text_bytes ?? 0,
  cbs: (row) => row.cb_bytes,
  kernels: (row) => row.kernels,
  runs: (row) => row.dispatches,
  last: (row) => row.last_run ?? "",
};

export class Programs implements View {
  readonly keys: [string, string][] = [
    ["p", "programs, rings and caches"],
    ["[ ]", "device"],
    ["/", "find"],
  ];
  readonly words = ["registered", "resident", "kernels", "dispatches", "binary state", "config ring", "prefetcher cache", "caches"];
  readonly element: HTMLElement;
  private readonly toolbar = new Toolbar();
  private readonly table: LongTable<ProgramRow>;
  private readonly list: HTMLElement;
  private readonly rings: Table<ConfigRingUsage>;
  private readonly entries: Table<Entry>;
  private readonly caches: Table<PrefetchUsage>;
  private readonly counts = h("p", { class: "facts" });
  private readonly ringPanel: HTMLElement;
  private now = "";

  constructor(private readonly context: () => Context) {
    const hits = (row: ProgramRow) => Math.max(0, ...row.devices.map((device) => device.program_cache_hits));
    const state = (row: ProgramRow) => [...new Set(row.devices.map((device) => device.binary.replace("_", " ")))].join(", ");
    this.table = new LongTable<ProgramRow>(
      "programs",
      [
        { title: "PROGRAM", text: (row) => named(row.name, row.pid), hint: (row) => row.name, width: "minmax(12rem, 2fr)", sort: "name" },
        { title: "PYTHON LINE", text: (row) => shortLine(named(userFrame(row.python), row.pid)), hint: (row) => userFrame(row.python), width: "minmax(15rem, 1fr)" },
        { title: "PID", numeric: true, text: (row) => String(row.pid ?? "–"), width: "5rem" },
        { title: "CORES", numeric: true, text: (row) => count(row.cores), width: "4.5rem", sort: "cores" },
        { title: "TEXT", numeric: true, text: (row) => bytes(row.text_bytes), width: "6rem", sort: "text" },
        { title: "CBs", numeric: true, text: (row) => bytes(row.cb_bytes), width: "6rem", sort: "cbs" },
        { title: "KERNELS", numeric: true, text: (row) => count(row.kernels), width: "5.5rem", sort: "kernels" },
        { title: "BINARY", text: state, width: "6.5rem" },
        { title: "RUNS", numeric: true, text: (row) => count(row.dispatches), width: "5rem", sort: "runs" },
        { title: "HITS", numeric: true, text: (row) => count(hits(row)), width: "5rem" },
        { title: "LAST RUN", numeric: true, text: (row) => age(row.last_run, this.now), width: "6.5rem", sort: "last" },
      ],
      { sort: (column) => this.sort(column) },
    );
    this.list = panel("Programs", this.table.element);
    this.rings = new Table<ConfigRingUsage>("config rings", [
      { title: "CONFIG RING OF", numeric: true, text: (row) => `pid ${row.pid ?? "–"}` },
      { title: "CORES", text: (row) => row.core_type },
      { title: "MESH", numeric: true, text: (row) => String(row.mesh ?? "–") },
      { title: "USED", numeric: true, text: (row) => bytes(row.used_bytes) },
      { title: "OF", numeric: true, text: (row) => bytes(row.capacity_bytes) },
      { title: "%", numeric: true, text: (row) => percent(permille(row.used_bytes, row.capacity_bytes)) },
      { title: "ENTRIES", numeric: true, text: (row) => count(row.entry_count) },
      { title: "WRAPS", numeric: true, text: (row) => count(row.wraps) },
      { title: "EVICTED", numeric: true, text: (row) => count(row.evictions) },
      { title: "STALLS", numeric: true, text: (row) => count(row.stalls) },
      { title: "RESERVES", numeric: true, text: (row) => count(row.reserves) },
    ]);
    this.entries = new Table<Entry>("entries of the config rings", [
      { title: "ADDRESS", numeric: true, text: (row) => address(row.address) },
      { title: "BYTES", numeric: true, text: (row) => bytes(row.size_bytes) },
      { title: "PROGRAM", numeric: true, text: (row) => String(row.program ?? "–") },
      { title: "RING OF", grows: true, text: (row) => row.of },
    ], undefined, 60);
    this.caches = new Table<PrefetchUsage>("prefetcher caches", [
      { title: "PREFETCHER CACHE OF", numeric: true, text: (row) => `pid ${row.pid ?? "–"}` },
      { title: "MESH", numeric: true, text: (row) => String(row.mesh ?? "–") },
      { title: "USED", numeric: true, text: (row) => bytes(row.used_bytes) },
      { title: "OF", numeric: true, text: (row) => bytes(row.capacity_bytes) },
      { title: "ENTRIES", numeric: true, text: (row) => count(row.entries) },
      { title: "HITS", numeric: true, text: (row) => count(row.hits) },
      { title: "MISSES", numeric: true, text: (row) => count(row.misses) },
      { title: "EVICTED", numeric: true, text: (row) => count(row.evictions) },
    ]);
    this.ringPanel = h("div", { class: "stack" }, panel("Caches", this.counts, this.caches.element), panel("Config rings", this.rings.element, this.entries.element));
    this.element = h("div", { class: "view" }, this.toolbar.element, this.list, this.ringPanel);
  }

  needs(context: Context): Need[] {
    const programs: Need = { name: "programs", path: "/api/v1/programs", params: { limit: 10_000 }, every: 2000 };
    return page(context) === "programs" ? [programs] : [];
  }

  render(context: Context): void {
    const { snapshot, documents, params } = context;
    const device = chosenDevice(context);
    if (!snapshot || !device) return;
    this.now = context.now;
    const shown = page(context);
    this.toolbar.update(JSON.stringify([shown, device.id, snapshot.devices.map(deviceName)]), () => [
      choice("page", PAGES, shown, (value) => context.set({ params: { page: value } })),
      shown === "rings" ? devicePicker(context) : null,
    ]);
    this.list.hidden = shown !== "programs";
    this.ringPanel.hidden = shown !== "rings";
    if (shown === "rings") return this.drawRings(context);
    const rows = documents.get<ProgramRowPage>("programs");
    if (!rows) return;
    const sorted = sort(params["sort"]);
    const found = rows.rows.filter((row) => finds(params["find"], row.name, row.pid, row.program, ...(row.python ?? [])));
    const key = SORTS[sorted.column] ?? SORTS["runs"]!;
    const order = sorted.descending ? -1 : 1;
    found.sort((one, other) => (key(one) < key(other) ? -order : key(one) > key(other) ? order : 0));
    const registered = snapshot.devices.reduce((most, each) => Math.max(most, each.cb.registered_bytes), 0);
    const more = rows.next === null ? "" : " (the first 10000)";
    setText(titleOf(this.list), `${counted(found.length, "program")}${more}: cached programs hold CBs of ${bytes(registered)} on a device (not at the same time)`);
    this.table.update(rowsOf(found), sorted);
  }

  key(key: string, context: Context): boolean {
    if (key === "p") context.set({ params: { page: page(context) === "rings" ? "programs" : "rings" } });
    else if (key === "[" || key === "]") stepDevice(context, key === "]" ? 1 : -1);
    else return false;
    return true;
  }

  private sort(column: string): void {
    const { set, params } = this.context();
    const now = sort(params["sort"]);
    const descending = now.column === column ? !now.descending : column !== "name";
    set({ params: { sort: `${column}.${descending ? "down" : "up"}` } });
  }

  private drawRings(context: Context): void {
    const device = chosenDevice(context);
    if (!device) return;
    const { caches } = device;
    const rate = (hits: keyof CacheCounts, misses: keyof CacheCounts) => percent(permille(caches[hits] ?? 0, (caches[hits] ?? 0) + (caches[misses] ?? 0)));
    const facts = [
      counted(device.dispatches, "run"),
      `program cache ${rate("program_cache_hits", "program_cache_misses")} hits`,
      `JIT cache ${rate("jit_disk_hits", "jit_disk_misses")} hits`,
      `binaries reused ${count(caches.binary_reuses)}`,
      `prefetch hits ${count(caches.prefetch_hits)}`,
    ];
    setText(this.counts, facts.join(" · "));
    this.caches.update(device.prefetch, "no prefetcher cache is reported");
    this.rings.update(device.ring, "no config ring is reported");
    const entries = device.ring.flatMap((ring) => ring.entries.map((entry) => ({ ...entry, of: `pid ${ring.pid ?? "–"} ${ring.core_type}` })));
    this.entries.update(entries, "the rings are empty");
  }
}

function page(context: Context): "programs" | "rings" {
  return context.params["page"] === "rings" ? "rings" : "programs";
}

/** `runs.down`: by which column, and which way. */
export function sort(text: string | undefined, usual = "runs"): Sorted {
  const [column = usual, way = "down"] = (text ?? "").split(".");
  return { column: column === "" ? usual : column, descending: way !== "up" };
}
