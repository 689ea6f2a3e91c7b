// Glossary: terms of the server and of the reader, texts that stay as they are, and what became of each.

import { get } from "../core/api.js";
import { button, choice, element } from "../core/dom.js";
import { text } from "../core/language.js";
import { fill } from "./filling.js";

const PATTERNS = ["url", "email", "code", "placeholder", "number", "tag"];

/** Panel of terms. */
export class Glossary {
  name = "glossary";
  #session;
  #terms = [["", ""]];
  #patterns = new Set();
  #stored = "";
  #list = element("ul", { class: "matches" });

  constructor(session) {
    this.#session = session;
    session.addEventListener("translated", () => this.#showMatches());
  }

  show(root) {
    fill(root, async () => {
      const { glossaries } = await get("/v1/glossaries");
      this.#showMatches();
      return [
        element("div", { class: "columns" }, element("div", {}, this.#table(root)), element("div", {}, this.#storedOnes(glossaries), this.#protected())),
        this.#list,
      ];
    });
  }

  #table(root) {
    const rows = this.#terms.map((term, i) =>
      element(
        "tr",
        {},
        element("td", {}, this.#input(term, 0, "term")),
        element("td", {}, this.#input(term, 1, "term_translation")),
        element("td", {}, button("×", { class: "plain", "aria-label": text("remove") }, () => this.#drop(root, i))),
      ),
    );
    const head = ["term", "term_translation"].map((each) => element("th", { scope: "col" }, text(each)));
    const table = element("table", { class: "terms" }, element("thead", {}, element("tr", {}, ...head, element("td"))), element("tbody", {}, ...rows));
    return element("div", {}, table, button(text("add"), {}, () => this.#add(root)));
  }

  #input(term, side, label) {
    const changed = ({ target }) => {
      term[side] = target.value.trim();
      this.#wish();
    };
    const input = element("input", { type: "text", "aria-label": text(label), on: { change: changed } });
    input.value = term[side];
    return input;
  }

  #add(root) {
    this.#terms.push(["", ""]);
    this.show(root);
  }

  #drop(root, index) {
    this.#terms.splice(index, 1);
    if (!this.#terms.length) this.#terms.push(["", ""]);
    this.#wish();
    this.show(root);
  }

  #storedOnes(glossaries) {
    const options = glossaries.map((each) => [each.name, text("glossary_entries", { name: each.name, count: each.entry_count })]);
    return element(
      "p",
      {},
      choice(text("stored_glossary"), [["", text("none")], ...options], this.#stored, (value) => {
        this.#stored = value;
        this.#wish();
      }),
    );
  }

  #protected() {
    const boxes = PATTERNS.map((pattern) => {
      const changed = ({ target }) => {
        if (target.checked) this.#patterns.add(pattern);
        else this.#patterns.delete(pattern);
        this.#wish();
      };
      const box = element("input", { type: "checkbox", on: { change: changed } });
      box.checked = this.#patterns.has(pattern);
      return element("label", {}, box, ` ${text(`pattern_${pattern}`)}`);
    });
    return element("fieldset", {}, element("legend", {}, text("protected")), ...boxes);
  }

  #wish() {
    const terms = this.#terms.filter(([source, target]) => source && target);
    this.#session.wish({
      glossary: terms.length ? Object.fromEntries(terms) : null,
      glossary_name: this.#stored || null,
      protected_patterns: this.#patterns.size ? [...this.#patterns] : null,
    });
  }

  #showMatches() {
    const matches = this.#session.answer?.glossary_matches ?? [];
    const lines = matches.map((each) =>
      element("li", { class: each.outcome }, `${each.source} → ${each.target || "∅"} · ${text(`outcome_${each.outcome}`)}`),
    );
    this.#list.replaceChildren(...lines);
  }
}
