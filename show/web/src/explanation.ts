/** A failure and why it happened, in the words of `ttmem explain` (show/tui/src/explanation.rs). */

import type { BlockOwner, Explanation, FailedRequest, MapRow, Setting } from "./api";
import { h } from "./dom";
import { address, bytes, count, counted, fineAge } from "./format";
import { shortLine } from "./text";
import { Table } from "./table";
import { HIDDEN } from "./hidden";

const MOST_GROUPS = 10;

/** What stands for names of another user. */
const hidden = (failure: Explanation): string | null => (failure.names_hidden ? HIDDEN : null);

/** All that is known of a failure. */
export function explained(failure: Explanation): HTMLElement {
  const facts = [...request(failure.request), ...clash(failure), ...setting(failure.setting)];
  for (const name of ["operation", "python"] as const) {
    const text = failure[name] ?? hidden(failure);
    if (text !== null) facts.push([name, text]);
  }
  return h(
    "article",
    { class: "explanation" },
    h("h3", null, failure.heading),
    h("p", { class: "sentence" }, failure.sentence),
    list(facts),
    inTheWay(failure),
    holders(failure),
    map(failure),
    list([...failure.advice.map((line): Fact => ["what to do", line]), ...failure.unknown.map((line): Fact => ["not known", line])]),
  );
}

type Fact = [name: string, text: string];

function list(facts: Fact[]): HTMLElement | null {
  if (facts.length === 0) return null;
  return h("dl", null, ...facts.flatMap(([name, text]) => [h("dt", null, name), h("dd", null, text)]));
}

/** Exact, as it is searched for and typed, and as it is read. */
function exact(size: number): string {
  return size < 1024 ? bytes(size) : `${size} B (${bytes(size)})`;
}

function request(wanted: FailedRequest | null): Fact[] {
  if (!wanted) return [];
  const asked: string[] = [];
  if (wanted.requested_bytes !== null) {
    asked.push(exact(wanted.requested_bytes) + (wanted.class === null ? "" : ` of ${wanted.class.toUpperCase()}`));
  }
  if (wanted.need_bytes_per_bank !== null) {
    const banks = wanted.banks ? `each of ${wanted.banks} banks` : "each bank";
    asked.push(`${exact(wanted.need_bytes_per_bank)} in ${banks}`);
  }
  const figures: [number | null, string][] = [
    [wanted.bank_bytes, ""],
    [wanted.allocated_bytes_per_bank, " allocated"],
    [wanted.free_bytes_per_bank, " free"],
    [wanted.largest_free_bytes_per_bank, " in the largest free block"],
  ];
  const bank = figures.flatMap(([figure, what]) => (figure === null ? [] : [exact(figure) + what]));
  return [
    ...(asked.length > 0 ? [["asked for", asked.join(", ")] as Fact] : []),
    ...(bank.length > 0 ? [["bank", bank.join(", ")] as Fact] : []),
  ];
}

function clash({ clash: met }: Explanation): Fact[] {
  if (!met) return [];
  const start = met.storage_start === null ? "ends at" : `from ${address(met.storage_start)} to`;
  return [["storage", `${start} ${address(met.storage_end)}, limit ${address(met.limit)}, ${exact(met.overlap_bytes)} too much`]];
}

function setting(wanted: Setting | null): Fact[] {
  if (!wanted) return [];
  const each = wanted.bytes_per_bank;
  const size = each === null ? bytes(wanted.value) : each === wanted.value ? `${bytes(each)} per bank` : `${bytes(wanted.value)}, ${exact(each)} per bank`;
  const given = wanted.given === null ? "" : `; ${wanted.given} was given`;
  return [[wanted.is_smallest ? "at least" : "fits with", `${wanted.name}=${wanted.value} (${size})${given}`]];
}

/** The line, the operation, and the process unless it is the one that failed. */
function whose(owner: BlockOwner, failure: Explanation): string {
  const isFailed = owner.pid !== null && owner.pid === failure.pid;
  if (failure.names_hidden && isFailed && owner.python === null && owner.operation === null) return HIDDEN;
  const parts: string[] = [];
  if (owner.python !== null) parts.push(shortLine(owner.python));
  if (owner.operation !== null) parts.push(owner.operation);
  if (owner.pid !== null && (!isFailed || parts.length === 0)) parts.push(`pid ${owner.pid} ${owner.process ?? ""}`.trimEnd());
  if (parts.length === 0) parts.push("not known");
  // First: it must not be what is cut off.
  if (owner.of_call) parts.unshift("by this call");
  return parts.join(", ");
}

function holders(failure: Explanation): HTMLElement | null {
  const held = failure.holders;
  if (!held || held.length === 0 || failure.clash) return null;
  const table = new Table<(typeof held)[number]>("who holds the memory", [
    { title: "PER BANK", numeric: true, text: (group) => bytes(group.bytes_per_bank) },
    { title: "BUFFERS", numeric: true, text: (group) => count(group.buffers) },
    { title: "AGE", numeric: true, text: (group) => (failure.time === null ? "-" : fineAge(group.owner.since, failure.time)) },
    { title: "WHOSE", grows: true, text: (group) => whose(group.owner, failure) },
  ]);
  table.update(held.slice(0, MOST_GROUPS));
  const others = held.slice(MOST_GROUPS);
  if (others.length === 0) return table.element;
  const buffers = others.reduce((sum, group) => sum + group.buffers, 0);
  const rest = others.reduce((sum, group) => sum + group.bytes_per_bank, 0);
  return h("div", null, table.element, h("p", { class: "faint" }, `and ${counted(buffers, "buffer")} with ${bytes(rest)}`));
}

interface Stretch {
  address: number;
  size: number;
  owner: string;
  release: boolean;
}

function byAddress(caption: string, rows: Stretch[]): HTMLElement {
  const table = new Table<Stretch>(caption, [
    { title: "", text: (row) => (row.release ? "x" : "") },
    { title: "ADDRESS", numeric: true, text: (row) => String(row.address) },
    { title: "HEX", numeric: true, text: (row) => `0x${row.address.toString(16)}` },
    { title: "BYTES", numeric: true, text: (row) => String(row.size) },
    { title: "WHOSE", grows: true, text: (row) => row.owner, kind: (row) => (row.release ? "warning" : null) },
  ]);
  table.update(rows);
  return table.element;
}

function inTheWay(failure: Explanation): HTMLElement | null {
  const blocks = failure.clash?.in_the_way;
  if (!blocks) return null;
  const rows = blocks.slice(0, MOST_GROUPS).map(({ block, overlap_bytes }) => ({
    address: block.address,
    size: block.size_bytes,
    owner: `${bytes(overlap_bytes)} overlap: ${whose(block.owner, failure)}`,
    release: false,
  }));
  const others = blocks.length - rows.length;
  const more = others > 0 ? h("p", { class: "faint" }, `and ${counted(others, "more buffer")} in the way`) : null;
  return h("div", null, byAddress("buffers in the way", rows), more);
}

function rowOwner(row: MapRow, failure: Explanation): string {
  if (row.stands_for > 1) return `… ${count(row.stands_for)} more, in use or free`;
  return row.owner ? whose(row.owner, failure) : "free";
}

function map(failure: Explanation): HTMLElement | null {
  if (!failure.map) return null;
  const rows = failure.map.map((row) => ({
    address: row.address,
    size: row.size_bytes,
    owner: rowOwner(row, failure),
    release: row.in_release,
  }));
  const unless = failure.release?.unless ? `, ${failure.release.unless}` : "";
  return h("div", null, byAddress("the bank around the best hole", rows), h("p", { class: "faint" }, `x release to make it fit${unless}`));
}
