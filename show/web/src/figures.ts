/** Figures that follow from others of one document; the definitions are those of report/report/src/device.rs. */

import type { ClassUsage, Device, MemoryClass, ProcessDevice, Setting, Snapshot } from "./api";
import type { Kind } from "./colours";
import { bytes, duration, percent, permille } from "./format";
import type { ProcessRow } from "./processrow";
import rules from "./rules.json";

export const NARROW_HEADROOM = 16 * 1024;

export const CLASSES = ["dram", "l1", "l1_small", "trace"] as const satisfies readonly MemoryClass[];
export type DeviceClass = (typeof CLASSES)[number];

type Banked = { largest_free_bytes_per_bank: number | null; banks: number | null };

export function used(memory: ClassUsage): number {
  return memory.union_bytes ?? memory.charged_bytes;
}

export function free(memory: ClassUsage): number | null {
  return memory.capacity_bytes === null ? null : Math.max(0, memory.capacity_bytes - used(memory));
}

/** The largest interleaved request that would be granted now. */
export function largestFit(memory: Banked, freeBytes: number | null): number | null {
  if (memory.largest_free_bytes_per_bank === null || memory.banks === null) return null;
  return Math.min(memory.largest_free_bytes_per_bank * memory.banks, freeBytes ?? Infinity);
}

export function largestFitText(memory: Banked, freeBytes: number | null): string | null {
  const fit = largestFit(memory, freeBytes);
  if (fit === null) return null;
  const banks = memory.banks ?? 1;
  return banks === 1 ? bytes(fit) : `${bytes(fit)} (${bytes(memory.largest_free_bytes_per_bank)} × ${banks} banks)`;
}

/** 1 − largest fit / free. */
export function fragmented(memory: Banked, freeBytes: number | null): number | null {
  const fit = largestFit(memory, freeBytes);
  if (fit === null || freeBytes === null) return null;
  return freeBytes === 0 ? 0 : 1000 - Math.min(1000, Math.floor((fit * 1000) / freeBytes));
}

export interface Filled {
  parts: [Kind, number][];
  used: number;
  whole: number | null;
  /** What the ledger keeps; not of L1 as a whole. */
  peak: number | null;
}

export function filled(kind: Kind, memory: ClassUsage): Filled {
  return { parts: [[kind, used(memory)]], used: used(memory), whole: memory.capacity_bytes, peak: memory.peak_bytes };
}

/** L1 by what occupies it; where that is not known, the buffers that allocators gave out. */
export function filledL1(device: Device): Filled {
  const { occupied_bytes: occupied, physical_bytes: physical } = device.l1;
  if (occupied === null || physical === null) return filled("l1", device.l1);
  let left = occupied;
  const take = (wanted: number) => {
    const part = Math.min(wanted, left);
    left -= part;
    return part;
  };
  const reserved = take(device.l1.reserved_bytes ?? 0);
  const buffers = take(used(device.l1));
  const small = take(used(device.l1_small));
  const parts: [Kind, number][] = [
    ["reserved", reserved],
    ["cb", left],
    ["l1", buffers],
    ["l1_small", small],
  ];
  return { parts, used: occupied, whole: physical, peak: null };
}

export function share(memory: Filled): number | null {
  return permille(memory.used, memory.whole);
}

/** What is said where allocators that know nothing of each other gave out one memory twice; null where there is room for all. */
export function overlap(device: Device, kind: "dram" | "l1"): string | null {
  const memory = kind === "dram" ? filled("dram", device.dram) : filledL1(device);
  if (memory.whole === null || memory.used <= memory.whole) return null;
  const allocators = device.allocators.filter((each) => each.class === kind && each.charged_bytes > 0).length;
  return allocators > 1 ? `more than the device has: ${allocators} allocators overlap` : "more than the device has";
}

export function headroom(value: number): string {
  return value < 0 ? `overlap of ${bytes(-value)}` : bytes(value);
}

export function checked(verified: boolean | null): string {
  if (verified === null) return "not checked against the allocator";
  return verified ? "equal to the allocator" : "DIFFERS from the allocator";
}

/** Reasons in words, of one and of several. */
const REASONS: Record<string, string[]> = rules.incomplete;

/** Why the figures of a process cannot be trusted; null if they can. */
export function incomplete(process: ProcessRow): string | null {
  if (!process.incomplete) return null;
  const reasons = process.incomplete_reasons.map(({ reason, count, detail }) => {
    const words = REASONS[reason];
    return words ? `${count} ${count === 1 ? words[0] : words[1]}` : (detail ?? `${reason} (${count})`);
  });
  return reasons.length > 0 ? reasons.join(", ") : "for an unknown reason";
}

export function isGone(process: ProcessRow): boolean {
  return process.state === "exited";
}

export function processName(pid: number | null, name: string | null): string {
  return `pid ${pid ?? "?"} ${name ?? ""}`.trimEnd();
}

/** The state of a process in words: how it ended, and what it held then. */
export function stateOf(process: ProcessRow): string {
  const released = process.released;
  if (!released) return process.state.replace("_", " ");
  const how = { goodbye: "exited", replaced: "replaced by another program", forgotten: "forgotten on request" };
  const word = how[released.reason as keyof typeof how] ?? released.reason;
  const parts = [];
  if (released.buffers > 0) {
    parts.push(`${released.buffers} ${released.buffers === 1 ? "buffer" : "buffers"}: ${bytes(released.buffer_bytes)}`);
  }
  if (released.bytes > released.buffer_bytes) parts.push(`programs of ${bytes(released.bytes - released.buffer_bytes)}`);
  return parts.length === 0 ? `${word}, nothing held` : `${word}, held at exit ${parts.join(" and ")}`;
}

/** Puts devices in the order of their numbers: a mesh has one of its own. */
export function inOrder(snapshot: Snapshot): void {
  for (const { devices } of [snapshot, ...snapshot.processes]) devices.sort((one: { id: number }, other: { id: number }) => one.id - other.id);
}

/** The device on which a process holds most DRAM. */
export function fullest(process: ProcessRow): ProcessDevice | undefined {
  const most = (one: ProcessDevice) => [one.dram_bytes, one.peak?.dram ?? 0] as const;
  return [...process.devices].sort((one, other) => {
    const [a, b] = [most(one), most(other)];
    return b[0] - a[0] || b[1] - a[1];
  })[0];
}

/** A region's size that would have done, as it is typed. */
export function region(setting: Setting): string {
  const typed = `${setting.name}=${setting.value}`;
  const ofBank = setting.name === "l1_small_size" ? " per bank" : "";
  const unused = setting.given === null ? 0 : setting.given - setting.value;
  if (unused <= 0) return `${typed} (${bytes(setting.value)}${ofBank})`;
  if (setting.value === 0) return `${typed} (${bytes(unused)}${ofBank} given, never used)`;
  return `${typed} (${bytes(setting.value)}${ofBank}, ${bytes(unused)} never used)`;
}

export function deviceName(device: Device): string {
  return `${device.id}${device.remote ? "R" : ""} ${device.board ?? device.arch ?? ""}`.trimEnd();
}

/** How a device is asked for: by its own id where it has one, since logical ids may be ambiguous. */
export function deviceKey(device: Pick<Device, "id" | "unique_id">): string {
  return device.unique_id ?? String(device.id);
}

export { duration, percent };
