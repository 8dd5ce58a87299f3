/** What failed, and why? */

import type { Explanation, Failures } from "../api";
import { h, panel, replace, setText, titleOf } from "../dom";
import type { Need } from "../documents";
import { explained } from "../explanation";
import { clock, counted, ids } from "../format";
import { Table } from "../table";
import { shortLine } from "../text";
import { finds, type Context, type View } from "../view";
import { HIDDEN } from "../hidden";

const id = (failure: Explanation) => `${failure.time ?? ""} ${failure.pid ?? ""}`;

export class FailuresView implements View {
  readonly keys: [string, string][] = [
    ["[ ]", "newer, older"],
    ["Enter", "explain"],
    ["/", "find"],
  ];
  readonly words = ["allocation failed", "clash", "CB headroom", "largest fit", "bank"];
  readonly element: HTMLElement;
  private readonly table: Table<Explanation>;
  private readonly list: HTMLElement;
  private readonly detail = h("section", { class: "panel", "aria-label": "explanation" });
  private shown: Explanation[] = [];
  private drawn = "";
  private now = "";

  constructor(private readonly context: () => Context) {
    this.table = new Table<Explanation>("failures, newest first", [
      { title: "TIME (UTC)", text: (row) => clock(row.time, this.now) },
      { title: "VERDICT", text: (row) => row.verdict.replaceAll("_", " "), kind: () => "danger" },
      { title: "TIMES", numeric: true, text: (row) => String(row.times) },
      { title: "DEVICE", text: (row) => ids(row.device_ids ?? []) },
      { title: "PROCESS", hint: (row) => row.process, text: (row) => `${row.pid ?? "?"} ${row.process ?? (row.names_hidden ? HIDDEN : "")}` },
      { title: "PYTHON LINE", text: (row) => (row.python ? shortLine(row.python) : "–"), hint: (row) => row.python },
      { title: "OPERATION", text: (row) => row.operation ?? (row.names_hidden ? HIDDEN : "–") },
      { title: "WHAT HAPPENED", grows: true, text: (row) => row.sentence, hint: (row) => row.sentence },
    ], (row) => this.context().set({ params: { failure: id(row) } }));
    this.list = panel("Failures", this.table.element);
    this.element = h("div", { class: "view" }, this.list, this.detail);
  }

  needs(): Need[] {
    return [];
  }

  render(context: Context): void {
    const failures = context.documents.get<Failures>("failures");
    if (!failures) return;
    this.now = context.now;
    const find = context.params["find"];
    this.shown = failures.failures.filter((row) => finds(find, row.sentence, row.python, row.operation, row.process, row.pid));
    const chosen = this.shown.find((row) => id(row) === context.params["failure"]) ?? this.shown[0];
    const more = failures.omitted > 0 ? `, ${counted(failures.omitted, "older one")} not kept` : "";
    setText(titleOf(this.list), `${counted(this.shown.length, "failure")}${more}`);
    this.table.update(this.shown, "no failures seen", (row) => row === chosen);
    const text = JSON.stringify(chosen ?? null);
    if (text === this.drawn) return;
    this.drawn = text;
    this.detail.hidden = chosen === undefined;
    if (chosen) replace(this.detail, explained(chosen));
  }

  key(key: string, context: Context): boolean {
    if (key !== "[" && key !== "]") return false;
    const place = Math.max(0, this.shown.findIndex((row) => id(row) === context.params["failure"]));
    const next = this.shown[place + (key === "]" ? 1 : -1)];
    if (next) context.set({ params: { failure: id(next) } });
    return true;
  }
}
