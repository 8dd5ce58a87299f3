/** Rows of the page's lists of processes: those that report, and those that are not attached. */

import type { Process, Source } from "./api";

/** A process; `source` is null for one that is not attached and not counted by TT-Metal: its sizes are unknown. */
export type ProcessRow = Omit<Process, "source"> & { source: Source | null };
