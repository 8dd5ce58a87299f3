/** Tables: short ones whole, long ones as far as they are on the screen. */

import { h, setText } from "./dom";

export interface Column<R> {
  title: string;
  text: (row: R) => string;
  /** Aligned to the right, with figures of one width. */
  numeric?: boolean;
  /** Of a short table: takes the room that others leave. */
  grows?: boolean;
  /** A track of a CSS grid, for long tables. */
  width?: string;
  /** What the server calls this order. */
  sort?: string;
  /** A longer text than there is room for. */
  hint?: (row: R) => string | null;
  /** A class of the cell: a kind of memory, a warning. */
  kind?: (row: R) => string | null;
}

export interface Sorted {
  column: string;
  descending: boolean;
}

/** Rows beyond so many are counted in the last line. */
const MOST_ROWS = 200;

let tables = 0;

/** A table of rows that are all here; a row can be opened. */
export class Table<R> {
  readonly element: HTMLElement;
  private readonly body: HTMLTableSectionElement;
  private readonly note = h("p", { class: "faint note" });
  private rows: R[] = [];

  constructor(
    caption: string,
    private readonly columns: Column<R>[],
    private readonly open?: (row: R) => void,
    private readonly most = MOST_ROWS,
  ) {
    const titles = columns.map((column) => h("th", { scope: "col", class: column.numeric ? "number" : column.grows ? "grows" : null }, column.title));
    this.body = h("tbody");
    const table = h(
      "table",
      null,
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, ...titles)),
      this.body,
    );
    this.element = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": caption }, table, this.note);
  }

  update(rows: R[], empty = "nothing", isChosen?: (row: R) => boolean): void {
    this.rows = rows;
    const shown = Math.min(rows.length, this.most);
    while (this.body.rows.length > shown) this.body.deleteRow(-1);
    while (this.body.rows.length < shown) this.addRow();
    for (let place = 0; place < shown; place += 1) {
      const row = rows[place] as R;
      const line = this.body.rows[place] as HTMLTableRowElement;
      line.classList.toggle("chosen", isChosen?.(row) ?? false);
      this.columns.forEach((column, cell) => fill(line.cells[cell] as HTMLElement, column, row));
    }
    const more = rows.length - shown;
    setText(this.note, rows.length === 0 ? empty : more > 0 ? `and ${more} more` : "");
    this.note.hidden = rows.length > 0 && more === 0;
  }

  private addRow(): void {
    const cells = this.columns.map((column) => h("td", { class: column.numeric ? "number" : null }));
    const line = h("tr", null, ...cells);
    if (this.open) {
      const open = () => {
        const row = this.rows[line.sectionRowIndex];
        if (row !== undefined) this.open?.(row);
      };
      line.tabIndex = 0;
      line.className = "opens";
      line.addEventListener("click", open);
      line.addEventListener("keydown", (event) => {
        if (event.key === "Enter") open();
      });
    }
    this.body.appendChild(line);
  }
}

function fill<R>(cell: HTMLElement, column: Column<R>, row: R): void {
  setText(cell, column.text(row));
  const hint = column.hint?.(row) ?? null;
  if (hint !== null && cell.title !== hint) cell.title = hint;
  const kind = column.kind?.(row) ?? "";
  const name = `${column.numeric ? "number " : column.grows ? "grows " : ""}${kind}`.trim();
  if (cell.className !== name) cell.className = name;
}

/** Rows that may not be here yet. */
export interface Rows<R> {
  readonly length: number;
  at(place: number): R | undefined;
  /** The rows that are on the screen, after each scroll. */
  look?(first: number, last: number): void;
}

const ROW_HEIGHT = 22;
/** Browsers place nothing beyond some 16 million pixels: a longer list is scrolled in larger steps. */
const MOST_PIXELS = 8_000_000;

/** A table of which only the rows on the screen are elements, however many there are. */
export class LongTable<R> {
  readonly element: HTMLElement;
  private readonly id = `table-${(tables += 1)}`;
  private readonly head: HTMLElement;
  private readonly body = h("div", { class: "rows", role: "rowgroup" });
  private readonly headings: HTMLElement[];
  private lines: HTMLElement[] = [];
  private rows: Rows<R> = { length: 0, at: () => undefined };
  private chosen = -1;
  private framed = false;

  constructor(
    label: string,
    private readonly columns: Column<R>[],
    private readonly options: { open?: (row: R) => void; sort?: (column: string) => void } = {},
  ) {
    this.headings = columns.map((column) => this.heading(column));
    this.head = h("div", { class: "top", role: "rowgroup" }, h("div", { role: "row", class: "head", "aria-rowindex": 1 }, ...this.headings));
    this.element = h("div", { class: "long", role: "grid", tabindex: 0, "aria-label": label }, this.head, this.body);
    this.element.style.setProperty("--columns", columns.map((column) => column.width ?? "minmax(6rem, 1fr)").join(" "));
    this.element.addEventListener("scroll", () => this.frame());
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.frame()).observe(this.element);
  }

  update(rows: Rows<R>, sorted?: Sorted): void {
    this.rows = rows;
    this.element.setAttribute("aria-rowcount", String(rows.length + 1));
    this.columns.forEach((column, place) => {
      const heading = this.headings[place] as HTMLElement;
      if (!column.sort) return;
      const order = sorted?.column !== column.sort ? "none" : sorted.descending ? "descending" : "ascending";
      heading.setAttribute("aria-sort", order);
    });
    const height = `${Math.min(rows.length * ROW_HEIGHT, MOST_PIXELS)}px`;
    if (this.body.style.height !== height) this.body.style.height = height;
    this.frame();
  }

  /** Shows the last row. */
  toEnd(): void {
    this.element.scrollTop = this.element.scrollHeight;
  }

  get isAtEnd(): boolean {
    return this.element.scrollTop + this.element.clientHeight >= this.element.scrollHeight - ROW_HEIGHT;
  }

  private heading(column: Column<R>): HTMLElement {
    const name = column.numeric ? "number" : null;
    if (!column.sort || !this.options.sort) return h("div", { role: "columnheader", class: name }, column.title);
    const sort = () => this.options.sort?.(column.sort as string);
    const button = h("button", { type: "button", onclick: sort }, column.title);
    return h("div", { role: "columnheader", class: name, "aria-sort": "none" }, button);
  }

  private key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.room / ROW_HEIGHT) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const row = this.rows.at(this.chosen);
    if (event.key === "Enter" && event.target === this.element && row !== undefined) this.options.open?.(row);
    else if (event.key === "Home") this.choose(0);
    else if (event.key === "End") this.choose(this.rows.length - 1);
    else if (steps[event.key] !== undefined) this.choose(this.chosen + (steps[event.key] ?? 0));
    else return;
    event.preventDefault();
  }

  private choose(place: number): void {
    this.chosen = Math.max(0, Math.min(this.rows.length - 1, place));
    const first = this.first();
    const last = first + Math.floor(this.room / ROW_HEIGHT) - 1;
    if (this.chosen < first) this.scrollTo(this.chosen);
    else if (this.chosen > last) this.scrollTo(this.chosen - (last - first));
    this.frame();
  }

  private scrollTo(place: number): void {
    this.element.scrollTop = place * ROW_HEIGHT * this.scale();
  }

  /** Pixels for rows. */
  private get room(): number {
    return this.element.clientHeight - this.head.offsetHeight;
  }

  /** Pixels that a pixel of the whole list takes. */
  private scale(): number {
    const [whole, room] = [this.rows.length * ROW_HEIGHT, this.room];
    return whole <= MOST_PIXELS || whole <= room ? 1 : (MOST_PIXELS - room) / (whole - room);
  }

  private first(): number {
    return Math.floor(this.element.scrollTop / this.scale() / ROW_HEIGHT);
  }

  private frame(): void {
    if (this.framed) return;
    this.framed = true;
    requestAnimationFrame(() => {
      this.framed = false;
      this.draw();
    });
  }

  private draw(): void {
    const room = Math.ceil(this.room / ROW_HEIGHT) + 1;
    const first = Math.max(0, Math.min(this.first(), this.rows.length - 1));
    const shown = Math.min(room, this.rows.length - first);
    while (this.lines.length > shown) this.lines.pop()?.remove();
    while (this.lines.length < shown) this.addLine();
    const top = this.element.scrollTop - ((this.element.scrollTop / this.scale()) % ROW_HEIGHT);
    this.lines.forEach((line, place) => {
      const row = this.rows.at(first + place);
      line.style.transform = `translateY(${top + place * ROW_HEIGHT}px)`;
      line.id = `${this.id}-${first + place}`;
      line.setAttribute("aria-rowindex", String(first + place + 2));
      line.setAttribute("aria-selected", first + place === this.chosen ? "true" : "false");
      this.columns.forEach((column, at) => {
        const cell = line.children[at] as HTMLElement;
        if (row === undefined) setText(cell, at === 0 ? "…" : "");
        else fill(cell, column, row);
      });
    });
    if (this.chosen >= 0) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.chosen}`);
    if (shown > 0) this.rows.look?.(first, first + shown - 1);
  }

  private addLine(): void {
    const cells = this.columns.map((column) => h("div", { role: "gridcell", class: column.numeric ? "number" : null }));
    const line = h("div", { role: "row", class: this.options.open ? "line opens" : "line" }, ...cells);
    line.addEventListener("click", () => {
      const place = Number(line.getAttribute("aria-rowindex")) - 2;
      this.chosen = place;
      const row = this.rows.at(place);
      if (row !== undefined) this.options.open?.(row);
      this.frame();
    });
    this.lines.push(line);
    this.body.appendChild(line);
  }
}

/** Rows that are all here. */
export function rowsOf<R>(list: R[]): Rows<R> {
  return { length: list.length, at: (place) => list[place] };
}
