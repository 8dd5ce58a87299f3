/** Names that only their user may see: said, and not taken for unknown ones. */

import type { Mark, Snapshot } from "./api";
import words from "./words.json";

/** In the place of a name that only its user may see. */
export const HIDDEN = words.hidden;

let pids = new Set<number | null>();
let processes = 0;

/** Whose names are hidden, as of the newest snapshot. */
export function learnHidden(snapshot: Snapshot): void {
  pids = new Set(snapshot.processes.filter((process) => process.names_hidden).map((process) => process.pid));
  processes = snapshot.processes.length;
}

/** A name of a process's, or that it is hidden, or what stands for one that nobody knows. */
export function named(name: string | null | undefined, pid: number | null, unknown = "–"): string {
  return name || (pids.has(pid) ? HIDDEN : unknown);
}

/** The name of a mark, or that it is hidden, or what stands for one without a name. */
export function markName(mark: Mark, unnamed: string): string {
  return mark.name || (mark.name_hidden ? HIDDEN : unnamed);
}

/** The same of what several processes may have: of some of them it may only be unknown. */
export function namedOfAll(name: string | null | undefined, unknown: string): string {
  if (name || pids.size === 0) return name || unknown;
  return pids.size === processes ? HIDDEN : `${unknown}, or ${HIDDEN}`;
}
