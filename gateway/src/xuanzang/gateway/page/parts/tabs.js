// Tabs below the text, each with a panel that is filled when it is first seen.

import { byId, element } from "../core/dom.js";
import { text, ui } from "../core/language.js";

/** A row of tabs. Panels have `name` and `show(root)`; `show` is called when the panel is seen and out of date. */
export class Tabs {
  #tabs = new Map();
  #stale = new Set();
  #chosen = null;
  #onChoice;

  /**
   * @param {object[]} panels
   * @param {(name: string) => void} onChoice Called with the name of the panel that is seen.
   */
  constructor(panels, onChoice) {
    this.#onChoice = onChoice;
    for (const panel of panels) this.#add(panel);
    byId("tabs").addEventListener("keydown", (event) => this.#key(event));
    ui.addEventListener("language", () => {
      for (const [panel, { tab }] of this.#tabs) tab.textContent = text(`tab_${panel.name}`);
      this.refresh();
    });
    this.choose(panels[0].name);
  }

  /** Shows a panel. */
  choose(name) {
    for (const [panel, { tab, root }] of this.#tabs) {
      const isChosen = panel.name === name;
      if (isChosen) this.#chosen = panel;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      root.hidden = !isChosen;
    }
    this.#onChoice(name);
    this.#show();
  }

  /** Says that panels are out of date. */
  refresh(isOutOfDate = () => true) {
    for (const panel of this.#tabs.keys()) if (isOutOfDate(panel)) this.#stale.add(panel);
    this.#show();
  }

  /** Takes tabs away, because the server does not offer what they show. */
  withdraw(names) {
    for (const [panel, { tab, root }] of [...this.#tabs]) {
      if (!names.includes(panel.name)) continue;
      tab.remove();
      root.remove();
      this.#tabs.delete(panel);
    }
    if (names.includes(this.#chosen.name)) this.choose([...this.#tabs.keys()][0].name);
  }

  #add(panel) {
    const { name } = panel;
    const listeners = { click: () => this.choose(name) };
    const tab = element("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": name, on: listeners });
    const root = element("section", { role: "tabpanel", id: name, "aria-labelledby": `tab-${name}`, tabindex: "0" });
    tab.textContent = text(`tab_${name}`);
    byId("tabs").append(tab);
    byId("panels").append(root);
    this.#tabs.set(panel, { tab, root });
    this.#stale.add(panel);
  }

  #show() {
    if (!this.#stale.delete(this.#chosen)) return;
    this.#chosen.show(this.#tabs.get(this.#chosen).root);
  }

  #key(event) {
    const names = [...this.#tabs.keys()].map((each) => each.name);
    const at = names.indexOf(this.#chosen.name);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    this.choose(names.at(to % names.length));
    this.#tabs.get(this.#chosen).tab.focus();
    event.preventDefault();
  }
}
