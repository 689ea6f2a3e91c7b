// Origin of a translation: panels behind a disclosure, each filled when it is seen and out of date.

import { post, worded } from "../core/api.js";
import { byId, element } from "../core/dom.js";
import { keep, kept, text, ui } from "../core/language.js";
import { Tabs } from "../core/tabs.js";
import { Attention } from "./attention.js";
import { Hypotheses } from "./hypotheses.js";
import { Origin } from "./origin.js";
import { Tree } from "./tree.js";

const NOT_OFFERED = [404, 501];
const WHOLE = "origin";

/** The part of the page below the translation; it asks the server for nothing while it is closed. */
export class Laboratory {
  #root = byId("laboratory");
  #session;
  #panels;
  #stale;
  #tabs;
  /** Explanations of this translation by what was asked: attention and the tree show two sides of the same answer. */
  #explanations = new Map();
  #turn = null;

  constructor(session) {
    this.#session = session;
    const explain = (...wanted) => this.#explain(...wanted);
    const panels = [new Hypotheses(session), new Attention(session, explain), new Tree(session, explain), new Origin(session)];
    this.#panels = new Map(panels.map((each) => [each.name, each]));
    this.#stale = new Set(this.#panels.keys());
    for (const name of this.#panels.keys()) byId("panels").append(element("section", { role: "tabpanel", id: name, "aria-labelledby": `tab-${name}`, tabindex: "0" }));
    this.#root.open = kept("laboratory") === "open";
    this.#tabs = new Tabs("tabs", [...this.#panels.keys()], (name) => this.#seen(name));
    this.#root.addEventListener("toggle", () => {
      keep("laboratory", this.#root.open ? "open" : "closed");
      this.#show();
    });
    byId("sentence").addEventListener("change", ({ target }) => session.look(Number(target.value)));
    session.addEventListener("begun", () => this.#explanations.clear());
    session.addEventListener("sentence", () => this.#refresh());
    ui.addEventListener("language", () => this.#refresh());
  }

  #refresh() {
    this.#stale = new Set(this.#panels.keys());
    this.#show();
  }

  #seen(name) {
    this.#stale.add(name);
    this.#show();
  }

  #show() {
    const name = this.#tabs?.chosen ?? "hypotheses";
    this.#showSentences(name);
    if (!this.#root.open || !this.#stale.delete(name)) return;
    const root = byId(name);
    this.#fill(root, () => this.#panels.get(name).content(() => this.#seen(name)));
  }

  /** Fills a panel by an answer that takes its time: the latest wins, and failures are said in its place. */
  async #fill(root, make) {
    const turn = {};
    this.#turn = turn;
    root.setAttribute("aria-busy", "true");
    let made;
    try {
      made = this.#session.sentence ? await make() : [element("p", { class: "faint" }, text("nothing_yet"))];
    } catch (error) {
      made = [element("p", { class: "complaint" }, worded(error))];
    }
    if (this.#turn !== turn) return;
    root.replaceChildren(...made);
    root.removeAttribute("aria-busy");
  }

  #showSentences(name) {
    const { sentences, index } = this.#session;
    byId("sentence-choice").hidden = sentences.length < 2 || name === WHOLE;
    const options = sentences.map((each, i) => {
      const option = element("option", { value: String(i) }, `${i + 1}/${sentences.length}  ${each.source.slice(0, 24)}`);
      option.selected = i === index;
      return option;
    });
    byId("sentence").replaceChildren(...options);
  }

  /**
   * Explains a sentence.
   * @param {object} sentence Sentence of the session.
   * @param {string} kind Attention wanted: "cross", "encoder" or "decoder".
   * @param {number|null} beamSize Beam size; null: the model's.
   */
  #explain(sentence, kind = "cross", beamSize = null) {
    const options = {
      ...(beamSize ? { beam_size: beamSize } : {}),
      // A choice is shown as the reader made it.
      ...(sentence.isChosen ? { target_prefix: sentence.text } : {}),
    };
    const body = { ...this.#session.about(sentence), options, attention_kinds: [kind], attention_heads: true };
    const key = JSON.stringify(body);
    if (!this.#explanations.has(key)) this.#explanations.set(key, this.#asked(body));
    return this.#explanations.get(key);
  }

  async #asked(body) {
    try {
      return await post("/v1/explain", body);
    } catch (error) {
      if (NOT_OFFERED.includes(error.status)) this.#tabs.withdraw(["attention", "tree"]);
      throw error;
    }
  }
}
