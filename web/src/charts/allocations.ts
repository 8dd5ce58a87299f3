/** The allocator over time: addresses of a bank against time, each buffer a rectangle. */

import type { Rectangle } from "../api";
import { colour, type Palette } from "../colours";
import { h, setText } from "../dom";
import { address, bytes, clock, duration, hex, seconds, stamp } from "../format";
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
    for (const { rectangle, from: start, to: end } of this.placed) {
      const [left, right] = [x(start), x(end)];
      const [upper, lower] = [y(rectangle.address + rectangle.per_bank_bytes), y(rectangle.address)];
      ctx.fillStyle = picture.palette.colour(picture.key(rectangle));
      ctx.fillRect(left, upper, Math.max(right - left, 0.7), Math.max(lower - upper, 0.7));
      // A border is not to look like a hole.
      if (lower - upper > 16 && right - left > 16) {
        ctx.strokeStyle = colour("panel");
        ctx.lineWidth = 0.5;
        ctx.strokeRect(left, upper, right - left, lower - upper);
      }
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

/** A buffer in a line. */
export function describe(rectangle: Rectangle, end: number): string {
  const parts = [
    `${bytes(rectangle.per_bank_bytes)} per bank at ${address(rectangle.address)}`,
    rectangle.line ? shortLine(rectangle.line) : null,
    rectangle.operation,
    rectangle.pid === null ? null : `pid ${rectangle.pid}`,
    end === Infinity
      ? `since ${clock(rectangle.from, rectangle.from)}`
      : `${clock(rectangle.from, rectangle.from)}, for ${duration(end - seconds(rectangle.from))}`,
  ];
  return parts.filter((part) => part !== null).join(" · ");
}
