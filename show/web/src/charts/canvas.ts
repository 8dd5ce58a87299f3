/** A canvas as wide as its place, sharp on every screen, that is drawn again when either changes. */

import { h } from "../dom";

export class Canvas {
  readonly element: HTMLCanvasElement;
  width = 0;
  height = 0;

  constructor(
    label: string,
    height: number,
    private readonly paint: (ctx: CanvasRenderingContext2D, width: number, height: number) => void,
  ) {
    this.element = h("canvas", { role: "img", "aria-label": label });
    this.height = height;
    this.element.style.height = `${height}px`;
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry?.contentRect.width ?? 0);
      if (width > 0 && width !== this.width) {
        this.width = width;
        this.draw();
      }
    }).observe(this.element);
  }

  resize(height: number): void {
    if (height === this.height) return;
    this.height = height;
    this.element.style.height = `${height}px`;
  }

  draw(): void {
    if (this.width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.element.width !== width) this.element.width = width;
    if (this.element.height !== height) this.element.height = height;
    const ctx = this.element.getContext("2d");
    if (!ctx) return;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, this.width, this.height);
    this.paint(ctx, this.width, this.height);
  }

  describe(label: string): void {
    this.element.setAttribute("aria-label", label);
  }
}

/** A text cut to the pixels that there are; empty if not even a few letters fit. */
export function clipped(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  if (room < 18) return "";
  const wide = ctx.measureText(text).width;
  if (wide <= room) return text;
  const signs = Math.floor((text.length * room) / wide) - 1;
  return signs < 2 ? "" : `${text.slice(0, signs)}…`;
}

/** Black or white, whichever is read better on a colour given as `#rrggbb` or `rgb(…)`. */
export function readableOn(fill: string): string {
  const parts = fill.startsWith("#")
    ? [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16))
    : (fill.match(/\d+/g) ?? []).map(Number);
  const [red = 0, green = 0, blue = 0] = parts;
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#000" : "#fff";
}
