/** `?`: the keys of a view, and a definition of every term that it uses. */

import { h, replace } from "./dom";
import type { View } from "./view";
import words from "./words.json";

const EVERYWHERE: [string, string][] = [
  ["1-9", "view"],
  ["/", "find"],
  ["Esc", "back; clears what is looked for"],
  ["Space", "play and pause; live: pause"],
  [", .", "step back and on in time"],
  ["< >", "slower, faster"],
  ["p", "to the peak"],
  ["f", "to the next failure"],
  ["'", "to the next mark"],
  ["n", "now"],
  ["r", "refresh"],
  ["T", "light or dark"],
  ["?", "help"],
];

export class Help {
  readonly element = h("dialog", { "aria-label": "Help" });

  show(view: View, title: string): void {
    const keys = (list: [string, string][]) => h("dl", { class: "keys" }, ...list.flatMap(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)]));
    const used = words.glossary.filter(({ term }) => view.words.includes(term));
    const others = words.glossary.filter(({ term }) => !view.words.includes(term));
    const meanings = (list: typeof used) => h("dl", null, ...list.flatMap(({ term, meaning }) => [h("dt", null, term), h("dd", null, meaning)]));
    const close = h("button", { type: "button", class: "close", onclick: () => this.element.close() }, "close");
    replace(
      this.element,
      close,
      h("h2", null, title),
      h("h3", null, "Keys of this view"), keys(view.keys),
      h("h3", null, "Keys everywhere"), keys(EVERYWHERE),
      h("h3", null, "Words of this view"), meanings(used),
      h("h3", null, "Other words"), meanings(others),
    );
    this.element.showModal();
  }

  get isOpen(): boolean {
    return this.element.open;
  }

  close(): void {
    this.element.close();
  }
}
