import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { BufferRow, BufferRowPage, CbUsage, ClassUsage, Device, DeviceHistory, DeviceUser, History, KernelUsage, Machine, Process, Recording, Rectangle, Snapshot, Telemetry, Timeline, Upstream, UpstreamBytes, UsedDevice } from "../../src/api";
import { addresses, boxOf } from "../../src/charts/allocations";
import { tree } from "../../src/charts/flame";
import { apart, capacityWords, scaleOf, stacked, type Moment } from "../../src/charts/stack";
import { filledL1, fragmented, incomplete, inOrder, largestFitText, overlap, stateOf } from "../../src/figures";
import { address, bytes, clock, count, duration, fineAge, ids, lasted, percent, permille } from "../../src/format";
import { barsOf, besides, elsewhere, hasSizes, isReported, namesOf, notAttached, remarkOf, sensors, upstream } from "../../src/machine";
import { EmbeddedSource, pageOf, windowOf } from "../../src/embedded";
import { EventLines, request } from "../../src/source";
import { changed, parse, write } from "../../src/state";
import { HIDDEN, learnHidden, named, namedOfAll } from "../../src/hidden";
import { processColumns, sumTitle } from "../../src/parts";
import type { ProcessRow } from "../../src/processrow";
import { harmless, shortLine, userFrame } from "../../src/text";
import { grouped } from "../../src/views/processes";
import { edgesOf, historyNeed, l1OverTime, lastKnown, ofFree } from "../../src/timeline";
import type { Context } from "../../src/view";
import vocabulary from "../../src/words.json";

describe("figures read as in the terminal view", () => {
  test("sizes round to one decimal and never to 1024", () => {
    const expected: [number, string][] = [
      [0, "0 B"],
      [1023, "1023 B"],
      [1024, "1.0 KiB"],
      [57_344, "56.0 KiB"],
      [1_048_575, "1.0 MiB"],
      [1_048_524, "1023.9 KiB"],
      [8_192_000, "7.8 MiB"],
      [12 * 2 ** 30, "12.0 GiB"],
    ];
    for (const [size, text] of expected) expect(bytes(size)).toBe(text);
    expect(bytes(null)).toBe("–");
  });

  test("counts, shares, durations, ids and addresses", () => {
    expect([count(999_999), count(1_999_999), count(1e9)]).toEqual(["999999", "1.9M", "1.0G"]);
    expect(percent(permille(117, 100))).toBe("100.0%");
    expect(percent(permille(999_999, 1_000_000))).toBe("99.9%");
    expect(percent(permille(1, 0))).toBe("–");
    const since = "2026-11-15T08:25:03.000100200Z";
    const ages = ["2026-11-15T08:25:03.000264300Z", "2026-11-15T08:25:03.5Z", "2026-11-15T08:25:04.000100199Z", "2026-11-15T08:26:04.9Z"].map((now) => fineAge(since, now));
    expect(ages).toEqual(["164 µs", "499 ms", "999 ms", "1 min 1 s"]);
    expect([duration(59), duration(61), duration(11_520), duration(90_000)]).toEqual(["59 s", "1 min 1 s", "3 h 12 min", "1 d 1 h"]);
    expect([lasted(0.0004), lasted(0.5), lasted(1.25), lasted(59.9)]).toEqual(["0 ms", "500 ms", "1.3 s", "59 s"]);
    expect(ids([4, 0, 2, 6, 5, 1, 3, 7])).toBe("0-7");
    expect(ids([9, 0, 1, 3])).toBe("0-1,3,9");
    expect(address(1_499_104)).toBe("1499104 (0x16dfe0)");
    expect(clock("2026-11-15T08:25:03.201Z", "2026-11-15T00:00:00Z")).toBe("08:25:03");
    expect(clock("2026-11-15T08:25:03.201Z", "2026-11-16T00:00:00Z", true)).toBe("2026-11-15 08:25:03.201");
  });

  test("names that are hidden say so", () => {
    const process = (pid: number, names_hidden: boolean) => ({ pid, names_hidden }) as Process;
    learnHidden({ processes: [process(1, true), process(2, false)] } as unknown as Snapshot);
    expect([named(null, 1), named("", 1), named("python", 1), named(null, 2)]).toEqual([HIDDEN, HIDDEN, "python", "–"]);
    expect(namedOfAll(null, "not known")).toBe(`not known, or ${HIDDEN}`);
    learnHidden({ processes: [process(1, true)] } as unknown as Snapshot);
    expect([namedOfAll(null, "not known"), namedOfAll("add", "not known")]).toEqual([HIDDEN, "add"]);
    learnHidden({ processes: [] } as unknown as Snapshot);
    expect(namedOfAll(null, "not known")).toBe("not known");
  });

  test("every word that a view explains is in the glossary", () => {
    const terms = vocabulary.glossary.map(({ term }) => term);
    for (const view of ["overview", "processes", "device", "map", "programs", "buffers", "events", "leaks", "failures"]) {
      const source = readFileSync(new URL(`../../src/views/${view}.ts`, import.meta.url), "utf8");
      const words = [...(/words = \[([^\]]*)\]/.exec(source)?.[1] ?? "").matchAll(/"([^"]+)"/g)].map(([, word]) => word);
      expect(words.length, view).toBeGreaterThan(0);
      for (const word of words) expect(terms, view).toContain(word);
    }
  });
});

function usage(change: Partial<ClassUsage> = {}): ClassUsage {
  return {
    capacity_bytes: 12 * 2 ** 30,
    banks: 12,
    requested_bytes: 0,
    charged_bytes: 6 * 2 ** 30,
    union_bytes: 6 * 2 ** 30,
    overlap_bytes: 0,
    peak_bytes: 6 * 2 ** 30,
    peak_time: null,
    buffers: 1,
    largest_free_bytes_per_bank: 2 ** 29,
    capacity_is_current: true,
    physical_bytes: null,
    reserved_bytes: null,
    occupied_bytes: null,
    ...change,
  };
}

function device(change: Partial<Device> = {}): Device {
  const small = usage({ charged_bytes: 0, union_bytes: 0, banks: 1, largest_free_bytes_per_bank: 12 * 2 ** 30 });
  return { id: 0, dram: usage(), l1: { ...small }, l1_small: { ...small }, trace: { ...small }, system: { ...small }, cb_headroom_bytes: null, verified: null, ...change } as Device;
}

describe("what follows from figures", () => {
  test("the largest fit is a request, and never above what is free", () => {
    expect(largestFitText(usage({ largest_free_bytes_per_bank: 2 ** 28 }), 6 * 2 ** 30)).toBe("3.0 GiB (256.0 MiB × 12 banks)");
    expect(fragmented(usage({ largest_free_bytes_per_bank: 2 ** 28 }), 6 * 2 ** 30)).toBe(500);
    expect(fragmented(usage(), 6 * 2 ** 30)).toBe(0);
    expect(fragmented(usage({ largest_free_bytes_per_bank: 1e18 }), 6 * 2 ** 30)).toBe(0);
  });

  test("a graph of a device that is hardly used does not look full", () => {
    const gib = 2 ** 30;
    for (const used of [0.03, 0.3, 0.97]) expect(scaleOf(used * 12 * gib, 12 * gib, true)).toBe(12 * gib);
    expect(scaleOf(14 * gib, 12 * gib, true)).toBe(14 * gib);
    expect(scaleOf(null, 12 * gib, true)).toBe(12 * gib);
    // One that shows details says what it leaves out.
    expect(scaleOf(gib, 12 * gib, false)).toBeLessThan(1.1 * gib);
    expect(scaleOf(gib, null, true)).toBeLessThan(1.1 * gib);
    expect(capacityWords(12 * gib, false)).toBe("capacity 12.0 GiB");
    expect(capacityWords(12 * gib, true)).toBe("capacity 12.0 GiB, above this graph");
  });

  test("more than a device has is explained by the allocators that overlap", () => {
    const allocator = (kind: string, charged_bytes: number) => ({ class: kind, charged_bytes });
    const allocators = [allocator("dram", 8 * 2 ** 30), allocator("dram", 6 * 2 ** 30), allocator("dram", 0), allocator("l1", 1)];
    const over = { dram: usage({ union_bytes: 14 * 2 ** 30 }), allocators } as Partial<Device>;
    expect(overlap(device(over), "dram")).toBe("more than the device has: 2 allocators overlap");
    expect(overlap(device({ ...over, dram: usage() }), "dram")).toBeNull();
    const titled = sumTitle("DRAM", "dram", [device(over)]);
    expect(titled).toBe("DRAM 100.0%: 14.0 GiB of 12.0 GiB, more than the device has: 2 allocators overlap");
    const two = sumTitle("DRAM", "dram", [device({ allocators: [] as Device["allocators"] }), device({ ...over, id: 1 })]);
    expect(two).toMatch(/on 2 devices, device 1 more than the device has: 2 allocators overlap$/);
  });

  test("devices are in the order of their numbers, whatever a mesh says", () => {
    const mesh = () => [4, 0, 2, 6, 5, 1, 3, 7, 10].map((id) => ({ id }));
    const snapshot = { devices: mesh(), processes: [{ devices: mesh() }] } as unknown as Snapshot;
    inOrder(snapshot);
    for (const { devices } of [snapshot, snapshot.processes[0]!]) expect(devices.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 10]);
  });

  test("the parts of L1 add up to what is occupied", () => {
    for (const occupied of [0, 1, 1 << 20, 90 << 20]) {
      const l1 = usage({ occupied_bytes: occupied, physical_bytes: 91 << 20, reserved_bytes: 6 << 20, union_bytes: 3 << 20 });
      const filled = filledL1(device({ l1 }));
      expect(filled.parts.reduce((sum, [, size]) => sum + size, 0)).toBe(occupied);
    }
  });

  test("how a process ended", () => {
    const released = { buffers: 2, buffer_bytes: 1 << 20, bytes: 3 << 20, time: "", reason: "ended" };
    expect(stateOf({ state: "exited", released } as unknown as Process)).toBe("ended, held at exit 2 buffers: 1.0 MiB and programs of 2.0 MiB");
    expect(stateOf({ state: "exited", released: { ...released, buffers: 0, bytes: 0, buffer_bytes: 0, reason: "goodbye" } } as unknown as Process)).toBe("exited, nothing held");
    expect(incomplete({ incomplete: false } as Process)).toBeNull();
  });
});

describe("texts of others", () => {
  test("what deceives is replaced, as the server's rule says", () => {
    for (const sign of ["\u0000", "\n", "\u001b", "\u007f", "\u0085", "\u00ad", "\u200b", "\u202e", "\u2069", "\ufeff", "\u{e0041}"]) expect(harmless(`a${sign}b`)).toBe("a\ufffdb");
    expect(harmless("Grüße, 模型 <img src=x onerror=alert(1)>")).toBe("Grüße, 模型 <img src=x onerror=alert(1)>");
  });

  test("lines of Python", () => {
    expect(shortLine("/home/ada/model.py:57 forward")).toBe("model.py:57");
    expect(shortLine("/home/My Project 2:3 x/my model.py:57 forward")).toBe("my model.py:57");
    expect(shortLine("<string>:1 <module>")).toBe("<string>:1");
    const frames = ["/venv/lib/python3.10/site-packages/ttnn/decorators.py:501 __call__", "<frozen runpy>:88 _run_code", "/home/ada/model.py:57 forward"];
    expect(userFrame(frames)).toBe(frames[2]);
    expect(userFrame(frames.slice(0, 1))).toBe(frames[0]);
    expect(userFrame(["/opt/runner/_pytest/python.py:166 pytest_pyfunc_call", "<frozen runpy>:88 _run_code", "test_model.py:9 test_add"])).toBe("test_model.py:9 test_add");
    expect(userFrame(null)).toBeNull();
  });
});

describe("requests and state", () => {
  test("a request has one form, without what is not given", () => {
    expect(request("/a", { z: 1, b: null, a: "x y", c: undefined, d: "" })).toBe("/a?a=x+y&z=1");
    expect(request("/a")).toBe("/a");
  });

  test("the address holds the state, and refuses what is none", () => {
    const state = parse("#/device?class=l1&at=2026-11-16T10:00:00.5Z&device=0x1f");
    expect(state.view).toBe("device");
    expect(parse(write(state))).toEqual(state);
    expect(parse("#/nonsense?at=yesterday&<x>=1").params).toEqual({});
    expect(parse("").view).toBe("overview");
    const other = changed(parse("#/buffers?device=1&find=x&at=2026-11-16T10:00:00Z"), { view: "map" });
    expect(other).toEqual({ view: "map", params: { device: "1", at: "2026-11-16T10:00:00Z" } });
  });

  test("server-sent events come out whole, however they are cut", () => {
    const text = 'id: 1\ndata: {"type":"hello"}\n\n: comment\n\ndata: {"type":"event","id":2}\n\ndata: broken\n\n';
    for (const size of [1, 3, 7, text.length]) {
      const found: unknown[] = [];
      const lines = new EventLines((message) => found.push(message));
      for (let at = 0; at < text.length; at += size) lines.push(text.slice(at, at + size));
      expect(found).toEqual([{ type: "hello" }, { type: "event", id: 2 }]);
    }
  });

  test("a report answers from its documents, at the nearest instant", async () => {
    const source = new EmbeddedSource({
      instants: ["2026-11-16T10:00:00Z", "2026-11-16T10:00:10Z"],
      contents: [{ is: 1 }, { is: 2 }, { is: 3 }],
      documents: { "/s?at=2026-11-16T10%3A00%3A00Z": 0, "/s?at=2026-11-16T10%3A00%3A10Z": 1, "/t?by=line": 2 },
    });
    expect(await source.get("/s")).toEqual({ time: "2026-11-16T10:00:10Z", is: 2 });
    expect(await source.get("/s", { at: "2026-11-16T10:00:04Z" })).toEqual({ time: "2026-11-16T10:00:00Z", is: 1 });
    expect(await source.get("/s", { at: "2026-11-16T10:00:06Z" })).toMatchObject({ is: 2 });
    expect(await source.get("/t", { by: "line", at: "2026-11-16T10:00:06Z" })).toEqual({ is: 3 });
    await expect(source.get("/u")).rejects.toThrow("does not have it");
  });

  test("a report cuts, filters, sorts and pages what it has", async () => {
    const time = (second: number) => `2026-11-16T10:00:0${second}Z`;
    const timeline = { times: [0, 1, 2, 3, 4].map(time), series: [{ key: "a", values: [1, 2, 3, 4] }], other: [0, 0, 0, 0], total_max: [1, 2, 3, 4], dispatches: [5, 6, 7, 8] } as unknown as Timeline;
    const cut = windowOf(timeline, { from: time(1), to: time(3) });
    expect([cut.times, cut.series[0]?.values, cut.dispatches]).toEqual([[1, 2, 3].map(time), [2, 3], [6, 7]]);
    expect(windowOf(timeline, {})).toEqual(timeline);
    const row = (id: string, charged: number, address: number, operation: string) =>
      ({ id, charged_bytes: charged, address, operation, python: null, pid: 7, class: "dram", device_ids: [0], time: null }) as unknown as BufferRow;
    const all: BufferRowPage = { schema: 1, rows: [row("0x1", 5, 100, "a"), row("0x2", 9, 200, "b"), row("0x3", 7, 300, "a")], next: null, matched: null, matched_bytes: null };
    const source = new EmbeddedSource({ instants: [time(0)], contents: [all], documents: { [`/api/v1/buffers?at=${encodeURIComponent(time(0))}`]: 0 } });
    const found = await source.get<BufferRowPage>("/api/v1/buffers", { sort: "size", descending: true, limit: 1, offset: 1, at: time(2) });
    expect([found.rows.map((each) => each.id), found.matched, found.matched_bytes]).toEqual([["0x3"], 3, 21]);
    expect(pageOf(all, { find: "0xc8" }).rows.map((each) => each.id)).toEqual(["0x2"]);
    expect(pageOf(all, { find: "A" }).matched).toBe(2);
    expect(pageOf(all, { class: "l1" }).matched).toBe(0);
  });
});

describe("totals over time", () => {
  const over = (times: string[], devices: Partial<DeviceHistory>[]) => ({ time: times.at(-1), step_seconds: 1, times, devices: devices.map((each, id) => ({ id, unique_id: null, ...each })) }) as unknown as History;
  const context = { recording: undefined, snapshot: undefined, params: {}, documents: { get: () => undefined } } as unknown as Context;

  test("what is reserved on chips that nobody opened is nobody's CBs", () => {
    const opened = device({ id: 0, unique_id: null, l1: usage({ occupied_bytes: 8 << 20, physical_bytes: 91 << 20, reserved_bytes: 6 << 20, union_bytes: 1 << 20 }) });
    const closed = device({ id: 1, unique_id: null, l1: usage({ occupied_bytes: null, physical_bytes: 91 << 20, reserved_bytes: 6 << 20, union_bytes: 0 }) });
    const totals = (occupied: number, l1: number) => ({ occupied_bytes: [null, occupied, null], l1_bytes: [0, l1, l1], l1_small_bytes: [0, 0, 0] });
    const history = over(["2026-11-16T10:00:00Z", "2026-11-16T10:00:01Z", "2026-11-16T10:00:02Z"], [totals(8 << 20, 1 << 20), totals(6 << 20, 0)]);
    const [occupied, layers] = l1OverTime(history, [opened, closed]);
    // Before the first step in which it is known it is not, and afterwards it is what it was.
    expect(occupied).toEqual([null, 8 << 20, 8 << 20]);
    const values = (colour: string) => layers.find((layer) => layer.colour === colour)?.values;
    expect([values("reserved"), values("cb"), values("l1")]).toEqual([[null, 6 << 20, 6 << 20], [null, 1 << 20, 1 << 20], [null, 1 << 20, 1 << 20]]);
    expect(lastKnown([null, 1, null, 2])).toEqual([null, 1, 1, 2]);
  });

  test("a recording of a second has more steps than one, and each its width", () => {
    const recording = { from: "2026-11-16T10:00:00Z", to: "2026-11-16T10:00:00.800Z" } as Recording;
    expect(historyNeed({ recording } as Context, 600).params).toEqual({ seconds: 1, points: 300 });
    expect(historyNeed({} as Context, 600).params).toEqual({ seconds: 600, points: 300 });
    expect(historyNeed({} as Context, 0).params).toEqual({ seconds: 86_400, points: 300 });
    const at = (second: number) => Date.parse("2026-11-16T10:00:00Z") / 1000 + second;
    expect(edgesOf(over(["2026-11-16T10:00:00.500Z", "2026-11-16T10:00:00.750Z"], []), 0)).toEqual([at(0.25), at(0.5), at(0.75)]);
    expect(edgesOf(over(["2026-11-16T10:00:01Z"], []), 0)).toEqual([at(0), at(1)]);
    expect(edgesOf(over([], []), 0)).toEqual([]);
  });

  test("what is free is what one request can have and the rest, as beside it", () => {
    const of = device({ id: 0, unique_id: null });
    const times = ["2026-11-16T10:00:00Z", "2026-11-16T10:00:01Z", "2026-11-16T10:00:02Z"];
    const GiB = 2 ** 30;
    const history = over(times, [{ dram_bytes: [0, 6 * GiB, 11 * GiB], dram_largest_free_bytes: [GiB, GiB / 4, null] }]);
    const window: [number, number] = [Date.parse(times[0]!) / 1000 - 1, Date.parse(times[2]!) / 1000];
    const stack = ofFree(history, of, "dram", window, context);
    expect(stack?.layers.map((layer) => layer.values)).toEqual([[12 * GiB, 3 * GiB, GiB], [0, 3 * GiB, 0]]);
    expect(stack?.times.length).toBe(4);
    // The same step as a figure.
    expect(fragmented({ largest_free_bytes_per_bank: GiB / 4, banks: 12 }, 6 * GiB)).toBe(500);
    expect(ofFree(history, of, "trace", window, context)).toBeUndefined();
    expect(ofFree(history, of, "dram", [0, 1], context)).toBeUndefined();
  });
});

describe("pictures", () => {
  test("marks that stand close to each other do not hide the graph, and no failure is left out", () => {
    const mark = (time: number): Moment => ({ time, label: "", kind: "mark" });
    const failure: Moment = { time: 3.5, label: "", kind: "failure" };
    const drawn = apart([mark(0), mark(1), mark(2), mark(3), failure, mark(9)], (time) => time * 2, 5);
    expect(drawn.map(([left, { kind }]) => [left, kind])).toEqual([[0, "mark"], [6, "mark"], [7, "failure"], [18, "mark"]]);
  });

  test("layers stand on each other, and the last step has its width", () => {
    const layers = [
      { label: "a", colour: "x", values: [1, 2, null] },
      { label: "b", colour: "x", values: [10, null, null] },
    ];
    const data = stacked({ times: [0, 1, 2, 3], layers, capacity: null, moments: [], at: null, summary: "" });
    expect(data).toEqual([[0, 1, 2, 3], [11, 2, null, null], [1, 2, null, null]]);
  });

  test("a few buffers at the other end of a bank do not make the picture a gap", () => {
    const at = (address: number, size: number) => ({ address, per_bank_bytes: size }) as Rectangle;
    const heap = [at(100, 50), at(150, 50), at(120, 60)];
    expect(addresses(heap, undefined)).toEqual({ base: 100, top: 200, beyond: 0 });
    expect(addresses([...heap, at(990, 5), at(995, 5)], undefined)).toEqual({ base: 100, top: 200, beyond: 2 });
    expect(addresses([at(0, 5), at(900, 100)], undefined)).toEqual({ base: 900, top: 1000, beyond: 1 });
    // Both have much, or the gap is small: all of it.
    expect(addresses([...heap, at(900, 100)], undefined)).toEqual({ base: 100, top: 1000, beyond: 0 });
    expect(addresses([...heap, at(240, 5)], undefined)).toEqual({ base: 100, top: 245, beyond: 0 });
    expect(addresses(heap, { base: 64, per_bank_bytes: 960 })).toEqual({ base: 64, top: 1024, beyond: 0 });
    expect(addresses([], undefined).beyond).toBe(0);
  });

  test("buffers side by side have no hole between, and only large ones a border", () => {
    const rectangle = (place: number, size: number) => ({ address: place, per_bank_bytes: size }) as Rectangle;
    const y = (place: number) => 400 - place / 7;
    const boxes = [0, 30, 60, 90].map((place) => boxOf(rectangle(place, 30), [10, 200], y));
    for (const [place, box] of boxes.slice(1).entries()) expect(box.top + box.high).toBeCloseTo(boxes[place]!.top, 9);
    expect(boxes.every((box) => !box.bordered)).toBe(true);
    expect(boxOf(rectangle(0, 700), [10, 200], y)).toEqual({ left: 10, top: 300, wide: 190, high: 100, bordered: true });
    expect(boxOf(rectangle(0, 700), [10, 20], y).bordered).toBe(false);
    const least = boxOf(rectangle(0, 1), [10, 10], y);
    expect([least.wide, least.high]).toEqual([0.7, 0.7]);
  });

  test("stacks become one tree, the most bytes first", () => {
    const group = (stack: string[], charged: number) => ({ key: null, stack, buffers: 1, charged_bytes: charged, requested_bytes: 0, oldest: null, newest: null });
    const root = tree([group(["main", "a", "x"], 5), group(["main", "b"], 7), group(["main", "a"], 1)], "all");
    expect([root.bytes, root.buffers, root.children.length]).toEqual([13, 3, 1]);
    const main = root.children[0];
    expect(main?.children.map((frame) => [frame.name, frame.bytes])).toEqual([["b", 7], ["a", 6]]);
    expect(main?.children[1]?.children[0]?.bytes).toBe(5);
  });
});

describe("processes by what they say of where they run", () => {
  const process = (pid: number, dram_bytes: number, labels: Record<string, string> = {}) =>
    ({ pid, labels, devices: [{ dram_bytes }] }) as unknown as Process;

  test("groups come by what they hold, and those without the label last", () => {
    const all = [process(1, 5, { job: "a" }), process(2, 50), process(3, 7, { job: "b", rank: "0" }), process(4, 1, { job: "a", rank: "1" })];
    const pids = (label: string) => grouped(all, label).map((group) => [group.value, group.processes.map((each) => each.pid)]);
    expect(pids("job")).toEqual([["b", [3]], ["a", [1, 4]], [null, [2]]]);
    expect(pids("rank")).toEqual([["1", [4]], ["0", [3]], [null, [1, 2]]]);
    expect(grouped([], "job")).toEqual([]);
  });

  test("a rank is one of its job, and ten comes after two", () => {
    const all = [["10", "10"], ["10", "2"], ["9", "2"]].map(([job = "", rank = ""], place) => process(place, 1, { job, rank }));
    expect(grouped(all, "rank").map((group) => [group.job, group.value])).toEqual([["9", "2"], ["10", "2"], ["10", "10"]]);
  });

  test("a label named as something that every object has is no group of its own", () => {
    expect(grouped([process(1, 1, {})], "constructor").map((group) => group.value)).toEqual([null]);
  });
});

describe("what the machine says by itself", () => {
  const sizes = { dram: 8 * 2 ** 20, l1: 0, l1_small: 0, trace: 0, cb: 64 };
  const nothing = { dram: 0, l1: 0, l1_small: 0, trace: 0, cb: 0 };
  const counters = (rest: Partial<Upstream>): Upstream => ({
    source: "shm", id: "0x7", matched_by: null, owner: null, version: null, error: null, updated: null, bytes: null,
    left_behind: nothing, not_attached: null, difference: null, difference_text: null, doubts: [], ...rest,
  });
  const used = (id: number, upstream: UpstreamBytes | null): UsedDevice => ({ id, unique_id: null, scope: null, descriptors: null, upstream, difference: null });
  const userOf = (rest: Partial<DeviceUser>): DeviceUser => ({
    pid: 41, name: "python", names_hidden: false, uid: null, state: "alive", attached: false, devices: [], unmatched: [], difference_text: null, ...rest,
  });
  const machineOf = (rest: Partial<Machine>): Machine => ({ time: "", processes: [], unmatched: [], upstream_limits: [], errors: [], ...rest });
  const device = (rest: Partial<Device>) => ({ id: 0, unique_id: "0x7", ...rest }) as Device;

  test("values of the driver have units, and none is made up", () => {
    const values = { ai_clock_mhz: 1000, temperature_millidegrees: 45_312, power_microwatts: 17e6, fan_rpm: null, link_speed: null, link_width: null, unread: {} } as Telemetry;
    expect(sensors(values)).toEqual(["45.3 °C", "17.0 W", "1000 MHz"]);
    expect(sensors({ ...values, power_microwatts: null })).toEqual(["45.3 °C", "1000 MHz"]);
    expect(sensors(null)).toEqual([]);
  });

  test("all names of a device stand side by side", () => {
    const names = { node: "/dev/tenstorrent/0", pci_address: "0000:0a:00.0", asic_id: "0x7", board_serial: "0x100", tray: null };
    expect(namesOf(device({ names }))).toEqual(["chip 0x7", "/dev/tenstorrent/0", "0000:0a:00.0", "board 0x100"]);
    expect(namesOf(device({}))).toEqual(["chip 0x7"]);
  });

  test("counters are marked by their source, and an unknown version is no zero", () => {
    const found = counters({ not_attached: sizes });
    expect(upstream(device({ upstream: found }))).toEqual(["not attached: DRAM 8.0 MiB, CBs 64 B (from TT-Metal's counters)"]);
    const unknown = counters({ error: "version 9 is not known", left_behind: null });
    expect(upstream(device({ upstream: unknown }))).toEqual(["TT-Metal's counters: version 9 is not known"]);
  });

  test("processes that do not report are listed, those that do are not listed twice", () => {
    const user = userOf({ devices: [used(1, sizes)] });
    const machine = machineOf({ processes: [user, { ...user, pid: 42, attached: true }, { ...user, pid: 43, state: "dead" }] });
    const rows = notAttached(machine);
    expect(rows.map((row) => [row.pid, stateOf(row), row.devices[0]?.dram_bytes])).toEqual([[41, "not attached", 8 * 2 ** 20]]);
    expect(notAttached(undefined)).toEqual([]);
  });

  test("sizes that nobody counts are not known, and it is said why", () => {
    const of = (...devices: UsedDevice[]) => notAttached(machineOf({ processes: [userOf({ devices })] }))[0] as ProcessRow;
    const [counted, open, unlisted] = [of(used(1, sizes)), of(used(1, null)), of()];
    expect([counted, open, unlisted].map(hasSizes)).toEqual([true, false, false]);
    expect(remarkOf(counted)).toBe("not attached: sizes from TT-Metal's counters, as requested");
    expect(remarkOf(open)).toBe("not attached: it has a device open, what it holds is not known");
    expect(remarkOf(unlisted)).toBe("not attached: it uses a chip that is none of the devices here");
    const cells = (process: ProcessRow) => processColumns().filter(({ title }) => ["DEVICES", "DRAM", "ON FULLEST"].includes(title)).map((column) => column.text(process));
    expect(cells(counted)).toEqual(["1", "8.0 MiB", "8.0 MiB"]);
    expect(cells(unlisted)).toEqual(["–", "–", "–"]);
  });

  test("bars are of the counters only where nothing attached has anything", () => {
    const usage = (charged: number) => ({ charged_bytes: charged, union_bytes: null, capacity_bytes: 16 * 2 ** 20, peak_bytes: 0, occupied_bytes: null, physical_bytes: null }) as ClassUsage;
    const found = counters({ not_attached: sizes });
    const apart = { registered_bytes: 0, resident_bytes: null, count: 0 };
    const [cb, kernel] = [apart as CbUsage, apart as KernelUsage];
    const with_ = (charged: number) => device({ dram: usage(charged), l1: usage(0), l1_small: usage(0), trace: usage(0), system: usage(0), cb, kernel, upstream: found });
    expect([barsOf(with_(0)).dram.used, barsOf(with_(0)).remark]).toEqual([8 * 2 ** 20, "from TT-Metal's counters, as requested"]);
    expect([barsOf(with_(1024)).dram.used, barsOf(with_(1024)).remark]).toEqual([1024, null]);
    const open = machineOf({ processes: [userOf({ devices: [used(0, null)] })] });
    const { remark, isKnown } = barsOf({ ...with_(0), upstream: null, source: null }, open);
    expect(isKnown).toBe(false);
    expect(remark).toBe("in use by what is not attached: what it holds is not known");
    expect(besides(with_(1024))).toBe("Besides, not attached: DRAM 8.0 MiB, CBs 64 B (from TT-Metal's counters).");
    expect(besides(device({}))).toBe(null);
    // Of a chip behind another the driver reads nothing, but it has names.
    const names = {} as Device["names"];
    expect([isReported(device({ source: null, names })), isReported(device({ source: "attached", names }))]).toEqual([false, true]);
    // Whoever had it before: what it has now is not known. One that is counted has nothing.
    expect(barsOf({ ...with_(0), upstream: null, source: "attached" }, open).isKnown).toBe(false);
    const counted = userOf({ devices: [used(0, nothing)] });
    expect(barsOf({ ...with_(0), upstream: null, source: null, names }, { ...open, processes: [counted] }).isKnown).toBe(true);
  });

  test("counters of other chips are said where somebody has something there", () => {
    const other = (id: string, not_attached: UpstreamBytes) => counters({ id, not_attached });
    const said = (...unmatched: Upstream[]) => elsewhere(machineOf({ unmatched }));
    expect([elsewhere(null), said(other("0xbeef", nothing))]).toEqual([null, null]);
    expect(said(other("0xbeef", sizes))).toBe("TT-Metal counts 8.0 MiB on another chip (0xbeef)");
    expect(said(other("0x1", sizes), other("0x2", sizes))).toBe("TT-Metal counts 16.0 MiB on 2 other chips");
  });
});
