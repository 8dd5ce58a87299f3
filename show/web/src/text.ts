/** Texts of other people's programs, made harmless before anybody reads them. */

// As in report/report/src/deceptive.rs: what would end a line, hide, or reorder text around it.
const DECEPTIVE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

export function harmless(text: string): string {
  return text.replace(DECEPTIVE, "\ufffd");
}

const OTHERS = ["/site-packages/", "/dist-packages/", "/lib/python3", "ttnn/ttnn/"];
const TYPED = ["<string>", "<stdin>", "<input>", "<ipython-input"];

/** Whether a frame of Python is the user's own code; the rule is that of report/report/src/python.rs. */
export function isUsersCode(frame: string): boolean {
  const isMade = /^[<…]/.test(frame) && !TYPED.some((typed) => frame.startsWith(typed));
  return !isMade && !OTHERS.some((part) => frame.includes(part));
}

/** The frame that a person looks at first: the innermost of the user's own code, or else of all. */
export function userFrame(frames: readonly string[] | null): string | null {
  return frames?.find(isUsersCode) ?? frames?.[0] ?? null;
}

/** `model.py:57` of the frame `/home/me/model.py:57 forward`. */
export function shortLine(frame: string): string {
  const place = /^(.*:\d+)(?: |$)/.exec(frame)?.[1] ?? frame;
  return place.slice(place.lastIndexOf("/") + 1);
}

export function calledFrom(callers: readonly string[]): string {
  if (callers.length === 0) return "";
  const more = callers.length > 2 ? ", …" : "";
  return `, called from ${callers.slice(0, 2).map(shortLine).join(", ")}${more}`;
}
