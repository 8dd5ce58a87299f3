/** What every view gets, and what it has to offer. */

import type { Device, Recording, Snapshot } from "./api";
import type { Palette } from "./colours";
import { CLASSES, deviceKey, type DeviceClass } from "./figures";
import type { Documents, Need } from "./documents";
import type { Change, Parameters } from "./state";

export interface Context {
  params: Parameters;
  set(change: Change): void;
  documents: Documents;
  snapshot: Snapshot | undefined;
  recording: Recording | undefined;
  palette: Palette;
  /** The instant that is shown. */
  now: string;
}

export interface View {
  readonly element: HTMLElement;
  /** Keys of this view and what they do, for the help. */
  readonly keys: [string, string][];
  /** Terms of the glossary that the view uses. */
  readonly words: string[];
  needs(context: Context): Need[];
  render(context: Context): void;
  /** Whether the key was this view's. */
  key?(key: string, context: Context): boolean;
  /** Text to find, if the view has lists. */
  destroy?(): void;
}

/** The device that is looked at: the one of the address, or else the first. */
export function chosenDevice({ params, snapshot }: Context): Device | undefined {
  const wanted = params["device"];
  const devices = snapshot?.devices ?? [];
  return devices.find((device) => deviceKey(device) === wanted || String(device.id) === wanted) ?? devices[0];
}

/** How the chosen device is asked for, also before the first snapshot. */
export function chosenKey(context: Context): string | undefined {
  const device = chosenDevice(context);
  return device ? deviceKey(device) : undefined;
}

export function chosenClass({ params }: Context): DeviceClass {
  return CLASSES.find((each) => each === params["class"]) ?? "dram";
}

/** The device before or after. */
export function stepDevice(context: Context, step: number): void {
  const devices = context.snapshot?.devices ?? [];
  const device = chosenDevice(context);
  const place = devices.findIndex((each) => each === device);
  const next = devices[(place + step + devices.length) % devices.length];
  if (next) context.set({ params: { device: deviceKey(next), core: null } });
}

/** What is found of `text` by a filter: names, pids, addresses in decimal and hex. */
export function finds(filter: string | undefined, ...texts: (string | number | null | undefined)[]): boolean {
  if (!filter) return true;
  const wanted = filter.toLowerCase();
  return texts.some((text) => {
    if (text === null || text === undefined) return false;
    if (typeof text === "number") return String(text).includes(wanted) || `0x${text.toString(16)}`.includes(wanted);
    return text.toLowerCase().includes(wanted);
  });
}
