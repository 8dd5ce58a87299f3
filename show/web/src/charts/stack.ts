/** Bytes over time, stacked: with marks, failures and the time cursor; a drag chooses a window. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colour } from "../colours";
import { h } from "../dom";
import { bytes, clock, stamp } from "../format";

export interface Layer {
  label: string;
  /** The name of a colour of style.css. */
  colour: string;
  values: (number | null)[];
}

export interface Moment {
  time: number;
  label: string;
  kind: "mark" | "failure" | "peak";
}

export interface Stack {
  /** The edges of the steps in seconds: one more than there are values. */
  times: number[];
  layers: Layer[];
  capacity: number | null;
  moments: Moment[];
  /** The time cursor. */
  at: number | null;
  /** What the chart says to those who do not see it. */
  summary: string;
}

export interface StackOptions {
  height: number;
  /** A window was chosen by dragging; null to see all. */
  onWindow?: (from: number | null, to: number | null) => void;
  /** An instant was chosen by a click. */
  onInstant?: (time: number) => void;
  /** The step under the pointer, or null. */
  onHover?: (step: number | null) => void;
  /** Figures of the axis; bytes if not given. */
  text?: (value: number) => string;
  /** Fewer words and lines: a small picture among others. */
  small?: boolean;
  /** Reaches to the capacity however little is used: pictures that are compared. */
  whole?: boolean;
}

const INCREMENTS = Array.from({ length: 51 }, (_, power) => 2 ** power);
const COUNTS = Array.from({ length: 30 }, (_, n) => [1, 2, 5][n % 3]! * 10 ** Math.floor(n / 3));

export class StackChart {
  readonly element: HTMLElement;
  private plot: uPlot | undefined;
  private shape = "";
  private stack: Stack | undefined;
  private width = 0;

  constructor(private readonly options: StackOptions) {
    // Before there is something to draw it is a picture as well.
    this.element = h("div", { class: options.small ? "chart small" : "chart", role: "img", "aria-label": "a graph over time: nothing yet" });
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry?.contentRect.width ?? 0);
      if (width === this.width || width === 0) return;
      this.width = width;
      if (this.plot) this.plot.setSize({ width, height: this.options.height });
      else if (this.stack) this.draw(this.stack);
    }).observe(this.element);
  }

  /** How many steps are worth asking for. */
  get steps(): number {
    return Math.max(60, Math.min(600, Math.floor((this.width || 600) / 2)));
  }

  draw(stack: Stack): void {
    this.stack = stack;
    this.element.setAttribute("aria-label", stack.summary);
    if (this.width === 0) return;
    const shape = JSON.stringify([stack.layers.map((layer) => layer.colour), document.documentElement.dataset["theme"]]);
    const data = stacked(stack);
    if (!this.plot || shape !== this.shape) {
      this.plot?.destroy();
      this.shape = shape;
      this.plot = new uPlot(this.settings(stack), data, this.element);
    } else {
      this.plot.setData(data);
    }
  }

  destroy(): void {
    this.plot?.destroy();
  }

  private settings(stack: Stack): uPlot.Options {
    const { onWindow, onInstant, onHover, small } = this.options;
    const text = this.options.text ?? ((value: number) => bytes(Math.round(value)));
    const [ink, line] = [colour("faint"), colour("line")];
    const font = "11px system-ui, sans-serif";
    const steps = uPlot.paths.stepped?.({ align: 1 });
    // The topmost layer is drawn first, each lower one over it.
    const layers = [...stack.layers].reverse().map((layer): uPlot.Series => {
      const fill = colour(layer.colour);
      return { label: layer.label, stroke: fill, fill, width: 0, paths: steps, points: { show: false } };
    });
    const axis = { stroke: ink, font, ticks: { show: false }, border: { show: false } };
    return {
      width: this.width,
      height: this.options.height,
      legend: { show: false },
      padding: [small ? 4 : 16, 30, 0, 0],
      scales: {
        x: { time: true },
        y: { range: (_plot, _low, high) => [0, this.top(high)] },
      },
      series: [{}, ...layers],
      axes: [
        { ...axis, size: 22, space: 90, grid: { show: false }, values: (_plot, splits) => timeLabels(splits) },
        {
          ...axis,
          size: 70,
          space: small ? 24 : 32,
          incrs: this.options.text ? COUNTS : INCREMENTS,
          grid: { stroke: line, width: 1 },
          values: (_plot, splits) => splits.map(text),
        },
      ],
      tzDate: (time) => {
        const date = new Date(time * 1000);
        return new Date(date.getTime() + date.getTimezoneOffset() * 60_000);
      },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: onWindow !== undefined, y: false, setScale: false, dist: 6 },
        bind: {
          dblclick: () => () => {
            onWindow?.(null, null);
            return null;
          },
        },
      },
      select: { show: true, left: 0, top: 0, width: 0, height: 0 },
      hooks: {
        // The click that ends a drag does not get here: uPlot stops it.
        ready: [(plot) => plot.over.addEventListener("click", (event) => onInstant?.(plot.posToVal(event.offsetX, "x")))],
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < 6) return;
            onWindow?.(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [(plot) => onHover?.(this.step(plot.cursor.idx ?? null))],
        draw: [(plot) => this.annotate(plot)],
      },
    };
  }

  private step(index: number | null): number | null {
    const values = this.stack?.layers[0]?.values.length ?? 0;
    return index === null ? null : Math.min(index, values - 1);
  }

  private top(high: number | null): number {
    return scaleOf(high, this.stack?.capacity ?? null, this.options.whole ?? false);
  }

  private annotate(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const stack = this.stack;
    if (!stack) return;
    const ratio = uPlot.pxRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, 0, bbox.width, bbox.top + bbox.height);
    ctx.clip();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    if (stack.capacity !== null) {
      this.level(plot, stack.capacity);
    }
    let free = -Infinity;
    for (const [left, moment] of apart(stack.moments, (time) => plot.valToPos(time, "x", true), APART * ratio)) {
      if (left < bbox.left || left > bbox.left + bbox.width) continue;
      const name = moment.kind === "failure" ? "danger" : moment.kind === "peak" ? "peak" : "key";
      this.upright(ctx, left, bbox, colour(name), moment.kind === "failure" ? [] : [3 * ratio, 3 * ratio]);
      const label = moment.kind === "failure" ? `✗ ${moment.label}` : moment.label;
      if (left < free || this.options.small) continue;
      ctx.fillStyle = colour(name);
      ctx.fillText(label, left + 3 * ratio, bbox.top - 4 * ratio);
      free = left + ctx.measureText(label).width + 12 * ratio;
    }
    if (stack.at !== null) this.upright(ctx, plot.valToPos(stack.at, "x", true), bbox, colour("text"), []);
    ctx.restore();
  }

  /** The line of the capacity with its name; where it lies above the graph, the words alone. */
  private level(plot: uPlot, value: number): void {
    const { ctx, bbox } = plot;
    const ratio = uPlot.pxRatio;
    const top = plot.valToPos(value, "y", true);
    const isAbove = top < bbox.top;
    if (!isAbove) {
      ctx.strokeStyle = colour("faint");
      ctx.lineWidth = ratio;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, top);
      ctx.lineTo(bbox.left + bbox.width, top);
      ctx.stroke();
    }
    const words = capacityWords(value, isAbove);
    const [wide, high] = [ctx.measureText(words).width, 13 * ratio];
    const [left, base] = [bbox.left + bbox.width - wide - 4 * ratio, (isAbove ? bbox.top : top) + high];
    // Readable over whatever is drawn there.
    ctx.fillStyle = colour("panel");
    ctx.globalAlpha = 0.75;
    ctx.fillRect(left - 3 * ratio, base - 11 * ratio, wide + 6 * ratio, high + 1 * ratio);
    ctx.globalAlpha = 1;
    ctx.fillStyle = colour("text");
    ctx.fillText(words, left, base);
  }

  private upright(ctx: CanvasRenderingContext2D, left: number, bbox: uPlot.BBox, ink: string, dash: number[]): void {
    ctx.strokeStyle = ink;
    ctx.lineWidth = uPlot.pxRatio;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(Math.round(left) + 0.5, bbox.top);
    ctx.lineTo(Math.round(left) + 0.5, bbox.top + bbox.height);
    ctx.stroke();
  }
}

/**
 * The top of the scale: the whole memory, as in the terminal view, or as much more as is used. A graph that shows details ends
 * where its curve does while that is below a half.
 */
export function scaleOf(high: number | null, capacity: number | null, whole: boolean): number {
  const needed = Math.max(high ?? 0, 1) * 1.08;
  if (capacity === null || (!whole && needed <= capacity / 2)) return needed;
  return Math.max(capacity, high ?? 0, 1);
}

export function capacityWords(capacity: number, isAbove: boolean): string {
  return isAbove ? `capacity ${bytes(capacity)}, above this graph` : `capacity ${bytes(capacity)}`;
}

/** Pixels between two marks that are drawn. */
const APART = 5;

/** The moments that are drawn, with their places: of marks so near to each other that they would hide the graph the first, and all failures. */
export function apart(moments: Moment[], place: (time: number) => number, least: number): [left: number, moment: Moment][] {
  let last = -Infinity;
  return moments.flatMap((moment): [number, Moment][] => {
    const left = place(moment.time);
    if (moment.kind !== "failure" && left - last < least) return [];
    if (moment.kind !== "failure") last = left;
    return [[left, moment]];
  });
}

/** Each layer with all below it; the last value stands to the end of its step. */
export function stacked(stack: Stack): uPlot.AlignedData {
  const steps = Math.max(0, stack.times.length - 1);
  const sums: (number | null)[][] = [];
  let below: (number | null)[] = new Array<number | null>(steps).fill(null);
  for (const layer of stack.layers) {
    below = below.map((sum, step) => {
      const value = layer.values[step] ?? null;
      return value === null ? sum : (sum ?? 0) + value;
    });
    sums.push([...below, below[steps - 1] ?? null]);
  }
  return [stack.times, ...sums.reverse()] as uPlot.AlignedData;
}

function timeLabels(splits: number[]): string[] {
  const [first = 0, second = first + 1] = splits;
  const step = second - first;
  return splits.map((split) => {
    const text = clock(stamp(split), stamp(split), step < 1);
    return step >= 60 ? text.slice(0, 5) : text;
  });
}
