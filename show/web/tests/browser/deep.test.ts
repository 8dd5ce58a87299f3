/** A long recording in a browser: ten million events in `cargo xtask soak page`, fewer otherwise. */

import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { BufferGroups, Recording } from "../../src/api";
import { clock, counted, count, seconds, stamp } from "../../src/format";
import { MOST_TASK_MILLIS, launch, remove, Replay, scenario, SOAK_MINUTES, Tab, tasks, temporary, TTMEM, until } from "./harness";

const MINUTES = Math.min(SOAK_MINUTES, 10);
const ROUNDS = MINUTES > 0 ? 800 : 4;
const LIVE = 100_000;

test("a long recording: no long task while scrolling and moving the cursor, and nothing grows", async () => {
  const folder = temporary();
  const browser = await launch();
  const file = join(folder, "deep.ttrec");
  writeFileSync(join(folder, "deep.toml"), readFileSync(scenario("deep"), "utf8").replace(/^rounds = \d+/m, `rounds = ${ROUNDS}`));
  await promisify(execFile)(TTMEM, ["demo", "--headless", "--scenario", join(folder, "deep.toml"), "--record", file]);
  const replay = await Replay.start(file);
  try {
    const recording = await replay.get<Recording>("/api/v1/recording");
    expect(recording.events).toBeGreaterThan(MINUTES > 0 ? 10_000_000 : LIVE);
    // From the first mark on, the large number of buffers lives.
    const [from, to] = [seconds(recording.marks[0]!.time), seconds(recording.failures[0]!.time)];
    const instant = (share: number) => stamp(from + (to - from) * share);
    const live = await replay.get<BufferGroups>(`/api/v1/buffers/groups?by=operation&at=${encodeURIComponent(instant(0.5))}`);
    expect(live.buffers).toBeGreaterThanOrEqual(LIVE);

    const tab = await Tab.open(browser, replay.url);
    await tab.go(`#/buffers?at=${encodeURIComponent(instant(0.5))}`);
    await tab.sees("h2", counted(live.buffers, "buffer"));
    await look(tab, instant);
    const before = await tab.weight();
    const end = Date.now() + MINUTES * 60_000;
    const longest = { processor: 0, clock: 0 };
    let rounds = 0;
    do {
      const task = await tasks(browser, tab, () => look(tab, instant));
      longest.processor = Math.max(longest.processor, task.processor);
      longest.clock = Math.max(longest.clock, task.clock);
      rounds += 1;
    } while (Date.now() < end);
    const after = await tab.weight();
    console.log(
      `${count(recording.events)} recorded events, ${count(live.buffers)} live buffers, ${counted(rounds, "round")}: ` +
        `longest task ${Math.round(longest.processor)} ms of processor time, ${Math.round(longest.clock)} ms by the clock; ` +
        `${JSON.stringify(before)} then ${JSON.stringify(after)}`,
    );
    expect(longest.processor).toBeLessThanOrEqual(MOST_TASK_MILLIS);
    expect(after.nodes).toBeLessThan(Math.max(before.nodes * 1.5, 6000));
    expect(after.listeners).toBeLessThan(before.listeners * 1.5 + 200);
    expect(after.heap).toBeLessThan(before.heap * 1.5 + 8 * 2 ** 20);
    await tab.close();
    // A server that is looked at faster than it can look back says so, and is asked again.
    expect(tab.faults.filter((fault) => !fault.includes("status of 503"))).toEqual([]);
  } finally {
    await replay.stop();
    await browser.close();
    remove(folder);
  }
}, (MINUTES + 15) * 60_000);

/** Scrolls through all buffers, drags the cursor over the whole time, and goes through the views at some instants. */
async function look(tab: Tab, instant: (share: number) => string): Promise<void> {
  await tab.page.keyboard.press("6");
  await tab.sees("h2", "buffers, ");
  const scroller = tab.page.locator(".long:visible").first();
  for (let step = 0; step < 20; step += 1) {
    await scroller.evaluate((element, share) => (element.scrollTop = element.scrollHeight * share), ((step * 7) % 20) / 20);
    await tab.page.waitForTimeout(50);
  }
  const slider = tab.page.locator("footer input[type=range]");
  for (let step = 0; step < 20; step += 1) {
    await slider.evaluate((input: HTMLInputElement, value) => {
      input.value = String(value);
      input.dispatchEvent(new Event("input", { bubbles: true }));
    }, 1000 - step * 37);
    await tab.page.waitForTimeout(50);
  }
  for (const [place, view] of ["overview", "device?class=dram&window=0", "map?class=dram&mode=time", "map?class=l1&mode=now", "buffers?show=flame", "events", "programs", "leaks", "buffers?show=list"].entries()) {
    const at = instant((place + 1) / 10);
    const hash = `#/${view}${view.includes("?") ? "&" : "?"}at=${encodeURIComponent(at)}`;
    // The page writes its own address a moment after the slider was moved, which may be over this one.
    await until("the instant", async () => {
      await tab.page.evaluate((wanted) => (location.hash = wanted), hash);
      return (await tab.text("footer output")).includes(clock(at, undefined, true).slice(11));
    });
    await tab.page.waitForTimeout(250);
  }
}
