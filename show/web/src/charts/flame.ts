/** A flame graph: which calls the bytes come from, the outermost at the top. */

import type { BufferGroup } from "../api";
import { colour, SERIES } from "../colours";
import { h, setText } from "../dom";
import { bytes, counted, percent, permille } from "../format";
import { harmless, isUsersCode, shortLine } from "../text";
import { Canvas, clipped, readableOn } from "./canvas";

export interface Frame {
  name: string;
  bytes: number;
  buffers: number;
  children: Frame[];
  parent: Frame | null;
}

/** One tree of all stacks: frames with the same callers are one. */
export function tree(groups: BufferGroup[], all: string): Frame {
  const root: Frame = { name: all, bytes: 0, buffers: 0, children: [], parent: null };
  const found = new Map<Frame, Map<string, Frame>>([[root, new Map()]]);
  for (const group of groups) {
    let frame = root;
    add(root, group);
    for (const name of group.stack ?? [group.key ?? "not known where"]) {
      const known = found.get(frame) as Map<string, Frame>;
      let next = known.get(name);
      if (!next) {
        next = { name, bytes: 0, buffers: 0, children: [], parent: frame };
        known.set(name, next);
        found.set(next, new Map());
        frame.children.push(next);
      }
      frame = next;
      add(frame, group);
    }
  }
  const sort = (frame: Frame) => {
    frame.children.sort((one, other) => other.bytes - one.bytes);
    frame.children.forEach(sort);
  };
  sort(root);
  return root;
}

function add(frame: Frame, group: BufferGroup): void {
  frame.bytes += group.charged_bytes;
  frame.buffers += group.buffers;
}

interface Box {
  frame: Frame;
  left: number;
  top: number;
  width: number;
}

const ROW = 20;

export class Flame {
  readonly element: HTMLElement;
  private readonly canvas: Canvas;
  private readonly note = h("p", { class: "hover", "aria-live": "polite" });
  private root: Frame | undefined;
  private top: Frame | undefined;
  private boxes: Box[] = [];

  constructor(private readonly onZoom: (frame: Frame) => void) {
    this.canvas = new Canvas("flame graph", 200, (ctx, width) => this.paint(ctx, width));
    this.element = h("div", { class: "flame" }, this.note, this.canvas.element);
    const { element } = this.canvas;
    element.addEventListener("mousemove", (event) => this.hover(event));
    element.addEventListener("mouseleave", () => this.say(this.top));
    element.addEventListener("click", (event) => {
      const box = this.at(event);
      if (box) this.zoom(box.frame);
    });
  }

  get zoomed(): boolean {
    return this.top !== this.root;
  }

  update(root: Frame): void {
    // The same frame of the new tree, if it is still there.
    const path: string[] = [];
    for (let frame = this.top; frame?.parent; frame = frame.parent) path.unshift(frame.name);
    let top: Frame = root;
    for (const name of path) {
      const next = top.children.find((child) => child.name === name);
      if (!next) break;
      top = next;
    }
    this.root = root;
    this.zoom(top);
  }

  zoom(frame: Frame | undefined): void {
    this.top = frame ?? this.root;
    if (!this.top) return;
    this.canvas.resize(Math.max(3, above(this.top) + depth(this.top)) * ROW + 2);
    this.canvas.draw();
    this.say(this.top);
    this.onZoom(this.top);
  }

  out(): void {
    this.zoom(this.root);
  }

  private paint(ctx: CanvasRenderingContext2D, width: number): void {
    this.boxes = [];
    if (!this.top) return;
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    const callers: Frame[] = [];
    for (let frame = this.top.parent; frame; frame = frame.parent) callers.unshift(frame);
    callers.forEach((frame, row) => this.box(ctx, frame, 0, row, width, true));
    this.branch(ctx, this.top, 0, callers.length, width);
  }

  private branch(ctx: CanvasRenderingContext2D, frame: Frame, left: number, row: number, width: number): void {
    this.box(ctx, frame, left, row, width, false);
    let next = left;
    for (const child of frame.children) {
      const wide = frame.bytes === 0 ? 0 : (width * child.bytes) / frame.bytes;
      // The largest come first: what follows is narrower still.
      if (wide < 1) break;
      this.branch(ctx, child, next, row + 1, wide);
      next += wide;
    }
  }

  private box(ctx: CanvasRenderingContext2D, frame: Frame, left: number, row: number, width: number, faint: boolean): void {
    const fill = fillOf(frame);
    ctx.globalAlpha = faint ? 0.45 : 1;
    ctx.fillStyle = fill;
    ctx.fillRect(left, row * ROW, Math.max(1, width - 1), ROW - 1);
    ctx.globalAlpha = 1;
    ctx.fillStyle = faint ? colour("text") : readableOn(fill);
    ctx.fillText(clipped(ctx, harmless(label(frame)), width - 8), left + 4, row * ROW + ROW / 2);
    this.boxes.push({ frame, left, top: row * ROW, width });
  }

  private at(event: MouseEvent): Box | undefined {
    const { offsetX: x, offsetY: y } = event;
    return this.boxes.find((box) => y >= box.top && y < box.top + ROW && x >= box.left && x < box.left + box.width);
  }

  private hover(event: MouseEvent): void {
    const box = this.at(event);
    this.canvas.element.style.cursor = box ? "pointer" : "default";
    this.say(box?.frame ?? this.top);
  }

  private say(frame: Frame | undefined): void {
    if (!frame || !this.root) return;
    const share = percent(permille(frame.bytes, this.root.bytes));
    setText(this.note, `${frame.name}: ${bytes(frame.bytes)}, ${share}, ${counted(frame.buffers, "buffer")}`);
  }
}

function label(frame: Frame): string {
  const called = /^.*:\d+ (.+)$/.exec(frame.name)?.[1];
  const name = called === undefined ? frame.name : `${called} ${shortLine(frame.name)}`;
  return `${name} · ${bytes(frame.bytes)}`;
}

function depth(frame: Frame): number {
  return 1 + Math.max(0, ...frame.children.map(depth));
}

function above(frame: Frame): number {
  return frame.parent ? 1 + above(frame.parent) : 0;
}

/** Frames of one file have one colour; libraries are grey. */
function fillOf(frame: Frame): string {
  if (frame.parent === null || !isUsersCode(frame.name)) return colour("series-none");
  const file = frame.name.split(":")[0] ?? "";
  let hash = 0;
  for (const sign of file) hash = (hash * 31 + sign.charCodeAt(0)) >>> 0;
  return colour(`series-${hash % SERIES}`);
}
