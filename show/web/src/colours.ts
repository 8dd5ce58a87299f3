/** One colour per kind, the same as in the terminal view; and colours for whatever else is stacked. */

import type { SegmentKind } from "./api";
import words from "./words.json";

export type Kind = "dram" | "l1" | "l1_small" | "trace" | "system" | "cb" | "reserved" | "kernel" | "free";

/** What a kind is called on every screen. */
export const KIND_LABEL: Record<Kind, string> = { ...words.kinds, kernel: "config ring" };

/** The kind of a segment of L1. */
export const SEGMENT_KIND: Record<SegmentKind, Kind> = {
  reserved: "reserved",
  config_ring: "kernel",
  cb: "cb",
  buffer: "l1",
  l1_small: "l1_small",
  free: "free",
};

/** The value of a colour of colours.css or style.css as it is now, for canvases. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const HEAT: readonly [number, number, number][] = [
  [0, 32, 76],
  [0, 62, 108],
  [67, 84, 108],
  [108, 107, 112],
  [142, 131, 113],
  [181, 155, 99],
  [222, 182, 72],
  [255, 221, 71],
];

/** How many colours there are for lines, operations and processes; beyond that they come again. */
export const SERIES = 12;

/**
 * A colour for each key, the same for as long as the page is open: what is added later takes the next,
 * and nothing that is on the screen changes its colour.
 */
export class Palette {
  private readonly places = new Map<string, number>();

  place(key: string | null): number {
    if (key === null) return SERIES;
    let place = this.places.get(key);
    if (place === undefined) {
      place = this.places.size % SERIES;
      this.places.set(key, place);
    }
    return place;
  }

  colour(key: string | null): string {
    const place = this.place(key);
    return colour(place === SERIES ? "series-none" : `series-${place}`);
  }
}
