/** What the machine says by itself, in the words of every screen: the driver's values and TT-Metal's counters. */

import type { Device, DeviceUser, Machine, Process, Telemetry, UpstreamBytes } from "./api";
import { bytes } from "./format";

const FROM_COUNTERS = "from TT-Metal's counters";

/** Temperature, power and clock, as far as the driver says them. */
export function sensors(telemetry: Telemetry | null | undefined): string[] {
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

/** What TT-Metal's counters know beyond what attached processes report, a sentence each. */
export function upstream(device: Device): string[] {
  const found = device.upstream;
  if (!found) return [];
  if (found.error !== null) return [`TT-Metal's counters: ${found.error}`];
  const [open, left] = [found.not_attached, found.left_behind].map((sizes) => (sizes ? counted(sizes) : ""));
  const sentences = [
    open ? `not attached: ${open} (${FROM_COUNTERS})` : null,
    left ? `left in TT-Metal's counters by dead processes: ${left}` : null,
    found.difference_text,
  ];
  return sentences.filter((sentence) => sentence !== null);
}

/** Processes that have devices without reporting, for lists of processes: their sizes are TT-Metal's. */
export function notAttached(machine: Machine | null | undefined): Process[] {
  const isMeant = (user: DeviceUser) => !user.attached && (user.state === "alive" || user.state === "unknown");
  return (machine?.processes ?? []).filter(isMeant).map(asProcess);
}

function asProcess(user: DeviceUser): Process {
  const devices = user.devices.map(({ id, upstream: sizes }) => ({
    id,
    dram_bytes: sizes?.dram ?? 0,
    l1_bytes: sizes?.l1 ?? 0,
    l1_small_bytes: sizes?.l1_small ?? 0,
    trace_bytes: sizes?.trace ?? 0,
    buffers: 0,
    peak: null,
  }));
  return {
    pid: user.pid, instance: null, name: user.name, names_hidden: user.names_hidden, start_time: null, state: "not attached", source: "shm",
    incomplete: false, incomplete_reasons: [], anomalies: 0, devices, released: null, host: null,
  };
}
