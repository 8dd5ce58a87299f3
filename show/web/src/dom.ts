/** Elements. Text is set as text, never parsed, and made harmless on the way. */

import { harmless } from "./text";

export type Child = Node | string | number | null | undefined | false;

type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

/** An element: `class`, `on…` handlers and attributes by name. No attribute ever holds markup or style. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes | null = null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? "" : harmless(String(value)));
  }
  append(element, children);
  return element;
}

export function append(parent: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(typeof child === "object" ? child : document.createTextNode(harmless(String(child))));
  }
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

/** Sets a text, if it is another one: an unchanged node costs nothing and keeps a selection. */
export function setText(element: Element, text: string): void {
  const shown = harmless(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export function setClass(element: Element, name: string, on: boolean): void {
  element.classList.toggle(name, on);
}

/** A panel: a heading that is a question or a name, and what answers it. */
export function panel(title: string, ...children: Child[]): HTMLElement {
  const heading = h("h2", null, title);
  return h("section", { class: "panel" }, heading, ...children);
}

export function titleOf(section: HTMLElement): HTMLElement {
  return section.querySelector("h2") as HTMLElement;
}

/** A group of buttons of which one is chosen. */
export function choice<T extends string>(
  label: string,
  options: readonly (readonly [T, string])[],
  chosen: T,
  choose: (value: T) => void,
): HTMLElement {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": value === chosen ? "true" : "false", onclick: () => choose(value) }, text),
  );
  return h("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}
