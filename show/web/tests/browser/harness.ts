/** A real server, a real browser, and what both said. */

import { spawn, execFileSync, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

/** For what takes milliseconds, on a machine that others keep busy. */
export const PATIENCE = 120_000;

export const TTMEM = process.env["TTMEM"] ?? fileURLToPath(new URL("../../../../target/debug/ttmem", import.meta.url));
const MACHINE = process.env["TTMEM_MACHINE"] ?? fileURLToPath(new URL("../../../../target/debug/examples/machine", import.meta.url));
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env["TTMEM_PICTURES"] ?? fileURLToPath(new URL("../../../../target/page", import.meta.url));
const CHROMIUM = process.env["TTMEM_CHROMIUM"] ?? "/usr/bin/chromium";

/** How long pages are watched for what they do not give back; `cargo xtask soak page` takes longer than a test. */
export const SOAK_MINUTES = Number(process.env["TTMEM_SOAK_MINUTES"] ?? "0");

/** No task may take longer: whoever types or scrolls would notice. */
export const MOST_TASK_MILLIS = 200;

export const scenario = (name: string) => fileURLToPath(new URL(`scenarios/${name}.toml`, import.meta.url));

export function temporary(): string {
  return mkdtempSync(join(tmpdir(), "ttmem-page-"));
}

export function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

export async function until<T>(what: string, look: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** A program that does not outlive the test. */
export class Program {
  printed = "";
  private ended = false;

  constructor(readonly child: ChildProcess) {
    const keep = (text: Buffer) => (this.printed += text.toString());
    child.stdout?.on("data", keep);
    child.stderr?.on("data", keep);
    child.on("exit", () => (this.ended = true));
  }

  static start(...words: string[]): Program {
    return Program.of(TTMEM, words, "ignore");
  }

  /** A machine in a folder, whose path it prints: there until this ends. */
  static machine(): Program {
    return Program.of(MACHINE, [], "pipe");
  }

  private static of(path: string, words: string[], input: "ignore" | "pipe"): Program {
    const environment = { ...process.env };
    for (const name of Object.keys(environment)) if (name.startsWith("TTMEM_")) delete environment[name];
    return new Program(spawn(path, words, { stdio: [input, "pipe", "pipe"], env: environment }));
  }

  /** Lets a program end by itself that does so with its input. */
  async endInput(): Promise<void> {
    this.child.stdin?.end();
    await until("the end of a program", () => this.ended);
  }

  async stop(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    this.child.kill(signal);
    await until("the end of a program", () => this.ended);
  }
}

/** `ttmem demo` with its page. */
export class Demo {
  private constructor(
    readonly program: Program,
    readonly url: string,
  ) {}

  static async start(...words: string[]): Promise<Demo> {
    const program = Program.start("demo", "--headless", "--http", "127.0.0.1:0", ...words);
    const url = await until("the demo's page", () => {
      if (program.child.exitCode !== null) throw new Error(program.printed);
      return /page is at (http:\S+);/.exec(program.printed)?.[1];
    });
    return new Demo(program, url);
  }

  get<T>(path: string): Promise<T> {
    return get<T>(this.url + path);
  }

  stop(): Promise<void> {
    return this.program.stop();
  }
}

/** `ttmem replay` of a recording. */
export class Replay {
  private constructor(
    readonly program: Program,
    readonly url: string,
  ) {}

  static async start(file: string, { names = true } = {}): Promise<Replay> {
    const program = Program.start("replay", file, "--http", "127.0.0.1:0", ...(names ? ["--http-names"] : []));
    const url = await until("the recording's page", () => {
      if (program.child.exitCode !== null) throw new Error(program.printed);
      return /(http:\/\/\S+?)[;,.]?\s/.exec(program.printed)?.[1];
    });
    return new Replay(program, url);
  }

  get<T>(path: string): Promise<T> {
    return get<T>(this.url + path);
  }

  stop(): Promise<void> {
    return this.program.stop();
  }
}

export async function get<T>(url: string): Promise<T> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

export function run(...words: string[]): string {
  return execFileSync(TTMEM, words, { encoding: "utf8", timeout: PATIENCE });
}

export async function launch(): Promise<Browser> {
  // Root has no user namespaces to put the browser's sandbox in.
  return chromium.launch({ executablePath: CHROMIUM, args: process.getuid?.() === 0 ? ["--no-sandbox"] : [] });
}

export interface Look {
  width?: number;
  height?: number;
  scheme?: "light" | "dark";
}

/** A page, with everything that should not have happened on it. */
export class Tab {
  readonly faults: string[] = [];
  readonly hosts = new Set<string>();
  readonly requests: { url: string; headers: Record<string, string> }[] = [];

  private constructor(
    readonly context: BrowserContext,
    readonly page: Page,
    readonly url: string,
  ) {
    page.on("pageerror", (error) => this.faults.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error" && !isMissing(message.location().url)) this.faults.push(`${message.text()} ${message.location().url}`);
    });
    page.on("dialog", (dialog) => {
      this.faults.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      this.hosts.add(new URL(request.url()).host);
      this.requests.push({ url: request.url(), headers: request.headers() });
    });
  }

  static async open(browser: Browser, url: string, look: Look = {}): Promise<Tab> {
    const { width = 1400, height = 900, scheme = "dark" } = look;
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
    return new Tab(context, await context.newPage(), url);
  }

  async go(hash = ""): Promise<void> {
    await this.page.goto(`${this.url}/${hash}`);
  }

  /** The text of what is shown, with blanks as one. */
  async text(selector: string): Promise<string> {
    const text = await this.page.locator(selector).first().innerText({ timeout: PATIENCE });
    return text.replace(/\s+/g, " ").trim();
  }

  /** Waits until a text is there. */
  async sees(selector: string, wanted: string | RegExp): Promise<void> {
    let last = "";
    const matches = (text: string) => (typeof wanted === "string" ? text.includes(wanted) : wanted.test(text));
    const deadline = Date.now() + PATIENCE;
    while (Date.now() < deadline) {
      last = (await this.page.locator(selector).allInnerTexts()).join("\n").replace(/[^\S\n]+/g, " ");
      if (matches(last)) return;
      await this.page.waitForTimeout(50);
    }
    throw new Error(`${selector} does not show ${wanted} but:\n${last}`);
  }

  /** Waits until the page has asked for something. */
  async asks(wanted: RegExp, after = 0): Promise<void> {
    await until(`a request for ${wanted}`, () => this.requests.slice(after).some(({ url }) => wanted.test(url)));
  }

  /** What axe calls serious or critical. The page's policy lets no script of others run: it comes in by the debugger's door. */
  async hurdles(): Promise<string[]> {
    await this.page.evaluate(AXE);
    return this.page.evaluate(async () => {
      const axe = (globalThis as unknown as { axe: { run: (what: Document) => Promise<{ violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe;
      const { violations } = await axe.run(document);
      return violations.filter((each) => each.impact === "serious" || each.impact === "critical").map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 300)}`).join("\n")}`);
    });
  }

  /** What the page holds when nothing of it is left to collect. */
  async weight(): Promise<{ nodes: number; heap: number; listeners: number }> {
    const session = await this.context.newCDPSession(this.page);
    await session.send("Performance.enable");
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    await session.detach();
    const of = (name: string) => metrics.find((each) => each.name === name)?.value ?? 0;
    return { nodes: of("Nodes"), heap: of("JSHeapUsedSize"), listeners: of("JSEventListeners") };
  }

  /** The colours of a canvas along a line, from one place to another of it in its own pixels, as `r,g,b`. */
  async pixels(selector: string, line: { x: number; y: number; wide: number; high: number }): Promise<string[]> {
    return this.page.locator(selector).first().evaluate((element, { x, y, wide, high }) => {
      const data = (element as HTMLCanvasElement).getContext("2d")!.getImageData(x, y, wide, high).data;
      return Array.from({ length: data.length / 4 }, (_, at) => data.slice(at * 4, at * 4 + 3).join(","));
    }, line);
  }

  /** A colour of the style, as `r,g,b`. */
  async colour(name: string): Promise<string> {
    return this.page.evaluate((variable) => {
      const probe = document.createElement("i");
      probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(variable);
      document.body.append(probe);
      const found = getComputedStyle(probe).color.match(/\d+/g)!.slice(0, 3).join(",");
      probe.remove();
      return found;
    }, `--${name}`);
  }

  async picture(name: string): Promise<void> {
    mkdirSync(PICTURES, { recursive: true });
    await this.page.screenshot({ path: join(PICTURES, `${name}.png`) });
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  /** Microseconds by the clock, and of the thread's own processor time. */
  dur?: number;
  tdur?: number;
  args?: { name?: string };
}

/**
 * The longest task of the page while something is done with it, in milliseconds: by the clock, and of processor time, which
 * no neighbour on the machine makes longer. The page's process may begin to trace a moment after it was told to.
 */
export async function tasks(browser: Browser, tab: Tab, act: () => Promise<void>): Promise<{ processor: number; clock: number }> {
  await browser.startTracing(tab.page, { categories: ["toplevel"] });
  await act();
  const traced = await browser.stopTracing();
  const { traceEvents: events } = JSON.parse(traced.toString()) as { traceEvents: TraceEvent[] };
  const thread = ({ pid, tid }: TraceEvent) => `${pid}/${tid}`;
  const pages = new Set(events.filter((each) => each.name === "thread_name" && each.args?.name === "CrRendererMain").map(thread));
  const found = events.filter((each) => each.name.endsWith("RunTask") && each.tdur !== undefined && pages.has(thread(each)));
  if (found.length === 0) throw new Error("the browser's trace has no task of the page");
  const longest = (of: (each: TraceEvent) => number | undefined) => found.reduce((most, each) => Math.max(most, of(each) ?? 0), 0) / 1000;
  return { processor: longest((each) => each.tdur), clock: longest((each) => each.dur) };
}

/** Servers that keep no recording refuse this, and the page goes on without. */
function isMissing(url: string): boolean {
  return /\/api\/v1\/recording$/.test(url);
}

/** Further pictures of the views, by what comes after their name. */
export const MORE = ["device?class=l1", "map?class=dram", "map?class=dram&mode=time", "programs?page=rings", "buffers?show=operation", "buffers?show=flame"];

/** The keys and titles of the views. */
export const VIEWS: [hash: string, title: string][] = [
  ["overview", "Overview"],
  ["processes", "Processes"],
  ["device", "Device"],
  ["map", "Memory map"],
  ["programs", "Programs"],
  ["buffers", "Buffers"],
  ["events", "Events"],
  ["leaks", "Leaks"],
  ["failures", "Failures"],
];
