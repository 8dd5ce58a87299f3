/** Figures as text: every viewer rounds alike (report/report/src/size_text.rs, show/tui/src/format.rs). */

export const UNKNOWN = "–";

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** A size with one decimal in binary units; whole bytes below 1 KiB. */
export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return UNKNOWN;
  if (size < 1024) return `${size} B`;
  let unit = 1024;
  for (let place = 0; ; place += 1) {
    const tenths = Math.floor((size * 10 + unit / 2) / unit);
    if (tenths < 10_240 || place === UNITS.length - 1) {
      return `${Math.floor(tenths / 10)}.${tenths % 10} ${UNITS[place]}`;
    }
    unit *= 1024;
  }
}

/** A count, exact up to six digits and with one decimal beyond, rounded down. */
export function count(number: number | null | undefined): string {
  if (number === null || number === undefined) return UNKNOWN;
  if (number < 1_000_000) return String(number);
  let unit = 1_000_000;
  let name = 0;
  while (number / unit >= 1000 && name < 4) {
    unit *= 1000;
    name += 1;
  }
  return `${Math.floor(number / unit)}.${Math.floor((number % unit) / (unit / 10))}${"MGTPE"[name]}`;
}

export function counted(number: number, noun: string, many = `${noun}s`): string {
  return `${count(number)} ${number === 1 ? noun : many}`;
}

/** Thousandths, rounded down: all of them only when full; null where the whole is not known. */
export function permille(used: number, whole: number | null | undefined): number | null {
  if (!whole || whole <= 0) return null;
  return Math.floor((Math.min(used, whole) * 1000) / whole);
}

export function percent(share: number | null): string {
  return share === null ? UNKNOWN : `${Math.floor(share / 10)}.${share % 10}%`;
}

/** Ids by number, neighbours as `0-7`. */
export function ids(list: readonly number[]): string {
  const sorted = [...new Set(list)].sort((one, other) => one - other);
  const runs: [number, number][] = [];
  for (const id of sorted) {
    const last = runs.at(-1);
    if (last && last[1] + 1 === id) last[1] = id;
    else runs.push([id, id]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

/** A duration in its two largest units. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const days = Math.floor(whole / 86_400);
  const hours = Math.floor(whole / 3600) % 24;
  const minutes = Math.floor(whole / 60) % 60;
  if (days > 0) return `${count(days)} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${whole % 60} s`;
  return `${whole} s`;
}

/** How long something lived: what was over within seconds has its parts of one. */
export function lasted(seconds: number): string {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  return seconds < 10 ? `${seconds.toFixed(1)} s` : duration(seconds);
}

export function seconds(time: string): number {
  return Date.parse(time) / 1000;
}

/** The age of something at a moment, in the two largest units. */
export function age(time: string | null, now: string): string {
  return time === null ? UNKNOWN : duration(seconds(now) - seconds(time));
}

/** The same at a moment that stands still: what a program does within a second has its parts of one. */
export function fineAge(time: string | null, now: string): string {
  if (time === null) return UNKNOWN;
  const whole = (text: string) => Math.floor(seconds(text));
  // A number of seconds since 1970 has no room for nanoseconds.
  const part = (text: string) => Number(`0${/\.\d+/.exec(text)?.[0] ?? ""}`);
  const passed = Math.max(0, whole(now) - whole(time) + part(now) - part(time));
  const micros = Math.round(passed * 1e9) / 1000;
  if (micros < 1000) return `${Math.floor(micros)} µs`;
  if (micros < 1_000_000) return `${Math.floor(micros / 1000)} ms`;
  return duration(passed);
}

/** The time of day in UTC; with the date on another day than `now`, and with milliseconds if wanted. */
export function clock(time: string | null, now?: string, fine = false): string {
  if (time === null) return UNKNOWN;
  const text = `${time.slice(0, 10)} ${time.slice(11, fine ? 23 : 19)}`.replace(/[Z+].*$/, "");
  return now?.slice(0, 10) === time.slice(0, 10) ? text.slice(11) : text;
}

/** Seconds since the epoch as the API takes them. */
export function stamp(unixSeconds: number): string {
  return new Date(Math.round(unixSeconds * 1000)).toISOString();
}

/** As the runtime's own messages print it, with hex beside. */
export function address(value: number | null): string {
  return value === null ? UNKNOWN : `${value} (0x${value.toString(16)})`;
}

export function hex(value: number | null): string {
  return value === null ? UNKNOWN : `0x${value.toString(16)}`;
}

/** A sum over devices says so: `9.0 GiB on 8 devices`. */
export function onDevices(sum: number, devices: number): string {
  return devices > 1 ? `${bytes(sum)} on ${devices} devices` : bytes(sum);
}
