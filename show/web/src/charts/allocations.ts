/** The allocator over time: addresses of a bank against time, each buffer a rectangle. */

import type { Rectangle } from "../api";
import { colour, type Palette } from "../colours";
import { h, setText } from "../dom";
import { address, bytes, clock, hex, lasted, seconds, stamp } from "../format";
import { shortLine } from "../text";
import { Canvas } from "./canvas";

export interface AllocationPicture {
  rectangles: Rectangle[];
  from: number;
  to: number;
  base: number;
  top: number;
  at: number | null;
  palette: Palette;
  key: (rectangle: Rectangle) => string | null;
  summary: string;
}

const LEFT = 92;
const BOTTOM = 20;
const THINNEST = 0.7;
/** Pixels in both directions from which on a rectangle has a border. */
const BORDERED = 16;

interface Placed {
  rectangle: Rectangle;
  from: number;
  to: number;
}

export class AllocationMap {
  readonly element: HTMLElement;
  private readonly canvas: Canvas;
  private readonly note = h("p", { class: "hover", "aria-live": "polite" });
  private picture: AllocationPicture | undefined;
  private placed: Placed[] = [];
  private drag: number | undefined;
  private dragged: number | undefined;

  constructor(
    private readonly onWindow: (from: number | null, to: number | null) => void,
    private readonly onInstant: (time: number) => void,
  ) {
    this.canvas = new Canvas("allocator map over time", 440, (ctx, width, height) => this.paint(ctx, width, height));
    this.element = h("div", { class: "allocations" }, this.note, this.canvas.element);
    const { element } = this.canvas;
    element.addEventListener("mousemove", (event) => this.hover(event));
    element.addEventListener("mouseleave", () => setText(this.note, this.hint));
    element.addEventListener("mousedown", (event) => (this.drag = event.offsetX));
    element.addEventListener("mouseup", (event) => this.release(event));
    element.addEventListener("dblclick", () => this.onWindow(null, null));
    setText(this.note, this.hint);
  }

  private readonly hint = "drag: zoom in time · click: look at that instant · double click: all";

  update(picture: AllocationPicture): void {
    this.picture = picture;
    this.placed = picture.rectangles.map((rectangle) => ({
      rectangle,
      from: seconds(rectangle.from),
      to: rectangle.to === null ? Infinity : seconds(rectangle.to),
    }));
    this.canvas.describe(picture.summary);
    this.canvas.draw();
  }

  private paint(ctx: CanvasRenderingContext2D, width: number, height: number): void {
    const picture = this.picture;
    if (!picture) return;
    const { from, to, base, top } = picture;
    const [wide, high] = [width - LEFT, height - BOTTOM];
    const x = (time: number) => LEFT + (wide * (Math.min(Math.max(time, from), to) - from)) / Math.max(to - from, 1e-9);
    const y = (place: number) => high - (high * (place - base)) / Math.max(top - base, 1);
    ctx.fillStyle = colour("sunken");
    ctx.fillRect(LEFT, 0, wide, high);
    ctx.strokeStyle = colour("panel");
    ctx.lineWidth = 0.5;
    for (const { rectangle, from: start, to: end } of this.placed) {
      if (rectangle.address >= top || rectangle.address < base) continue;
      const box = boxOf(rectangle, [x(start), x(end)], y);
      ctx.fillStyle = picture.palette.colour(picture.key(rectangle));
      ctx.fillRect(box.left, box.top, box.wide, box.high);
      if (box.bordered) ctx.strokeRect(box.left, box.top, box.wide, box.high);
    }
    this.axes(ctx, width, high, x, y);
    if (picture.at !== null) this.upright(ctx, x(picture.at), high, colour("text"));
    if (this.drag !== undefined && this.dragged !== undefined && Math.abs(this.dragged - this.drag) > 5) {
      ctx.globalAlpha = 0.25;
      ctx.fillStyle = colour("text");
      ctx.fillRect(this.drag, 0, this.dragged - this.drag, high);
      ctx.globalAlpha = 1;
    }
  }

  private axes(
    ctx: CanvasRenderingContext2D,
    width: number,
    high: number,
    x: (time: number) => number,
    y: (place: number) => number,
  ): void {
    const { from, to, base, top } = this.picture as AllocationPicture;
    ctx.font = "11px system-ui, sans-serif";
    ctx.fillStyle = colour("faint");
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (let part = 0; part <= 4; part += 1) {
      const place = base + ((top - base) * part) / 4;
      const level = Math.min(Math.max(y(place), 7), high - 6);
      ctx.fillText(hex(Math.round(place)), LEFT - 6, level);
    }
    ctx.textBaseline = "alphabetic";
    const labels = Math.max(2, Math.floor(width / 160));
    for (let part = 0; part <= labels; part += 1) {
      const time = from + ((to - from) * part) / labels;
      ctx.textAlign = part === 0 ? "left" : part === labels ? "right" : "center";
      ctx.fillText(clock(stamp(time), stamp(time), to - from < 20), x(time), high + 15);
    }
    ctx.textAlign = "left";
  }

  private upright(ctx: CanvasRenderingContext2D, left: number, high: number, ink: string): void {
    ctx.strokeStyle = ink;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(Math.round(left) + 0.5, 0);
    ctx.lineTo(Math.round(left) + 0.5, high);
    ctx.stroke();
  }

  private time(offset: number): number {
    const { from, to } = this.picture as AllocationPicture;
    return from + ((to - from) * Math.max(0, offset - LEFT)) / Math.max(1, this.canvas.width - LEFT);
  }

  private release(event: MouseEvent): void {
    const start = this.drag;
    this.drag = this.dragged = undefined;
    if (!this.picture || start === undefined) return;
    if (Math.abs(event.offsetX - start) > 5) {
      const [from, to] = [this.time(start), this.time(event.offsetX)].sort((one, other) => one - other);
      this.onWindow(from as number, to as number);
    } else if (event.offsetX > LEFT) {
      this.onInstant(this.time(event.offsetX));
    }
    this.canvas.draw();
  }

  private hover(event: MouseEvent): void {
    const picture = this.picture;
    if (!picture) return;
    if (this.drag !== undefined) {
      this.dragged = event.offsetX;
      this.canvas.draw();
    }
    const high = this.canvas.height - BOTTOM;
    const place = picture.base + ((high - event.offsetY) / high) * (picture.top - picture.base);
    const time = this.time(event.offsetX);
    // What lies on top was drawn last.
    const found = this.placed.findLast(
      ({ rectangle, from, to }) =>
        time >= from && time <= to && place >= rectangle.address && place < rectangle.address + rectangle.per_bank_bytes,
    );
    if (!found) return setText(this.note, this.hint);
    setText(this.note, describe(found.rectangle, found.to));
  }
}

/** Where a buffer is drawn: from its first address to that of the next, without a gap, and never too thin to be seen. */
export function boxOf(rectangle: Rectangle, [left, right]: [number, number], y: (place: number) => number) {
  const [top, bottom] = [y(rectangle.address + rectangle.per_bank_bytes), y(rectangle.address)];
  const [wide, high] = [right - left, bottom - top];
  // A border is not to look like a hole: what is small has none.
  return { left, top, wide: Math.max(wide, THINNEST), high: Math.max(high, THINNEST), bordered: wide > BORDERED && high > BORDERED };
}

/** Of two heaps at both ends of a bank the small one is left out if it has less than this share of the bytes. */
const SMALL_HEAP = 0.1;

/**
 * From where to where: the whole bank if that is to be seen, or else what was used. Allocators place from both ends: where
 * most of the picture would be the gap between, it has the heap with nearly all of the bytes, and says how many are beyond.
 */
export function addresses(rectangles: Rectangle[], bank: { base: number | null; per_bank_bytes: number | null } | undefined): { base: number; top: number; beyond: number } {
  const end = (each: Rectangle) => each.address + each.per_bank_bytes;
  const sorted = [...rectangles].sort((one, other) => one.address - other.address);
  const base = sorted[0]?.address ?? bank?.base ?? 0;
  const top = sorted.reduce((most, each) => Math.max(most, end(each)), base + 1);
  if (bank) {
    const start = Math.min(base, bank.base ?? base);
    return { base: start, top: Math.max(top, start + (bank.per_bank_bytes ?? 1)), beyond: 0 };
  }
  // The widest gap, and what lies below it.
  let [gap, below, reached] = [0, 0, base];
  for (const [place, each] of sorted.entries()) {
    if (each.address - reached > gap) [gap, below] = [each.address - reached, place];
    reached = Math.max(reached, end(each));
  }
  const bytesOf = (heap: Rectangle[]) => heap.reduce((sum, each) => sum + each.per_bank_bytes, 0);
  const [low, high] = [sorted.slice(0, below), sorted.slice(below)];
  const share = bytesOf(high) / Math.max(1, bytesOf(sorted));
  if (gap < (top - base) / 2 || (share > SMALL_HEAP && share < 1 - SMALL_HEAP)) return { base, top, beyond: 0 };
  const [kept, beyond] = share <= SMALL_HEAP ? [low, high] : [high, low];
  return { base: kept[0]?.address ?? base, top: kept.reduce((most, each) => Math.max(most, end(each)), 0), beyond: beyond.length };
}

/** A buffer in a line. */
export function describe(rectangle: Rectangle, end: number): string {
  const parts = [
    `${bytes(rectangle.per_bank_bytes)} per bank at ${address(rectangle.address)}`,
    rectangle.line ? shortLine(rectangle.line) : null,
    rectangle.operation,
    rectangle.pid === null ? null : `pid ${rectangle.pid}`,
    end === Infinity
      ? `since ${clock(rectangle.from, rectangle.from)}`
      : `${clock(rectangle.from, rectangle.from)}, for ${lasted(end - seconds(rectangle.from))}`,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}
