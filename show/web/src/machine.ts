/** What the machine says by itself, in the words of every screen: the driver's values and TT-Metal's counters. */

import type { Device, DeviceUser, Machine, ProcessDevice, Telemetry, UpstreamBytes } from "./api";
import { filled, filledL1, type Filled } from "./figures";
import { bytes } from "./format";
import type { ProcessRow } from "./processrow";

export const FROM_COUNTERS = "from TT-Metal's counters";

const NOT_ATTACHED = "not attached";

/** Temperature, power and clock, as far as the driver says them. */
export function sensors(telemetry: Telemetry | null): string[] {
  if (!telemetry) return [];
  const { temperature_millidegrees: heat, power_microwatts: power, ai_clock_mhz: clock } = telemetry;
  const known = [
    heat === null ? null : `${(heat / 1000).toFixed(1)} °C`,
    power === null ? null : `${(power / 1e6).toFixed(1)} W`,
    clock === null ? null : `${clock} MHz`,
  ];
  return known.filter((value) => value !== null);
}

/** All names of a device beside its number. */
export function namesOf(device: Device): string[] {
  const { names } = device;
  const known = [
    device.unique_id === null ? null : `chip ${device.unique_id}`,
    names?.node ?? null,
    names?.pci_address ?? null,
    names?.asic_id && names.asic_id !== device.unique_id ? `ASIC ${names.asic_id}` : null,
    names?.board_serial ? `board ${names.board_serial}` : null,
    names?.tray ?? null,
  ];
  return known.filter((name) => name !== null);
}

function counted(sizes: UpstreamBytes): string {
  const classes: [string, number][] = [["DRAM", sizes.dram], ["L1", sizes.l1], ["L1_SMALL", sizes.l1_small], ["TRACE", sizes.trace], ["CBs", sizes.cb]];
  return classes.filter(([, size]) => size > 0).map(([name, size]) => `${name} ${bytes(size)}`).join(", ");
}

const total = (sizes: UpstreamBytes): number => sizes.dram + sizes.l1 + sizes.l1_small + sizes.trace + sizes.cb;

/** What TT-Metal's counters have of processes that are not attached: in no other figure of a device. */
export function countedApart(device: Device): UpstreamBytes | null {
  const sizes = device.upstream?.not_attached ?? null;
  return sizes !== null && total(sizes) > 0 ? sizes : null;
}

/** The same where nothing that is attached has anything: then bars are made of it. */
function countedAlone(device: Device): UpstreamBytes | null {
  return heldBytes(device) === 0 ? countedApart(device) : null;
}

/** What attached processes have on a device. */
function heldBytes(device: Device): number {
  const classes = [device.dram, device.l1, device.l1_small, device.trace, device.system];
  const charged = classes.reduce((sum, memory) => sum + memory.charged_bytes, 0);
  return charged + device.cb.registered_bytes + device.kernel.registered_bytes;
}

/** DRAM and L1 of a device as its bars have them, and whose figures they are if not those of attached processes. */
export function barsOf(device: Device, machine?: Machine | null): { dram: Filled; l1: Filled; remark: string | null; isKnown: boolean } {
  const sizes = countedAlone(device);
  if (!sizes) {
    const isOpen = heldBytes(device) === 0 && notAttached(machine).some((process) => !hasSizes(process) && process.devices.some(({ id }) => id === device.id));
    const remark = isOpen ? "in use by what is not attached: what it holds is not known" : null;
    return { dram: filled("dram", device.dram), l1: filledL1(device), remark, isKnown: !isOpen };
  }
  const bar = (kind: "dram" | "l1", size: number): Filled => ({ ...filled(kind, device[kind]), parts: [[kind, size]], used: size, peak: null });
  return { dram: bar("dram", sizes.dram), l1: bar("l1", sizes.l1), remark: `${FROM_COUNTERS}, as requested`, isKnown: true };
}

/** Whether a process ever reported the device: of one that the machine alone knows nothing is kept over time. */
export function isReported(device: Device): boolean {
  return device.source !== null || !device.names;
}

/** Whether the sizes of a process are known; of one that is not attached, whether TT-Metal counts it. */
export function hasSizes(process: ProcessRow): boolean {
  return process.state !== "not_attached" || process.source === "shm";
}

/** What is known of a process that is not attached; null of others. */
export function remarkOf(process: ProcessRow): string | null {
  if (process.state !== "not_attached") return null;
  if (hasSizes(process)) return `${NOT_ATTACHED}: sizes ${FROM_COUNTERS}, as requested`;
  if (process.devices.length === 0) return `${NOT_ATTACHED}: it uses a chip that is none of the devices here`;
  return `${NOT_ATTACHED}: it has a device open, what it holds is not known`;
}

/** Counters of chips that are none of the devices here, if processes that run have something on them. */
export function elsewhere(machine: Machine | null): string | null {
  const held = (machine?.unmatched ?? []).map(({ id, not_attached: sizes }) => [id, sizes ? total(sizes) : 0] as const).filter(([, size]) => size > 0);
  const [first] = held;
  if (!first) return null;
  const sum = bytes(held.reduce((all, [, size]) => all + size, 0));
  return `TT-Metal counts ${sum} on ${held.length === 1 ? `another chip (${first[0]})` : `${held.length} other chips`}`;
}

/** What is in no map and no figure of a device, because its processes are not attached. */
export function besides(device: Device): string | null {
  const sizes = countedApart(device);
  return sizes && `Besides, not attached: ${counted(sizes)} (${FROM_COUNTERS}).`;
}

/** What TT-Metal's counters know beyond what attached processes report, a sentence each. */
export function upstream(device: Device): string[] {
  const found = device.upstream;
  if (!found) return [];
  if (found.error !== null) return [`TT-Metal's counters: ${found.error}`];
  const [open, left] = [found.not_attached, found.left_behind].map((sizes) => (sizes ? counted(sizes) : ""));
  const sentences = [
    open ? `${NOT_ATTACHED}: ${open} (${FROM_COUNTERS})` : null,
    left ? `left in TT-Metal's counters by dead processes: ${left}` : null,
    found.difference_text,
    ...found.doubts.map((doubt) => `TT-Metal's counters: ${doubt}`),
  ];
  return sentences.filter((sentence) => sentence !== null);
}

/** Processes that have devices without reporting, for lists of processes: their sizes are TT-Metal's. */
export function notAttached(machine: Machine | null | undefined): ProcessRow[] {
  const isMeant = (user: DeviceUser) => !user.attached && (user.state === "alive" || user.state === "unknown");
  return (machine?.processes ?? []).filter(isMeant).map(asProcess);
}

function asProcess(user: DeviceUser): ProcessRow {
  const devices = user.devices.map(({ id, unique_id, scope, upstream: sizes }): ProcessDevice => ({
    id,
    unique_id,
    scope,
    dram_bytes: sizes?.dram ?? 0,
    l1_bytes: sizes?.l1 ?? 0,
    l1_small_bytes: sizes?.l1_small ?? 0,
    trace_bytes: sizes?.trace ?? 0,
    system_bytes: 0,
    cb_bytes: sizes?.cb ?? 0,
    kernel_bytes: 0,
    buffers: 0,
    peak: null,
  }));
  // Without counters nothing is known but that it has a device.
  const source = user.devices.some((device) => device.upstream !== null) ? "shm" : null;
  return {
    pid: user.pid, instance: null, name: user.name, names_hidden: user.names_hidden, uid: user.uid, start_time: null, state: "not_attached", source,
    incomplete: false, incomplete_reasons: [], resyncing: false, lost_events: 0, elided_events: 0, claimed_pid: null, labels: {}, anomalies: 0, inherited_frees: 0,
    leak_candidates: { buffers: 0, bytes: 0 }, connections: 0, devices, released: null, host: null,
  };
}
