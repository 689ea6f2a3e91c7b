// Glossary: terms of the reader and of the server, protected texts, and the outcome of each.

import { get, worded } from "../core/api.js";
import { button, byId, choice, element, icon, openDialog, saved } from "../core/dom.js";
import { announce, keep, kept, text, ui } from "../core/language.js";

const PATTERNS = ["url", "email", "code", "placeholder", "number", "tag"];
const FILE = "glossary.tsv";

/** The dialog of terms. */
export class Glossary {
  #dialog = byId("glossary");
  #session;
  #terms = keptTerms();
  #patterns = new Set();
  #stored = "";
  #list = element("ul", { class: "matches" });
  #table = element("div");
  #message = element("p", { class: "faint", role: "status" });

  constructor(session) {
    this.#session = session;
    byId("open-glossary").addEventListener("click", () => this.open());
    session.addEventListener("translated", () => this.#showMatches());
    ui.addEventListener("language", () => this.#dialog.open && this.open());
    this.#wish();
  }

  /** Shows the dialog. */
  async open() {
    const body = element("div", { class: "dialog-body" });
    openDialog(this.#dialog, text("glossary"), text("close"), body);
    const stored = element("p");
    body.replaceChildren(
      element("p", { class: "faint" }, text("glossary_why")),
      this.#table,
      this.#message,
      stored,
      this.#protected(),
      this.#list,
    );
    this.#showTerms();
    this.#showMatches();
    this.#message.textContent = "";
    try {
      const { glossaries } = await get("/v1/glossaries");
      if (glossaries.length) stored.replaceChildren(this.#storedOnes(glossaries));
    } catch (error) {
      this.#message.textContent = worded(error);
    }
  }

  #showTerms() {
    if (!this.#terms.length) this.#terms.push(["", ""]);
    const rows = this.#terms.map((term, i) =>
      element(
        "tr",
        {},
        element("td", {}, this.#input(term, 0, "term")),
        element("td", {}, this.#input(term, 1, "term_translation")),
        element("td", {}, button(icon("close"), { class: "icon-only", "aria-label": text("remove") }, () => this.#drop(i))),
      ),
    );
    const head = ["term", "term_translation"].map((each) => element("th", { scope: "col" }, text(each)));
    const table = element("table", { class: "terms" }, element("thead", {}, element("tr", {}, ...head, element("td"))), element("tbody", {}, ...rows));
    const file = element("input", { type: "file", accept: ".tsv,.txt", class: "unseen", on: { change: (event) => this.#imported(event) } });
    const actions = [
      button(text("add"), {}, () => this.#add()),
      element("label", { class: "button" }, icon("upload"), text("import"), file),
      button([icon("download"), text("export")], {}, () => this.#exported()),
    ];
    this.#table.replaceChildren(table, element("div", { class: "options" }, ...actions));
  }

  #input(term, side, label) {
    const changed = ({ target }) => {
      term[side] = target.value.replaceAll(/\s+/g, " ").trim();
      this.#wish();
    };
    const input = element("input", { type: "text", "aria-label": text(label), on: { change: changed } });
    input.value = term[side];
    return input;
  }

  #add() {
    this.#terms.push(["", ""]);
    this.#showTerms();
    this.#table.querySelector("tbody tr:last-child input").focus();
  }

  #drop(index) {
    this.#terms.splice(index, 1);
    this.#wish();
    this.#showTerms();
  }

  async #imported({ target }) {
    const lines = (await target.files[0].text()).replace(/^\uFEFF/, "").split(/\r?\n/);
    const terms = new Map(this.#terms.filter(isWhole));
    const [read, skipped] = [[], []];
    lines.forEach((line, i) => {
      const [source, translation] = line.split("\t").map((each) => each.trim());
      if (source && translation) read.push([source, translation]);
      else if (line.trim()) skipped.push(ui.number(i + 1));
    });
    for (const [source, translation] of read) terms.set(source, translation);
    this.#terms = [...terms];
    this.#wish();
    this.#showTerms();
    const left = skipped.length ? text("import_skipped", { lines: ui.list(skipped.slice(0, 5)) }) : "";
    this.#message.textContent = `${text("imported", { count: ui.number(read.length) })} ${left}`;
  }

  #exported() {
    const lines = this.#terms.filter(isWhole).map((term) => `${term.join("\t")}\n`);
    saved(new Blob([lines.join("")], { type: "text/tab-separated-values" }), FILE).click();
    announce(text("document_ready", { name: FILE }));
  }

  #storedOnes(glossaries) {
    const options = glossaries.map((each) => [each.name, text("glossary_entries", { name: each.name, count: each.entry_count })]);
    return choice(text("stored_glossary"), [["", text("none")], ...options], this.#stored, (value) => {
      this.#stored = value;
      this.#wish();
    });
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
    const terms = this.#terms.filter(isWhole);
    keep("terms", JSON.stringify(terms));
    byId("terms-count").hidden = !terms.length;
    byId("terms-count").textContent = ui.number(terms.length);
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

/** Returns the terms that the browser keeps; what is no list of pairs is forgotten. */
function keptTerms() {
  try {
    return JSON.parse(kept("terms")).filter((each) => each.length === 2 && each.every((side) => typeof side === "string"));
  } catch {
    return [];
  }
}

const isWhole = ([source, translation]) => source && translation;
