/** The timeline of a class of a device: from the server's recording, or else from its samples. */

import type { Device, History, Recording, Timeline } from "./api";
import type { Moment, Stack } from "./charts/stack";
import type { Palette } from "./colours";
import type { DeviceClass } from "./figures";
import { count, seconds } from "./format";
import { groupLabel } from "./parts";
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
  const one = history.devices.find((each) => (each.unique_id ?? each.id) === (device.unique_id ?? device.id));
  const all: (number | null)[] = one?.[HISTORY_OF[kind]] ?? [];
  const first = firstWorthShowing(history, all, window);
  const times = history.times.slice(first).map((time) => seconds(time));
  const edges = times.length > 0 ? [(times[0] as number) - history.step_seconds, ...times] : [];
  const layers = [{ label: "total", colour: kind, values: all.slice(first) }];
  return { times: edges, layers, capacity: device[kind].capacity_bytes, moments: moments(context), at: cursor(context), summary: "" };
}

/** A graph's window fits the age of what it shows: it begins where there was something. */
export function firstWorthShowing(history: History, values: (number | null)[], window: number): number {
  const start = window === 0 ? -Infinity : seconds(history.time) - window;
  const inWindow = history.times.findIndex((time) => seconds(time) > start);
  const withSomething = values.findIndex((value) => (value ?? 0) > 0);
  return Math.max(0, inWindow < 0 ? 0 : inWindow, withSomething < 0 ? 0 : withSomething - 1);
}

/** Peaks of the class that is looked at, the highest first: that of the device which is looked at, if one is. */
export function peaksOf({ params, recording }: Context): Recording["peaks"] {
  const { class: wanted = "dram", device } = params;
  const here = (peak: Recording["peaks"][number]) => Number(String(peak.device) === device || peak.unique_id === device);
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

/** What is drawn as upright lines: marks, and what failed. */
export function moments(context: Context): Moment[] {
  const { recording, snapshot } = context;
  const marks = (recording?.marks ?? snapshot?.marks ?? []).map(
    (mark): Moment => ({ time: seconds(mark.time), label: mark.name || `mark ${mark.number}`, kind: "mark" }),
  );
  const explained = context.documents.get<{ failures: { time: string | null; verdict: string }[] }>("failures")?.failures ?? [];
  const failures = recording?.failures.map(({ time, kind }) => ({ time, verdict: kind })) ?? explained;
  const failed = failures.flatMap(({ time, verdict }): Moment[] =>
    time === null ? [] : [{ time: seconds(time), label: verdict.replaceAll("_", " "), kind: "failure" }],
  );
  return [...marks.slice(-100), ...failed.slice(-100)].sort((one, other) => one.time - other.time);
}
