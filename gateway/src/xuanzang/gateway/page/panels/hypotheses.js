// N-best: the best hypotheses for a sentence, with their scores, and what differs from the best.

import { button, choice, element } from "../core/dom.js";
import { text, ui } from "../core/language.js";
import { verdict } from "../parts/verdict.js";
import { fill, nothing } from "./filling.js";

const COUNTS = [2, 4, 8, 16];

/** Panel of hypotheses. */
export class Hypotheses {
  name = "hypotheses";
  #session;
  #count = 4;

  constructor(session) {
    this.#session = session;
  }

  show(root) {
    const { sentence } = this.#session;
    fill(root, async () => {
      if (!sentence) return nothing();
      const options = { num_hypotheses: this.#count, beam_size: Math.max(4, this.#count) };
      const found = await this.#session.ask(sentence, options);
      const best = found[0].text.split(/(\s+)/);
      return [this.#bar(root), element("ol", { class: "hypotheses" }, ...found.map((each) => this.#row(each, best)))];
    });
  }

  #bar(root) {
    const counts = COUNTS.map((each) => [each, ui.number(each)]);
    const change = (value) => {
      this.#count = Number(value);
      this.show(root);
    };
    return element("p", { class: "options" }, choice(text("count"), counts, this.#count, change));
  }

  #row(hypothesis, best) {
    const words = hypothesis.text.split(/(\s+)/).map((word) => (best.includes(word) ? word : element("em", {}, word)));
    const facts = [
      text("score", { score: ui.number(hypothesis.score, 3) }),
      text("probability", { percent: ui.number(100 * probabilityOf(hypothesis), 2) }),
      text(`finish_${hypothesis.finish_reason}`),
    ];
    return element(
      "li",
      {},
      element("span", { class: "text", lang: this.#session.wishes.target_language }, ...words),
      element("span", { class: "faint" }, facts.join(" · ")),
      element("span", { class: "verdict" }, ...(hypothesis.quality ? verdict(hypothesis.quality) : [])),
      button(text("use"), { class: "plain" }, () => this.#session.choose(hypothesis)),
    );
  }
}

const probabilityOf = ({ tokens }) => Math.exp(tokens.reduce((sum, token) => sum + token.score, 0));
