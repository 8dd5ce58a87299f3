/** Texts of other people's programs, made harmless before anybody reads them. */

import rules from "./rules.json";

const escaped = (character: number | undefined) => `\\u{${(character ?? 0).toString(16)}}`;

/** Characters that would end a line, hide, or reorder text around them. */
const DECEPTIVE = new RegExp(`[${rules.deceptive.map(([first, last]) => `${escaped(first)}-${escaped(last)}`).join("")}]`, "gu");

export function harmless(text: string): string {
  return text.replace(DECEPTIVE, "\ufffd");
}

const { others: OTHERS, typed: TYPED } = rules.python;

/** Whether a frame of Python is the user's own code, as `is_users_code` of report/report/src/python.rs decides. */
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
