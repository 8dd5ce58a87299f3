/** The documents of the read API, as far as the page uses them (docs/api.md). */

/** RFC 3339 in UTC. */
export type Time = string;
export type MemoryClass = "dram" | "l1" | "l1_small" | "trace" | "system";
export type PeakOf = MemoryClass | "cb" | "kernel";

export interface Snapshot {
  time: Time;
  host: string;
  server: Server;
  devices: Device[];
  processes: Process[];
  marks: Mark[];
  anomalies: Record<string, number>;
  errors: string[];
  failures: { count: number; newest: Time | null };
  /** What the machine says by itself; none in a recording, nor of older servers. */
  machine?: Machine | null;
}

export interface Server {
  version: string;
  started: Time;
  uptime_seconds: number;
  clients: number;
  events_applied: number;
}

export interface Mark {
  name: string;
  name_hidden?: boolean;
  number: number;
  time: Time;
}

export interface ClassUsage {
  capacity_bytes: number | null;
  banks: number | null;
  requested_bytes: number;
  charged_bytes: number;
  union_bytes: number | null;
  peak_bytes: number;
  peak_time: Time | null;
  buffers: number;
  largest_free_bytes_per_bank: number | null;
  physical_bytes: number | null;
  reserved_bytes: number | null;
  occupied_bytes: number | null;
}

export interface Device {
  id: number;
  unique_id: string | null;
  scope: string | null;
  arch: string | null;
  board: string | null;
  remote: boolean | null;
  source: string | null;
  verified: boolean | null;
  dram: ClassUsage;
  l1: ClassUsage;
  l1_small: ClassUsage;
  trace: ClassUsage;
  system: ClassUsage;
  cb: { registered_bytes: number; resident_bytes: number | null; count: number };
  kernel: { registered_bytes: number; resident_bytes: number | null; count: number };
  ring: ConfigRing[];
  prefetch: Prefetch[];
  caches: Record<string, number | null>;
  dispatches: number;
  trace_replays: number;
  cb_headroom_bytes: number | null;
  allocators: Allocator[];
  peaks_since_marks: PeakBytes[];
  regions: Setting[];
  names?: DeviceNames | null;
  telemetry?: Telemetry | null;
  upstream?: Upstream | null;
}

/** Names of a chip besides its number. */
export interface DeviceNames {
  node: string;
  pci_address: string | null;
  asic_id: string | null;
  board_serial: string | null;
  tray: string | null;
}

/** What the driver says of a chip. */
export interface Telemetry {
  ai_clock_mhz: number | null;
  temperature_millidegrees: number | null;
  power_microwatts: number | null;
  fan_rpm: number | null;
  link_speed: string | null;
  link_width: number | null;
  unread: Record<string, string>;
}

export interface UpstreamBytes {
  dram: number;
  l1: number;
  l1_small: number;
  trace: number;
  cb: number;
}

/** TT-Metal's own counters of a chip. */
export interface Upstream {
  id: string;
  error: string | null;
  not_attached: UpstreamBytes | null;
  left_behind: UpstreamBytes | null;
  difference_text: string | null;
  /** What of the counters cannot be. */
  doubts?: string[];
}

/** A process that has a device open, or that TT-Metal's counters know. */
export interface DeviceUser {
  pid: number | null;
  name: string | null;
  names_hidden: boolean;
  state: string;
  attached: boolean;
  devices: { id: number; upstream: UpstreamBytes | null }[];
}

export interface Machine {
  processes: DeviceUser[];
  /** Counters of chips that are none of the devices. */
  unmatched: Upstream[];
  errors: string[];
}

export interface PeakBytes {
  dram: number;
  l1: number;
  l1_small: number;
  trace: number;
}

export interface Allocator {
  pid: number | null;
  mesh: number | null;
  class: MemoryClass;
  charged_bytes: number;
  capacity_bytes: number | null;
  banks: number | null;
  largest_free_bytes_per_bank: number | null;
  buffers: number;
  verified: boolean | null;
}

export interface ConfigRing {
  pid: number | null;
  mesh: number | null;
  core_type: string;
  capacity_bytes: number | null;
  used_bytes: number;
  entry_count: number;
  entries: { program: number | null; address: number; size_bytes: number }[];
  wraps: number;
  evictions: number;
  stalls: number;
  reserves: number;
}

export interface Prefetch {
  pid: number | null;
  mesh: number | null;
  capacity_bytes: number | null;
  used_bytes: number;
  entries: number;
  hits: number;
  misses: number;
  evictions: number;
}

export interface Process {
  pid: number | null;
  instance: string | null;
  name: string | null;
  names_hidden: boolean;
  start_time: Time | null;
  state: string;
  source: string;
  incomplete: boolean;
  incomplete_reasons: { reason: string; count: number; detail: string | null }[];
  /** Of where it runs, as it says; servers of the first version send none. */
  labels?: Record<string, string>;
  anomalies: number;
  devices: ProcessDevice[];
  released: Released | null;
  host: { command: string | null; user: string | null; parent: number | null; rss_bytes: number | null } | null;
}

export interface ProcessDevice {
  id: number;
  dram_bytes: number;
  l1_bytes: number;
  l1_small_bytes: number;
  trace_bytes: number;
  buffers: number;
  peak: PeakBytes | null;
}

export interface Released {
  buffers: number;
  bytes: number;
  buffer_bytes: number;
  time: Time;
  reason: string;
}

export interface Setting {
  name: string;
  value: number;
  bytes_per_bank: number | null;
  given: number | null;
  is_smallest: boolean;
}

export interface Page<R> {
  rows: R[];
  next: string | null;
  matched: number | null;
  matched_bytes: number | null;
  /** Of a report: rows that it does not have, smaller than those that it has. */
  left_out?: number;
}

export interface BufferRow {
  pid: number | null;
  device_ids: number[];
  class: MemoryClass;
  id: string;
  address: number | null;
  requested_bytes: number;
  charged_bytes: number;
  per_bank_bytes: number | null;
  banks: number | null;
  layout: string | null;
  time: Time | null;
  operation: string | null;
  python: string[] | null;
}

export interface BufferGroups {
  time: Time;
  by: string;
  groups: BufferGroup[];
  left_out: number;
  buffers: number;
  charged_bytes: number;
}

export interface BufferGroup {
  key: string | null;
  /** With `by=stack`: the frames, the outermost first. */
  stack?: string[] | null;
  buffers: number;
  charged_bytes: number;
  requested_bytes: number;
  oldest: Time | null;
  newest: Time | null;
}

export interface ProgramRow {
  pid: number | null;
  program: number | null;
  name: string | null;
  python: string[] | null;
  kind: string | null;
  cores: number | null;
  text_bytes: number | null;
  config_bytes: number | null;
  cb_bytes: number;
  kernel_bytes: number;
  kernels: number;
  dispatches: number;
  last_run: Time | null;
  devices: { id: number; binary: string; program_cache_hits: number; resident_cores: number }[];
}

export interface L1Map {
  time: Time;
  device: number;
  columns: number | null;
  rows: number | null;
  bytes_per_core: number | null;
  cores: L1Core[];
  residents: { pid: number | null; program: number | null; name: string | null; time: Time | null; cores: number }[];
  core: { x: number; y: number; segments: Segment[]; gap_bytes: number | null } | null;
}

export interface L1Core {
  x: number;
  y: number;
  occupied_bytes: number | null;
  cb_bytes: number;
  cb_end: number | null;
  lowest_buffer: number | null;
  resident: number | null;
}

export interface Segment {
  address: number;
  size_bytes: number;
  kind: string;
  pid: number | null;
  owner: string | null;
  line: string | null;
  time: Time | null;
  more: number;
}

export interface Block {
  address: number;
  size_bytes: number;
  class: MemoryClass;
  pid: number | null;
  buffer: string;
  operation: string | null;
  line: string | null;
  time: Time | null;
}

export interface BlockMap {
  time: Time;
  banks: number | null;
  base: number | null;
  per_bank_bytes: number | null;
  cells: number[];
  largest: Block[];
  free: { address: number; size_bytes: number }[];
  free_count: number;
  free_bytes: number | null;
}

export interface Leaks {
  time: Time;
  growing: GrowingGroup[];
  held_at_close: (LeakGroup & { growing: boolean })[];
  left_out: number;
}

export interface LeakGroup {
  pid: number | null;
  process: string | null;
  departed: boolean;
  line: string | null;
  callers: string[];
  operation: string | null;
  class: MemoryClass | null;
  buffers: number;
  bytes: number;
}

export interface GrowingGroup extends LeakGroup {
  mark: string | null;
  since: number;
  steps: number;
  bytes_per_step: number;
}

export interface PeakContents {
  peak_bytes: number;
  peak_time: Time | null;
  groups: {
    pid: number | null;
    departed: boolean;
    name: string | null;
    line: string | null;
    callers: string[];
    count: number;
    bytes: number;
  }[];
}

export interface Failures {
  failures: Explanation[];
  omitted: number;
}

export interface Explanation {
  verdict: string;
  sentence: string;
  time: Time | null;
  last_time: Time | null;
  times: number;
  device_ids: number[] | null;
  pid: number | null;
  process: string | null;
  /** Servers of the first version do not say it. */
  names_hidden?: boolean;
  operation: string | null;
  python: string | null;
  request: FailedRequest | null;
  clash: Clash | null;
  holders: HolderGroup[] | null;
  release?: { unless?: string } | null;
  map: MapRow[] | null;
  setting: Setting | null;
  unknown: string[];
  advice: string[];
}

export interface FailedRequest {
  class: MemoryClass | null;
  requested_bytes: number | null;
  banks: number | null;
  need_bytes_per_bank: number | null;
  bank_bytes: number | null;
  allocated_bytes_per_bank: number | null;
  free_bytes_per_bank: number | null;
  largest_free_bytes_per_bank: number | null;
}

export interface Clash {
  storage_start: number | null;
  storage_end: number;
  limit: number;
  overlap_bytes: number;
  in_the_way: { block: { address: number; size_bytes: number; owner: BlockOwner }; overlap_bytes: number }[] | null;
}

export interface BlockOwner {
  pid: number | null;
  process: string | null;
  python: string | null;
  operation: string | null;
  since: Time | null;
  of_call?: boolean;
}

export interface HolderGroup {
  owner: BlockOwner;
  buffers: number;
  bytes_per_bank: number;
}

export interface MapRow {
  address: number;
  size_bytes: number;
  owner: BlockOwner | null;
  in_release: boolean;
  stands_for: number;
}

export interface History {
  time: Time;
  step_seconds: number;
  times: Time[];
  devices: DeviceHistory[];
}

export interface DeviceHistory {
  id: number;
  unique_id: string | null;
  dram_bytes: (number | null)[];
  l1_bytes: (number | null)[];
  l1_small_bytes: (number | null)[];
  trace_bytes: (number | null)[];
  occupied_bytes: (number | null)[];
  /** Of a bank. */
  dram_largest_free_bytes: (number | null)[];
  l1_largest_free_bytes: (number | null)[];
  dispatches: (number | null)[];
}

export interface StreamEvent {
  type: string;
  /** Of `hello`: when the server started. */
  started?: Time;
  id?: number;
  time?: Time;
  pid?: number | null;
  process?: string | null;
  recovered?: boolean;
  event?: string;
  fields?: Record<string, unknown>;
}

/** What a server or a file keeps of the past. */
export interface Recording {
  source: "live" | "file";
  from: Time;
  to: Time;
  events: number;
  missing_events: number;
  damage: string | null;
  redacted: boolean;
  marks: Mark[];
  failures: { time: Time; kind: "refused" | "clashed"; pid: number | null; device_ids: number[] }[];
  peaks: { time: Time; device: number; unique_id: string | null; of: PeakOf; bytes: number }[];
  left_out: number;
}

export interface Timeline {
  from: Time;
  to: Time;
  device: number;
  class: MemoryClass;
  by: string;
  capacity_bytes: number | null;
  /** The edges of the steps: one more than there are values. */
  times: Time[];
  series: { key: string | null; values: number[] }[];
  other: number[];
  total_max: number[];
  dispatches: number[];
  /** Events that were not looked at: the steps are fewer, and totals may have been higher. */
  unseen_events: number;
}

export interface Allocations {
  from: Time;
  to: Time;
  rectangles: Rectangle[];
  left_out: number;
  unseen_events: number;
}

export interface Rectangle {
  address: number;
  per_bank_bytes: number;
  from: Time;
  to: Time | null;
  id: string;
  pid: number | null;
  operation: string | null;
  line: string | null;
}
