/** The time cursor: one for all views. Without it the page shows now. */

import type { Recording } from "./api";
import { Canvas } from "./charts/canvas";
import { colour } from "./colours";
import { h, setText } from "./dom";
import { clock, duration, seconds, stamp } from "./format";
import { peaksOf } from "./timeline";
import type { Context } from "./view";
import { parse, write } from "./state";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300];
const TICK = 200;
/** Half of the slider's thumb: its middle goes from here to as far from the end. */
const THUMB = 8;

export class TimeBar {
  readonly element: HTMLElement;
  private readonly slider = h("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": "time cursor" });
  private readonly ticks: Canvas;
  private readonly text = h("output", { class: "number" });
  private readonly play = h("button", { type: "button", title: "play and pause: Space", onclick: () => this.toggle() });
  private readonly speedText = h("span", { class: "faint number", title: "speed: < >" });
  private readonly live = h("button", { type: "button", onclick: () => this.toNow() }, "now");
  private readonly none = h("p", { class: "faint" }, "live only: this server is not recording");
  private readonly controls: HTMLElement;
  private speed = 3;
  private timer: number | undefined;
  private recording: Recording | undefined;

  constructor(private readonly context: () => Context) {
    this.ticks = new Canvas("marks, failures and peaks in time", 10, (ctx, width, height) => this.paint(ctx, width, height));
    this.ticks.element.setAttribute("aria-hidden", "true");
    const button = (text: string, label: string, key: string) =>
      h("button", { type: "button", title: `${label}: ${key}`, "aria-label": label, onclick: () => this.key(key) }, text);
    this.controls = h(
      "div",
      { class: "timebar" },
      h("div", { class: "choice", role: "group", "aria-label": "play" }, button("◂", "step back", ","), this.play, button("▸", "step on", ".")),
      h("div", { class: "speed" }, button("−", "slower", "<"), this.speedText, button("+", "faster", ">")),
      h("div", { class: "rail" }, this.ticks.element, this.slider),
      this.text,
      h("div", { class: "choice", role: "group", "aria-label": "jump" }, button("peak", "to the peak", "p"), button("failure", "next failure", "f"), button("mark", "next mark", "'")),
      this.live,
      h("button", { type: "button", title: "copy the address of this instant", onclick: () => void this.link() }, "link"),
    );
    this.slider.addEventListener("input", () => this.scrub(Number(this.slider.value) / 1000));
    this.element = h("footer", { "aria-label": "time" }, this.controls, this.none);
  }

  render(context: Context): void {
    const recording = context.recording;
    this.recording = recording;
    this.controls.hidden = recording === undefined;
    this.none.hidden = recording !== undefined;
    if (!recording) return;
    const [from, to] = [seconds(recording.from), seconds(recording.to)];
    const at = this.cursor();
    const place = Math.round(((at ?? to) - from) * 1000 / Math.max(to - from, 0.001));
    if (document.activeElement !== this.slider || Math.abs(Number(this.slider.value) - place) > 1) this.slider.value = String(place);
    const instant = at === null ? recording.to : stamp(at);
    const isFile = recording.source === "file";
    const text = at === null && !isFile ? "now" : `${clock(instant, undefined, true)} UTC`;
    setText(this.text, text);
    this.slider.setAttribute("aria-valuetext", text);
    setText(this.play, this.timer === undefined ? "play" : "pause");
    setText(this.speedText, `×${SPEEDS[this.speed]}`);
    setText(this.live, isFile ? "end" : "now");
    this.live.disabled = at === null;
    this.text.title = `recorded from ${clock(recording.from)} to ${clock(recording.to)} UTC, ${duration(to - from)}`;
    this.ticks.draw();
  }

  /** Whether a key moved the cursor. */
  key(key: string): boolean {
    const recording = this.recording;
    if (!recording) return false;
    const span = seconds(recording.to) - seconds(recording.from);
    const step = span > 20 ? 1 : span > 2 ? 0.1 : 0.01;
    const at = this.cursor() ?? seconds(recording.to);
    if (key === ",") this.move(at - step);
    else if (key === ".") this.move(at + step);
    else if (key === " ") this.toggle();
    else if (key === "<") this.setSpeed(-1);
    else if (key === ">") this.setSpeed(1);
    else if (key === "p") this.jump(peaksOf(this.context()).slice(0, 1).map((peak) => peak.time), -Infinity);
    else if (key === "f") this.jump(recording.failures.map((failure) => failure.time), at);
    else if (key === "'") this.jump(recording.marks.map((mark) => mark.time), at);
    else return false;
    return true;
  }

  private cursor(): number | null {
    const at = this.context().params["at"];
    return at === undefined ? null : seconds(at);
  }

  private move(time: number): void {
    const recording = this.recording;
    if (!recording) return;
    const [from, to] = [seconds(recording.from), seconds(recording.to)];
    if (time >= to) return this.toNow();
    this.context().set({ params: { at: stamp(Math.max(from, time)) } });
  }

  private scrub(share: number): void {
    const recording = this.recording;
    if (!recording) return;
    const [from, to] = [seconds(recording.from), seconds(recording.to)];
    this.move(from + (to - from) * share);
  }

  private toNow(): void {
    this.stop();
    this.context().set({ params: { at: null } });
  }

  /** Holds the instant that is shown, so that the page's address has it, and copies the address where a browser lets pages do that. */
  private async link(): Promise<void> {
    const { params, now, set } = this.context();
    this.stop();
    const at = params["at"] ?? now;
    if (at !== "") set({ params: { at } });
    const address = new URL(location.href);
    address.hash = write({ view: parse(address.hash).view, params: { ...params, at } });
    try {
      await navigator.clipboard.writeText(address.href);
    } catch {
      // Over plain HTTP from another machine: the address bar has it.
    }
  }

  private toggle(): void {
    if (this.timer !== undefined) this.stop();
    else this.start();
    this.render(this.context());
  }

  private start(): void {
    const recording = this.recording;
    if (!recording) return;
    // From the end there is nothing to play: from the beginning.
    if (this.cursor() === null) this.context().set({ params: { at: recording.from } });
    this.timer = window.setInterval(() => {
      const at = this.cursor();
      if (at === null) return this.stop();
      this.move(at + ((SPEEDS[this.speed] ?? 1) * TICK) / 1000);
    }, TICK);
  }

  private stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private setSpeed(step: number): void {
    this.speed = Math.min(SPEEDS.length - 1, Math.max(0, this.speed + step));
    this.render(this.context());
  }

  /** To the next of some times, and from the last to the first. */
  private jump(times: string[], after: number): void {
    const sorted = times.map((time) => [seconds(time), time] as const).sort(([one], [other]) => one - other);
    const next = sorted.find(([time]) => time > after + 1e-3) ?? sorted[0];
    if (next) this.context().set({ params: { at: next[1] } });
  }

  private paint(ctx: CanvasRenderingContext2D, width: number, height: number): void {
    const recording = this.recording;
    if (!recording) return;
    const [from, to] = [seconds(recording.from), seconds(recording.to)];
    const draw = (times: string[], ink: string) => {
      ctx.fillStyle = colour(ink);
      for (const time of times) ctx.fillRect(THUMB + ((seconds(time) - from) * (width - 2 * THUMB)) / Math.max(to - from, 0.001), 0, 1.5, height);
    };
    draw(recording.marks.slice(-500).map((mark) => mark.time), "key");
    draw(peaksOf(this.context()).map((peak) => peak.time), "peak");
    draw(recording.failures.slice(-500).map((failure) => failure.time), "danger");
  }
}
