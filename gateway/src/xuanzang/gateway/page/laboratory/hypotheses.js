// N-best: the best hypotheses for a sentence, with their scores, and what differs from the best.

import { button, choice, element } from "../core/dom.js";
import { text, ui } from "../core/language.js";
import { flags } from "../parts/target.js";

const COUNTS = [2, 4, 8, 16];
/** A character where words are written without spaces, else a word or a space. */
const UNITS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{N}]+|\s+|./gsu;

/** Panel of hypotheses. */
export class Hypotheses {
  name = "hypotheses";
  #session;
  #count = 4;

  constructor(session) {
    this.#session = session;
  }

  /** Returns what the panel shows; `again` shows it anew. */
  async content(again) {
    const options = { num_hypotheses: this.#count, beam_size: Math.max(4, this.#count) };
    const found = await this.#session.ask(this.#session.sentence, options);
    const rows = found.map((each, i) => this.#row(each, found[0], i));
    return [this.#bar(again), element("ol", { class: "hypotheses" }, ...rows)];
  }

  #bar(again) {
    const counts = COUNTS.map((each) => [each, ui.number(each)]);
    const change = (value) => {
      this.#count = Number(value);
      again();
    };
    return element("p", { class: "options" }, choice(text("count"), counts, this.#count, change));
  }

  #row(hypothesis, best, rank) {
    const { quality } = hypothesis;
    const words = compared(best.text, hypothesis.text).map(({ unit, isNew }) => (isNew ? element("em", {}, unit) : unit));
    const facts = [
      text("score", { score: ui.number(hypothesis.score, 3) }),
      text("probability", { percent: ui.number(100 * probabilityOf(hypothesis), 2) }),
      quality && quality.acceptable_probability !== null
        ? text("acceptable", { percent: ui.number(100 * quality.acceptable_probability) })
        : null,
      text(`finish_${hypothesis.finish_reason}`),
    ];
    const use = button(text("use"), { "aria-label": `${text("use")} ${rank + 1}` }, () => this.#session.choose(hypothesis));
    return element(
      "li",
      {},
      element("span", { class: "text", lang: this.#session.wishes.target_language }, ...words),
      element("span", { class: "facts" }, facts.filter(Boolean).join(" · "), ...(quality ? flags(quality) : [])),
      ...(hypothesis.text === this.#session.sentence.text ? [] : [use]),
    );
  }
}

const probabilityOf = ({ tokens }) => Math.exp(tokens.reduce((sum, token) => sum + token.score, 0));

/** Returns the units of a text, each with whether it is outside the longest common subsequence with the best. */
function compared(best, other) {
  const [a, b] = [best.match(UNITS) ?? [], other.match(UNITS) ?? []];
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  let i = 0;
  return b.map((unit, j) => {
    while (i < a.length && a[i] !== unit && lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    const isNew = a[i] !== unit;
    if (!isNew) i += 1;
    return { unit, isNew: isNew && Boolean(unit.trim()) };
  });
}
