/** What is looked at: the view and its parameters, kept in the hash of the page's address. */

export const VIEWS = [
  ["1", "overview", "Overview"],
  ["2", "processes", "Processes"],
  ["3", "device", "Device"],
  ["4", "map", "Memory map"],
  ["5", "programs", "Programs"],
  ["6", "buffers", "Buffers"],
  ["7", "events", "Events"],
  ["8", "leaks", "Leaks"],
  ["9", "failures", "Failures"],
] as const;

export type ViewName = (typeof VIEWS)[number][1];

/** Parameters that hold in every view; others belong to the view that set them. */
const EVERYWHERE = ["device", "class", "by", "from", "to", "at"];

export type Parameters = Record<string, string>;

export interface State {
  view: ViewName;
  params: Parameters;
}

export function parse(hash: string): State {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const view = VIEWS.find(([, name]) => name === path)?.[1] ?? "overview";
  const params: Parameters = {};
  for (const [name, value] of new URLSearchParams(query)) {
    if (/^[a-z]{1,12}$/.test(name) && value !== "" && value.length <= 200) params[name] = value;
  }
  for (const name of ["at", "from", "to"]) {
    if (params[name] !== undefined && !/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(params[name])) delete params[name];
  }
  return { view, params };
}

export function write({ view, params }: State): string {
  const query = new URLSearchParams();
  for (const name of Object.keys(params).sort()) query.set(name, params[name] ?? "");
  const text = query.toString();
  return `#/${view}${text === "" ? "" : `?${text}`}`;
}

export type Change = { view?: ViewName } & { params?: Record<string, string | null | undefined> };

/** The state after a change: a parameter that is null goes, and with another view those of the old one. */
export function changed(state: State, change: Change): State {
  const view = change.view ?? state.view;
  const params: Parameters = {};
  for (const [name, value] of Object.entries(state.params)) {
    if (view === state.view || EVERYWHERE.includes(name)) params[name] = value;
  }
  for (const [name, value] of Object.entries(change.params ?? {})) {
    if (value === null || value === undefined || value === "") delete params[name];
    else params[name] = value;
  }
  return { view, params };
}

/** A browser counts changes of the address, and refuses them when a cursor moves. */
const WRITE_EVERY = 300;

export class Store {
  state: State;
  private writing: number | undefined;

  constructor(private readonly onChange: (before: State) => void) {
    this.state = parse(location.hash);
    addEventListener("hashchange", () => {
      if (write(this.state) === location.hash) return;
      const before = this.state;
      this.state = parse(location.hash);
      this.onChange(before);
    });
  }

  set(change: Change): void {
    const before = this.state;
    this.state = changed(before, change);
    if (write(before) === write(this.state)) return;
    if (this.state.view !== before.view) {
      clearTimeout(this.writing);
      this.writing = undefined;
      history.pushState(null, "", write(this.state));
    } else {
      this.writing ??= window.setTimeout(() => {
        this.writing = undefined;
        history.replaceState(null, "", write(this.state));
      }, WRITE_EVERY);
    }
    this.onChange(before);
  }
}
