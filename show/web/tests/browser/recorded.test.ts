/** The time cursor and what is drawn over time: a recording, and a report of it, held against the read API. */

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Allocations, BlockMap, BufferGroups, BufferRowPage, Failures, L1Map, Leaks, ProgramRowPage, Recording, Snapshot, Timeline } from "../../src/api";
import { deviceKey, used } from "../../src/figures";
import { address, bytes, clock, counted, seconds, stamp } from "../../src/format";
import { request, type Params } from "../../src/source";
import { shortLine } from "../../src/text";
import { launch, MORE, remove, Replay, run, scenario, Tab, temporary, until, VIEWS } from "./harness";

let browser: Browser;
let folder: string;
let file: string;
let replay: Replay;
let recording: Recording;
let peak: string;
let failure: string;
let tab: Tab;

const get = <T>(path: string, params: Params = {}) => replay.get<T>(request(path, params));
const dram = (snapshot: Snapshot) => snapshot.devices.reduce((sum, device) => sum + used(device.dram), 0);

beforeAll(async () => {
  browser = await launch();
  folder = temporary();
  file = join(folder, "run.ttrec");
  run("demo", "--headless", "--speed", "1", "--scenario", scenario("recorded"), "--record", file);
  replay = await Replay.start(file);
  recording = await get<Recording>("/api/v1/recording");
  const highest = recording.peaks.filter((each) => each.of === "dram").sort((one, other) => other.bytes - one.bytes);
  peak = highest[0]!.time;
  failure = recording.failures[0]!.time;
});

afterAll(async () => {
  await replay.stop();
  await browser.close();
  remove(folder);
});

afterEach(async () => {
  await tab.close();
  expect(tab.faults).toEqual([]);
  for (const host of tab.hosts) expect(host).toBe(new URL(tab.url).host);
});

describe("of a recording", () => {
  const open = async (hash: string, look = {}) => {
    tab = await Tab.open(browser, replay.url, look);
    await tab.go(hash);
  };
  const shown = (time: string) => clock(time, undefined, true).slice(11);

  test("the cursor moves by keys, jumps to peak, failure and mark, and every view follows", async () => {
    await open("#/overview");
    await tab.sees(".status", "recorded");
    await tab.sees("footer output", shown(recording.to));
    // What ends with nothing says so, and where there was most.
    await tab.sees("header .notice", "This recording ends with nothing held");
    await tab.sees("header .notice", "look at the failure");
    await tab.page.getByRole("button", { name: "look at the peak" }).click();
    await tab.sees("footer output", shown(peak));
    expect(await tab.page.locator("header .notice:visible").count()).toBe(0);
    await tab.page.keyboard.press("n");
    await tab.sees("footer output", shown(recording.to));
    await tab.page.keyboard.press("p");
    await tab.sees("footer output", shown(peak));
    await tab.sees("h2", `${bytes(dram(await get<Snapshot>("/api/v1/snapshot", { at: peak })))} of `);
    await tab.page.keyboard.press(".");
    await tab.sees("footer output", shown(stamp(seconds(peak) + 0.1)));
    await tab.page.keyboard.press(",");
    await tab.sees("footer output", shown(stamp(seconds(peak))));
    await tab.page.keyboard.press("f");
    await tab.sees("footer output", shown(failure));
    await tab.sees(".problem", /! pid \d+ .*\[9\]/);
    await tab.page.keyboard.press("'");
    // Behind the last there is none: the first again.
    await tab.sees("footer output", shown(recording.marks[0]!.time));
    await tab.page.keyboard.press("'");
    await tab.sees("footer output", shown(recording.marks[1]!.time));
    await until("the address", () => tab.page.url().includes(`at=${recording.marks[1]!.time.slice(0, 13)}`));
    // Slowly: it is not to be at its end before somebody has looked.
    for (const _ of [0.5, 0.25, 0.1]) await tab.page.keyboard.press("<");
    await tab.page.keyboard.press("Space");
    await tab.sees("footer", "pause");
    // The output begins with the date.
    await until("time to pass", async () => (await tab.text("footer output")).slice(11) > shown(recording.marks[1]!.time));
    await tab.page.keyboard.press("Space");
    await tab.sees("footer", "play");
    await tab.page.keyboard.press("n");
    await tab.sees("footer output", shown(recording.to));
  });

  test("every view shows the figures of the API at the same instant", async () => {
    for (const at of [recording.marks[1]!.time, peak, failure]) {
      const of = <T>(path: string, params: Params = {}) => get<T>(path, { ...params, at });
      const snapshot = await of<Snapshot>("/api/v1/snapshot");
      const device = snapshot.devices[0]!;
      await open(`#/overview?at=${encodeURIComponent(at)}`);
      const go = (view: string) => tab.page.evaluate((hash) => (location.hash = hash), `#/${view}${view.includes("?") ? "&" : "?"}at=${encodeURIComponent(at)}`);
      await tab.sees("h2", `${bytes(dram(snapshot))} of `);
      await go("processes");
      await tab.sees("h2", `pid ${snapshot.processes[0]!.pid} `);
      await tab.sees("tr", bytes(snapshot.processes[0]!.devices[0]!.dram_bytes));
      await go("device");
      await tab.sees("h2", `DRAM `);
      await tab.sees("h2", `${bytes(used(device.dram))} of ${bytes(device.dram.capacity_bytes)}`);
      await go("map?class=l1&core=0,0");
      const map = await of<L1Map>(`/api/v1/l1map/${deviceKey(device)}`, { x: 0, y: 0 });
      await tab.sees(".facts", `occupied ${bytes(map.cores.find((core) => core.x === 0 && core.y === 0)!.occupied_bytes)}`);
      await until("its segments", async () => (await tab.page.locator(".core tbody tr").count()) === map.core!.segments.length);
      await go("programs");
      await tab.sees("h2", counted((await of<ProgramRowPage>("/api/v1/programs")).rows.length, "program"));
      await go("buffers");
      const rows = await of<BufferRowPage>("/api/v1/buffers", { sort: "size", descending: true });
      await tab.sees("h2", `${counted(rows.matched!, "buffer")}, ${bytes(rows.matched_bytes)} on each device`);
      await tab.sees(".long .line", address(rows.rows[0]!.address));
      await go("leaks");
      const leaks = await of<Leaks>("/api/v1/leaks");
      for (const growing of leaks.growing) await tab.sees("table", shortLine(growing.line ?? growing.operation ?? ""));
      await go("failures");
      const failures = await of<Failures>("/api/v1/failures");
      if (failures.failures.length > 0) await tab.sees(".explanation", "DRAM is too small");
      else expect(await tab.page.locator(".explanation:visible").count()).toBe(0);
      await go("events");
      const last = await of<{ events: { event: string }[] }>("/api/v1/last", { count: 500 });
      await tab.sees("h2", `The last ${counted(last.events.length, "event")} before this instant`);
      await tab.sees(".long .line", last.events.at(-1)!.event);
      if (at !== failure) await tab.close();
    }
  });

  test("a slider moves the cursor without a request for every pixel", async () => {
    await open("#/buffers");
    // Before it is known what was recorded, a slider has no time to move in.
    await tab.sees("footer output", shown(recording.to));
    await tab.sees("h2", "buffers, ");
    const before = tab.requests.length;
    await tab.page.locator("footer input[type=range]").evaluate((input: HTMLInputElement) => {
      for (let value = 0; value < 1000; value += 2) {
        input.value = String(value);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }
    });
    const span = seconds(recording.to) - seconds(recording.from);
    const last = stamp(seconds(recording.from) + span * 0.998);
    await tab.sees("footer output", shown(last));
    await until("the rows of the last place", () => tab.requests.some(({ url }) => url.includes("/api/v1/buffers?") && url.includes(encodeURIComponent(last))));
    expect(tab.requests.slice(before).filter(({ url }) => url.includes("/api/v1/buffers?")).length).toBeLessThan(20);
  });

  test("device: stacked by line, operation or process, with a window", async () => {
    await open("#/device?class=dram&window=0");
    const key = deviceKey((await get<Snapshot>("/api/v1/snapshot")).devices[0]!);
    const timeline = await get<Timeline>(`/api/v1/timeline/${key}`, { class: "dram", by: "line" });
    for (const { key: line } of timeline.series) await tab.sees("table", shortLine(line!));
    await tab.sees("table", bytes(Math.max(...timeline.series[0]!.values)));
    await tab.page.locator(".chart canvas").first().waitFor();
    await tab.page.waitForTimeout(300);
    await tab.picture("timeline-dark");
    const words = () => tab.page.locator(".chart").first().getAttribute("aria-label");
    const whole = await words();
    const box = (await tab.page.locator(".chart .u-over").first().boundingBox())!;
    await tab.page.mouse.move(box.x + box.width * 0.25, box.y + 50);
    await tab.page.mouse.down();
    await tab.page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 5 });
    await tab.page.mouse.up();
    await tab.sees(".toolbar", "zoomed: show all");
    await until("the window", () => tab.requests.some(({ url }) => url.includes("/api/v1/timeline/") && url.includes("from=") && url.includes("to=")));
    const middle = seconds(recording.from) + (seconds(recording.to) - seconds(recording.from)) * 0.375;
    // Until the window is drawn, a click is in that of before.
    await until("the window's picture", async () => (await words()) !== whole);
    await tab.page.mouse.click(box.x + box.width / 2, box.y + 50);
    await until("the instant", async () => {
      const at = new URLSearchParams(tab.page.url().split("?")[1]).get("at");
      return at !== null && Math.abs(seconds(at) - middle) < 0.5;
    });
    await tab.page.keyboard.press("z");
    await tab.page.keyboard.press("b");
    await until("stacked by another", () => tab.requests.some(({ url }) => url.includes("/api/v1/timeline/") && /by=(operation|process)/.test(url)));
  });

  test("memory map: addresses over time", async () => {
    await open("#/map?class=dram&mode=time&by=line");
    const key = deviceKey((await get<Snapshot>("/api/v1/snapshot")).devices[0]!);
    const found = await get<Allocations>(`/api/v1/allocations/${key}`, { class: "dram" });
    await tab.sees("h2", counted(found.rectangles.length, "allocation"));
    await tab.sees("h2", /\d+ of them far from the others/);
    const largest = found.rectangles.toSorted((one, other) => other.per_bank_bytes - one.per_bank_bytes)[0]!;
    await tab.sees("table", bytes(largest.per_bank_bytes));
    await tab.sees("table", shortLine(largest.line!));
    await tab.page.waitForTimeout(300);
    await tab.picture("allocations-dark");
  });

  test("memory map: a bank that is taken in one piece is drawn in one", async () => {
    await open(`#/map?class=dram&at=${encodeURIComponent(recording.marks[1]!.time)}`);
    const key = deviceKey((await get<Snapshot>("/api/v1/snapshot")).devices[0]!);
    const map = await get<BlockMap>(`/api/v1/blocks/${key}`, { class: "dram", cells: 1024, at: recording.marks[1]!.time });
    await tab.sees("h2", `${bytes(map.free_bytes)} of ${bytes(map.per_bank_bytes)} free`);
    const whole = map.per_bank_bytes! / map.cells.length;
    const first = map.cells.findIndex((taken) => taken >= Math.floor(whole));
    const full = map.cells.slice(first).findIndex((taken) => taken < Math.floor(whole));
    expect(full, `full cells of ${whole} bytes from ${first}: ${map.cells.slice(0, 20)}`).toBeGreaterThan(3);
    const across = Math.ceil(map.cells.length / 16);
    const size = await tab.page.locator(".stack canvas:visible").evaluate((canvas: HTMLCanvasElement) => canvas.width);
    const wide = (size - 96) / across;
    const row = await tab.pixels(".stack canvas:visible", { x: Math.ceil(96 + (first % across) * wide) + 1, y: 10, wide: Math.floor(full * wide) - 2, high: 1 });
    expect(new Set(row)).toEqual(new Set([await tab.colour("dram")]));
  });

  test("nothing that axe calls serious", async () => {
    await open("#/overview");
    for (const view of [...VIEWS.map(([name]) => name), ...MORE]) {
      await tab.page.evaluate((hash) => (location.hash = hash), `#/${view}${view.includes("?") ? "&" : "?"}at=${encodeURIComponent(failure)}`);
      await tab.sees("footer output", shown(failure));
      await tab.page.waitForTimeout(200);
      expect(await tab.hurdles(), view).toEqual([]);
    }
  });

  test("flame graph: from the outermost call inwards", async () => {
    await open(`#/buffers?show=flame&at=${encodeURIComponent(peak)}`);
    const groups = await get<BufferGroups>("/api/v1/buffers/groups", { by: "stack", at: peak });
    await tab.sees("h2", `${counted(groups.buffers, "buffer")}, ${bytes(groups.charged_bytes)} on each device`);
    await tab.sees("table", "steps");
    await tab.page.waitForTimeout(200);
    await tab.picture("flame-dark");
    const [largest] = groups.groups;
    const inner = await tab.page.locator("table:visible td").first().innerText();
    expect(groups.groups.some((group) => group.stack?.includes(inner)), JSON.stringify(largest)).toBe(true);
    await tab.page.locator(".flame canvas").click({ position: { x: 60, y: 30 } });
    await tab.sees(".hover", /: .*%/);
    await tab.page.keyboard.press("Escape");
    await tab.sees(".hover", `all live buffers: ${bytes(groups.charged_bytes)}`);
  });

  test("the address has the exact instant: who opens it sees the same", async () => {
    await open("#/overview");
    await tab.sees("footer output", "UTC");
    await tab.page.keyboard.press("f");
    await tab.sees("footer output", shown(failure));
    await tab.page.locator("footer button", { hasText: "link" }).click();
    await until("the address", () => decodeURIComponent(tab.page.url()).includes(`at=${failure}`));
    const link = tab.page.url();
    await tab.close();
    tab = await Tab.open(browser, replay.url);
    await tab.page.goto(link);
    await tab.sees("footer output", shown(failure));
    await tab.asks(new RegExp(`/api/v1/snapshot\\?at=${encodeURIComponent(failure)}`));
  });

  test("names that are not for whoever reads are said to be hidden", async () => {
    const nameless = await Replay.start(file, { names: false });
    try {
      tab = await Tab.open(browser, nameless.url);
      await tab.go(`#/overview?at=${encodeURIComponent(peak)}`);
      await tab.sees("table", "hidden: another user's");
      await tab.sees("h2", "Operations");
      await tab.go(`#/failures?at=${encodeURIComponent(recording.to)}`);
      await tab.sees(".explanation", /pid \d+ hidden: another user's/);
      expect(await tab.text(".explanation")).not.toContain("not known");
      const said = run("explain", "--http", nameless.url);
      expect(said).toMatch(/pid \d+ hidden: another user's/);
      expect(run("top", "--once", "--view", "processes", "--http", nameless.url)).toContain("hidden: another user's");
    } finally {
      await nameless.stop();
    }
  });

  test("light, and on a phone", async () => {
    for (const look of [{ scheme: "light" as const }, { width: 390, height: 844 }]) {
      await open(`#/device?window=0&at=${encodeURIComponent(peak)}`, look);
      await tab.sees("footer output", shown(peak));
      await tab.page.waitForTimeout(300);
      await tab.picture(`recorded-${look.scheme ?? "phone"}`);
      const wide = await tab.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(wide).toBeLessThanOrEqual(0);
      if (look.scheme) await tab.close();
    }
  });
});

describe("of a report", () => {
  const REPORT = "report.html";

  beforeAll(() => {
    run("report", file, "-o", join(folder, REPORT));
  });

  test("every view is there without a server, with the figures of its instants", async () => {
    const path = join(folder, REPORT);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    tab = await Tab.open(browser, pathToFileURL(path).href);
    const go = (hash: string) => tab.page.goto(`${tab.url}#/${hash}`);
    await go("overview");
    await tab.sees("h2", `${bytes(dram(await get<Snapshot>("/api/v1/snapshot")))} of `);
    await tab.sees(".status", "report, as of");
    // Peaks and failures are instants that it has.
    await tab.page.keyboard.press("p");
    await tab.sees("footer output", clock(peak, undefined, true).slice(11));
    await tab.sees("h2", `${bytes(dram(await get<Snapshot>("/api/v1/snapshot", { at: peak })))} of `);
    const key = deviceKey((await get<Snapshot>("/api/v1/snapshot")).devices[0]!);
    const timeline = await get<Timeline>(`/api/v1/timeline/${key}`, { class: "dram", by: "line" });
    await go("device?class=dram&window=0");
    for (const { key: line } of timeline.series) await tab.sees("table", shortLine(line!));
    await go("map?class=dram&mode=time");
    await tab.sees("h2", /\d+ allocations/);
    await go(`buffers?sort=size.down&at=${encodeURIComponent(peak)}`);
    const rows = await get<BufferRowPage>("/api/v1/buffers", { sort: "size", descending: true, at: peak });
    await tab.sees(".long .line", address(rows.rows[0]!.address));
    await go(`buffers?show=flame&at=${encodeURIComponent(peak)}`);
    await tab.sees("h2", `${counted(rows.matched!, "buffer")}, `);
    await go("failures");
    await tab.sees(".explanation", "DRAM is too small");
    await go("events");
    await tab.sees("h2", /^The last \d+ events before this instant/m);
    for (const [view] of VIEWS) {
      await go(view);
      await tab.sees("main", /./);
    }
    await tab.picture("report-dark");
    expect(tab.requests.filter(({ url }) => !url.startsWith("file:") && !url.startsWith("data:"))).toEqual([]);
    tab.hosts.clear();
  });

  test("nothing that axe calls serious", async () => {
    tab = await Tab.open(browser, pathToFileURL(join(folder, REPORT)).href, { scheme: "light" });
    for (const view of [...VIEWS.map(([name]) => name), ...MORE]) {
      await tab.page.goto(`${tab.url}#/${view}`);
      await tab.sees(".status", "report, as of");
      await tab.page.waitForTimeout(200);
      expect(await tab.hurdles(), view).toEqual([]);
    }
    tab.hosts.clear();
  });

  test("nothing of it is asked of anybody, and its data end no element", () => {
    const text = readFileSync(join(folder, REPORT), "utf8");
    expect(text.match(/<script/g)?.length).toBeGreaterThanOrEqual(2);
    expect(text).not.toMatch(/(src|href)="http/);
    expect(text).toContain("default-src 'none'");
  });
});
