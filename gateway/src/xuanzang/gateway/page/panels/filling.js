// How a panel is filled by an answer that takes its time: the latest wins, and failures are said in its place.

import { element } from "../core/dom.js";
import { text } from "../core/language.js";
import { worded } from "../core/reasons.js";

const turns = new WeakMap();

/**
 * Fills an element.
 * @param {Element} root What is filled.
 * @param {() => Promise<Node[]>} make Makes what is inside; a later call of `fill` makes an earlier one void.
 */
export async function fill(root, make) {
  const turn = {};
  turns.set(root, turn);
  root.setAttribute("aria-busy", "true");
  let made;
  try {
    made = await make();
  } catch (error) {
    made = [element("p", { class: "failure" }, worded(error))];
  }
  if (turns.get(root) !== turn) return;
  root.replaceChildren(...made);
  root.removeAttribute("aria-busy");
}

/** Returns what a panel shows before there is a translation. */
export const nothing = () => [element("p", { class: "faint" }, text("nothing_yet"))];
