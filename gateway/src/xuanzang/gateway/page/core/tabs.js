// A row of tabs: one is chosen, by a click or by arrow keys, and its panel is seen.

import { byId, element } from "./dom.js";
import { text, ui } from "./language.js";

/** Tabs in an element of index.html. Each has a panel with the name of the tab as its id. */
export class Tabs {
  #root;
  #tabs = new Map();
  #onChoice;
  /** Name of the tab that is chosen. */
  chosen;

  /**
   * @param {string} id Id of the element that takes the tabs.
   * @param {string[]} names Names; the text of each is `tab_` and its name.
   * @param {(name: string) => void} onChoice Called with the name of the panel that is seen.
   * @param {(name: string) => Node[]} decorate Returns what stands before the text.
   */
  constructor(id, names, onChoice, decorate = () => []) {
    this.#root = byId(id);
    this.#onChoice = onChoice;
    for (const name of names) {
      const label = element("span", {}, text(`tab_${name}`));
      const listeners = { click: () => this.choose(name) };
      const attributes = { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": name, on: listeners };
      const tab = element("button", attributes, ...decorate(name), label);
      this.#root.append(tab);
      this.#tabs.set(name, tab);
      ui.addEventListener("language", () => (label.textContent = text(`tab_${name}`)));
    }
    this.#root.addEventListener("keydown", (event) => this.#key(event));
    this.choose(names[0]);
  }

  /** Shows a panel. */
  choose(name) {
    this.chosen = name;
    for (const [each, tab] of this.#tabs) {
      tab.setAttribute("aria-selected", String(each === name));
      tab.tabIndex = each === name ? 0 : -1;
      byId(each).hidden = each !== name;
    }
    this.#onChoice(name);
  }

  /** Takes tabs away, because the server does not offer what they show. */
  withdraw(names) {
    for (const name of names) {
      this.#tabs.get(name)?.remove();
      byId(name)?.remove();
      this.#tabs.delete(name);
    }
    if (names.includes(this.chosen)) this.choose([...this.#tabs.keys()][0]);
  }

  #key(event) {
    const names = [...this.#tabs.keys()];
    const at = names.indexOf(this.chosen);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    this.choose(names.at(to % names.length));
    this.#tabs.get(this.chosen).focus();
    event.preventDefault();
  }
}
