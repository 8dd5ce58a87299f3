/** Is something wrong? One line while it matters: the rules of show/tui/src/views/problems.rs. */

import type { ClassUsage, Device, Explanation, GrowingGroup, HeldAtClose, Leaks, Process, Snapshot } from "./api";
import { bytes, counted, duration, ids, percent, permille, seconds } from "./format";
import { checked, free, headroom, incomplete, isGone, largestFit, NARROW_HEADROOM, NEARLY_FULL, processName, used } from "./figures";
import { calledFrom, shortLine } from "./text";
import { HIDDEN } from "./hidden";

export interface Problem {
  text: string;
  grave: boolean;
  /** The view that shows more. */
  key: string;
  device?: number;
}

export function problems(snapshot: Snapshot, failures: Explanation[], leaks: Leaks | null): Problem[] {
  const fresh = freshFailures(snapshot, failures);
  const { devices } = snapshot;
  return [
    ...failed(fresh.filter((each) => each.living)),
    ...devices.flatMap(full),
    ...devices.flatMap(fragmented),
    ...devices.flatMap(tight),
    ...(leaks?.growing ?? []).filter((each) => !each.departed).map(growing),
    ...snapshot.processes.flatMap(untrusted),
    ...devices.flatMap(unequal),
    ...grew(snapshot, leaks),
    ...failed(fresh.filter((each) => !each.living)),
  ];
}

interface Fresh {
  failure: Explanation;
  age: number;
  living: boolean;
}

const FRESH_SECONDS = 600;
const FRESH_SECONDS_OF_ENDED = 120;

function freshFailures(snapshot: Snapshot, failures: Explanation[]): Fresh[] {
  const now = seconds(snapshot.time);
  const isOf = (failure: Explanation) => (process: Process) =>
    (failure.pid === null ? process.pid === null && process.name === failure.process : process.pid === failure.pid) &&
    !isGone(process);
  return failures.flatMap((failure) => {
    const time = failure.last_time ?? failure.time;
    if (time === null) return [];
    const living = snapshot.processes.some(isOf(failure));
    const age = Math.floor(now - seconds(time));
    return age < (living ? FRESH_SECONDS : FRESH_SECONDS_OF_ENDED) ? [{ failure, age, living }] : [];
  });
}

function failed([first, ...others]: Fresh[]): Problem[] {
  if (!first) return [];
  const { failure, age, living } = first;
  const who = processName(failure.pid, failure.process ?? (failure.names_hidden ? HIDDEN : null)) + (living ? "" : " (ended)");
  const device = failure.device_ids?.length ? `, device ${ids(failure.device_ids)}` : "";
  const more = others.length > 0 ? ` (and ${counted(others.length, "failure")} before)` : "";
  return [{ text: `${who}${device}: ${failure.sentence} (${duration(age)} ago)${more}`, grave: true, key: "9" }];
}

function full(device: Device): Problem[] {
  const l1 = device.l1;
  const memories: [string, string, number, number | null][] = [
    ["DRAM", "charged", used(device.dram), device.dram.capacity_bytes],
    ["L1", "charged", used(l1), l1.capacity_bytes],
    ["L1", "occupied", l1.occupied_bytes ?? 0, l1.physical_bytes],
    ["L1_SMALL", "charged", used(device.l1_small), device.l1_small.capacity_bytes],
    ["TRACE", "charged", used(device.trace), device.trace.capacity_bytes],
  ];
  const beyond = memories.filter(([, , taken, whole]) => whole !== null && taken > whole);
  if (beyond.length > 0) {
    return beyond.map(([name, word, taken, whole]) => ({
      text: `device ${device.id}: ${name} ${word} ${bytes(taken)} of ${bytes(whole)}`,
      grave: true,
      key: "3",
      device: device.id,
    }));
  }
  const classes: [string, ClassUsage, string][] = [
    ["DRAM", device.dram, "6"],
    ["L1 buffers", l1, "4"],
    ["L1_SMALL", device.l1_small, "4"],
    ["TRACE", device.trace, "3"],
  ];
  const first = classes.find(([, memory]) => (permille(used(memory), memory.capacity_bytes) ?? 0) >= NEARLY_FULL);
  if (!first) return [];
  const [name, memory, key] = first;
  const taken = percent(permille(used(memory), memory.capacity_bytes));
  const text = `device ${device.id}: ${name} ${taken} full, ${bytes(free(memory) ?? 0)} free`;
  return [{ text, grave: true, key, device: device.id }];
}

function fragmented(device: Device): Problem[] {
  const classes: [string, ClassUsage][] = [
    ["DRAM", device.dram],
    ["L1 buffers", device.l1],
  ];
  for (const [name, memory] of classes) {
    const [left, capacity] = [free(memory), memory.capacity_bytes];
    const fit = largestFit(memory, left);
    if (left === null || fit === null || capacity === null) continue;
    if (left > capacity / 50 && fit < left / 4) {
      const text = `device ${device.id}: ${name} has ${bytes(left)} free, but the largest fit is ${bytes(fit)}`;
      return [{ text, grave: false, key: "4", device: device.id }];
    }
  }
  return [];
}

function tight(device: Device): Problem[] {
  const room = device.cb_headroom_bytes;
  if (room === null || room >= NARROW_HEADROOM) return [];
  const text =
    room < 0
      ? `device ${device.id}: CBs and an L1 buffer lie at one place, ${headroom(room)}`
      : `device ${device.id}: CB headroom is ${headroom(room)} on the tightest core`;
  return [{ text, grave: room < 0, key: "4", device: device.id }];
}

/** `+2.0 MiB per step since step 3, model.py:57`, as GrowingGroup::sentence says it. */
export function growth(group: GrowingGroup): string {
  const step = group.mark || "mark";
  const place = group.line ? shortLine(group.line) : (group.operation ?? "not known where");
  const marks = /^\p{Alphabetic}+$/u.test(step) ? `per ${step} since ${step} ${group.since}` : `from each mark "${step}" to the next, ${group.steps} times`;
  return `+${bytes(group.bytes_per_step)} ${marks}, ${place}${calledFrom(group.callers)}`;
}

function growing(each: GrowingGroup): Problem {
  const who = processName(each.pid, each.process);
  return { text: `${who} grows: ${growth(each)}`, grave: false, key: "8" };
}

/** Processes that grew until they closed their devices or ended: nobody frees that any more. */
function grew(snapshot: Snapshot, leaks: Leaks | null): Problem[] {
  const found = new Map<number | null, { first: HeldAtClose; size: number; lines: number }>();
  for (const group of leaks?.held_at_close ?? []) {
    const process = snapshot.processes.find((each) => each.pid === group.pid && isGone(each) === group.departed);
    const ended = process?.released?.time;
    const isOld = ended !== undefined && seconds(snapshot.time) - seconds(ended) >= FRESH_SECONDS_OF_ENDED;
    if (!group.growing || !process || isOld) continue;
    const known = found.get(group.pid) ?? { first: group, size: 0, lines: 0 };
    found.set(group.pid, { ...known, size: known.size + group.bytes, lines: known.lines + 1 });
  }
  return [...found.values()].map(({ first, size, lines }) => {
    const until = first.departed ? "it ended" : "its device was closed";
    const place = first.line ? shortLine(first.line) : (first.operation ?? "not known where");
    const others = lines > 1 ? ` and ${counted(lines - 1, "other line")}` : "";
    const text = `${processName(first.pid, first.process)} grew until ${until}: ${bytes(size)} held, ${place}${calledFrom(first.callers)}${others}`;
    return { text, grave: false, key: "8" };
  });
}

function untrusted(process: Process): Problem[] {
  const why = incomplete(process);
  if (why === null) return [];
  const who = processName(process.pid, process.name ?? (process.names_hidden ? HIDDEN : null));
  return [{ text: `tracking of ${who} is incomplete: ${why}`, grave: true, key: "2" }];
}

function unequal(device: Device): Problem[] {
  if (device.verified !== false) return [];
  return [{ text: `device ${device.id}: ${checked(false)}`, grave: true, key: "3", device: device.id }];
}
