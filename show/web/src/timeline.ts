/** The timeline of a class of a device: from the server's recording, or else from its samples. */

import type { Device, DeviceHistory, History, RecordedPeak, Timeline } from "./api";
import type { Layer, Moment, Stack } from "./charts/stack";
import { KIND_LABEL, type Palette } from "./colours";
import type { Need } from "./documents";
import { deviceKey, filledL1, type DeviceClass } from "./figures";
import { count, seconds } from "./format";
import { markName } from "./hidden";
import { groupLabel, sumOf } from "./parts";
import type { Context } from "./view";

export const HISTORY_OF: Record<DeviceClass, "dram_bytes" | "l1_bytes" | "l1_small_bytes" | "trace_bytes"> = {
  dram: "dram_bytes",
  l1: "l1_bytes",
  l1_small: "l1_small_bytes",
  trace: "trace_bytes",
};

/** Windows that can be chosen, in seconds; 0 is all there is. */
export const WINDOWS = [
  ["60", "1 min"],
  ["600", "10 min"],
  ["7200", "2 h"],
  ["86400", "24 h"],
  ["0", "all"],
] as const;

export function ofTimeline(timeline: Timeline, by: string, palette: Palette, context: Context): Stack {
  const layers = timeline.series.map((series) => {
    const place = palette.place(series.key);
    const name = series.key === null ? "series-none" : `series-${place}`;
    return { label: groupLabel(by, series.key), colour: name, values: series.values };
  });
  if (timeline.other.some((value) => value > 0)) {
    layers.push({ label: "others", colour: "series-other", values: timeline.other });
  }
  const times = timeline.times.map(seconds);
  return { times, layers, capacity: timeline.capacity_bytes, moments: moments(context), at: cursor(context), summary: "" };
}

/** One curve of samples. */
export function ofHistory(history: History, device: Device, kind: DeviceClass, window: number, context: Context): Stack {
  const all: (number | null)[] = historyOf(history, device)?.[HISTORY_OF[kind]] ?? [];
  const first = firstWorthShowing(history, all, window);
  const layers = [{ label: "total", colour: kind, values: all.slice(first) }];
  return { times: edgesOf(history, first), layers, capacity: device[kind].capacity_bytes, moments: moments(context), at: cursor(context), summary: "" };
}

function historyOf(history: History, device: Device): DeviceHistory | undefined {
  return history.devices.find((each) => deviceKey(each) === deviceKey(device));
}

/** The edges of the steps from one on. The ends are given; of a recording they may be nearer to each other than a second. */
export function edgesOf(history: History, first: number): number[] {
  const times = history.times.slice(first).map(seconds);
  const [one, next] = times;
  if (one === undefined) return [];
  return [one - (next === undefined ? history.step_seconds : next - one), ...times];
}

/** Totals over time: of a recording in as many steps as are worth drawing, since it may be over within a second. */
export function historyNeed({ recording }: Context, window: number): Need {
  const longest = recording === undefined ? 86_400 : Math.max(1, Math.ceil(seconds(recording.to) - seconds(recording.from)));
  const params = { seconds: Math.min(window || 86_400, longest, 86_400), points: 300 };
  return { name: "history", path: "/api/v1/history", params, every: 2000, timeless: true };
}

/** What was last known where nothing is: where everything lay is not worked out for every step. */
export function lastKnown(values: (number | null)[]): (number | null)[] {
  let last: number | null = null;
  return values.map((value) => (last = value ?? last));
}

/** A series of some devices, added up; null where it is known of none. */
export function sumOver(history: History, devices: DeviceHistory[], of: (device: DeviceHistory) => (number | null)[]): (number | null)[] {
  const series = devices.map(of);
  return history.times.map((_, step) =>
    series.reduce<number | null>((total, values) => {
      const value = values[step] ?? null;
      return value === null ? total : (total ?? 0) + value;
    }, null),
  );
}

/** What occupies the L1 of all devices over time, in all and by what it is, as the bars have it. */
export function l1OverTime(history: History, devices: Device[]): [occupied: (number | null)[], layers: Layer[]] {
  // What nobody opened is in no figure beside: what is reserved there is known of nobody's L1.
  const known = new Set(devices.filter((device) => device.l1.occupied_bytes !== null).map(deviceKey));
  const opened = history.devices.filter((device) => known.has(deviceKey(device)));
  const occupied = sumOver(history, opened, (device) => lastKnown(device.occupied_bytes));
  const reserved = sumOf(devices, filledL1).parts.find(([kind]) => kind === "reserved")?.[1] ?? 0;
  const [buffers, small] = [sumOver(history, history.devices, (device) => device.l1_bytes), sumOver(history, history.devices, (device) => device.l1_small_bytes)];
  const parts = occupied.map((whole, step) => {
    let left = whole ?? 0;
    const take = (wanted: number) => {
      const part = Math.min(wanted, left);
      left -= part;
      return part;
    };
    const [below, large, little] = [take(reserved), take(buffers[step] ?? 0), take(small[step] ?? 0)];
    // What is left of what is occupied belongs to programs.
    return whole === null ? [null, null, null, null] : [below, left, large, little];
  });
  const kinds = ["reserved", "cb", "l1", "l1_small"] as const;
  return [occupied, kinds.map((kind, place): Layer => ({ label: KIND_LABEL[kind], colour: kind, values: parts.map((each) => each[place] ?? null) }))];
}

const LARGEST_FREE_OF = { dram: "dram_largest_free_bytes", l1: "l1_largest_free_bytes" } as const;

/** What is free over time: what one request could have, and what is in other pieces. Only DRAM and L1 have it. */
export function ofFree(history: History, device: Device, kind: DeviceClass, [from, to]: [number, number], context: Context): Stack | undefined {
  const { capacity_bytes: capacity, banks } = device[kind];
  const one = historyOf(history, device);
  if (!one || capacity === null || banks === null || (kind !== "dram" && kind !== "l1")) return undefined;
  const perBank = lastKnown(one[LARGEST_FREE_OF[kind]]);
  const fits = one[HISTORY_OF[kind]].map((taken, step): [number | null, number | null] => {
    const largest = perBank[step] ?? null;
    if (taken === null || largest === null) return [null, null];
    const free = Math.max(0, capacity - taken);
    const fit = Math.min(largest * banks, free);
    return [fit, free - fit];
  });
  const ends = history.times.map(seconds);
  const first = ends.findIndex((end) => end > from);
  // The step that reaches beyond the window is the last.
  const beyond = ends.findIndex((end) => end >= to);
  const last = beyond < 0 ? ends.length - 1 : beyond;
  const edges = edgesOf(history, Math.max(0, first)).slice(0, last - first + 2);
  if (first < 0 || last < first || (edges[0] as number) >= to) return undefined;
  const part = (place: 0 | 1) => fits.slice(first, last + 1).map((each) => each[place]);
  const layers = [
    { label: "largest fit", colour: "good", values: part(0) },
    { label: "free in other pieces", colour: "warning", values: part(1) },
  ];
  return { times: edges, layers, capacity, moments: moments(context), at: cursor(context), summary: "" };
}

/** A graph's window fits the age of what it shows: it begins where there was something. */
export function firstWorthShowing(history: History, values: (number | null)[], window: number): number {
  const start = window === 0 ? -Infinity : seconds(history.time) - window;
  const inWindow = history.times.findIndex((time) => seconds(time) > start);
  const withSomething = values.findIndex((value) => (value ?? 0) > 0);
  return Math.max(0, inWindow < 0 ? 0 : inWindow, withSomething < 0 ? 0 : withSomething - 1);
}

/** Peaks of the class that is looked at, the highest first: that of the device which is looked at, if one is. */
export function peaksOf({ params, recording }: Context): RecordedPeak[] {
  const { class: wanted = "dram", device } = params;
  const here = (peak: RecordedPeak) => Number(String(peak.device) === device || peak.unique_id === device);
  const ofClass = (recording?.peaks ?? []).filter((peak) => peak.of === wanted);
  return ofClass.sort((one, other) => here(other) - here(one) || other.bytes - one.bytes || one.device - other.device);
}

/** What is said where a window has more events than are played for one picture. */
export function lookedAtInParts(picture: { unseen_events: number } | undefined): string | null {
  const unseen = picture?.unseen_events ?? 0;
  return unseen > 0 ? `Looked at in parts: ${count(unseen)} events of this window were not played, so short-lived memory may be missing. A shorter window has all of it.` : null;
}

export function cursor(context: Context): number | null {
  const at = context.params["at"];
  return at === undefined ? null : seconds(at);
}

/** What is said while a picture of a long recording is on its way. */
export const READING = "The recording is being read: that takes some seconds where it is long.";

/** What is drawn as upright lines: marks, and what failed. */
export function moments(context: Context): Moment[] {
  const { recording, snapshot } = context;
  const marks = (recording?.marks ?? snapshot?.marks ?? []).map(
    (mark): Moment => ({ time: seconds(mark.time), label: markName(mark, `mark ${mark.number}`), kind: "mark" }),
  );
  const explained = context.documents.get<{ failures: { time: string | null; verdict: string }[] }>("failures")?.failures ?? [];
  const failures = recording?.failures.map(({ time, kind }) => ({ time, verdict: kind })) ?? explained;
  const failed = failures.flatMap(({ time, verdict }): Moment[] =>
    time === null ? [] : [{ time: seconds(time), label: verdict.replaceAll("_", " "), kind: "failure" }],
  );
  return [...marks.slice(-100), ...failed.slice(-100)].sort((one, other) => one.time - other.time);
}
