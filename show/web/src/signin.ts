/** The token of a server that wants one: kept for this tab, sent as a header, never part of an address. */

import { h } from "./dom";
import { token } from "./source";

export class SignIn {
  readonly element: HTMLDialogElement;
  private readonly field = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", maxlength: 1024, required: true });
  private readonly why = h("p", { class: "danger", role: "alert" });

  constructor(private readonly onToken: () => void) {
    // The form is never sent: the field's text goes nowhere but into the header of requests.
    const enter = h("button", { type: "submit" }, "sign in");
    const form = h("form", { method: "dialog" }, h("label", { for: "token" }, "token"), this.field, enter);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.take();
    });
    const about = "This server was started with --http-token-file. The token is the one line of that file; it is kept until this tab is closed.";
    this.element = h(
      "dialog",
      { "aria-label": "Sign in" },
      h("h2", null, "Sign in"),
      h("p", null, about),
      form,
      this.why,
    );
    this.element.addEventListener("cancel", (event) => event.preventDefault());
  }

  /** Asks; a token that is there was refused. */
  show(): void {
    if (this.element.open) return;
    this.why.textContent = token.get() === null ? "" : "this is not the server's token";
    token.clear();
    this.field.value = "";
    this.element.showModal();
    this.field.focus();
  }

  private take(): void {
    const text = this.field.value.trim();
    if (text === "" || !/^[\x21-\x7e]+$/.test(text)) {
      this.why.textContent = "a token is printable ASCII without spaces";
      return;
    }
    token.set(text);
    this.field.value = "";
    this.element.close();
    this.onToken();
  }
}
