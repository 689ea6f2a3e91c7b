// Alternatives at a word: what else the model would write there, or the reader's own words, and the rest translated anew.

import { byId, button, element } from "../core/dom.js";
import { announce, text, ui } from "../core/language.js";
import { worded } from "../core/reasons.js";

const COUNT = 6;

/** The small window beside a word. */
export class Alternatives {
  #root = byId("alternatives");
  #session;
  #returnFocus;
  #asked = null;
  #place = 0;

  /**
   * @param {Session} session
   * @param {(place: number) => void} returnFocus Puts the focus back on a word of the sentence.
   */
  constructor(session, returnFocus) {
    this.#session = session;
    this.#returnFocus = returnFocus;
    this.#root.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!this.#root.contains(event.target)) this.#close();
    });
    session.addEventListener("typed", () => this.#close());
  }

  /** Opens the window for a word and asks for its alternatives. */
  async open(word, anchor, place) {
    this.#place = place;
    this.#asked?.abort();
    this.#asked = new AbortController();
    const list = element("ul", {}, element("li", { class: "faint" }, text("asking")));
    this.#root.replaceChildren(this.#head(word), list, this.#own(word));
    this.#root.hidden = false;
    this.#put(anchor);
    this.#root.querySelector("input").focus({ preventScroll: true });
    try {
      const found = await this.#ask(word, this.#asked.signal);
      list.replaceChildren(...found.map((each) => element("li", {}, this.#offer(word, each))));
      list.querySelector("button")?.focus({ preventScroll: true });
    } catch (error) {
      if (error.name !== "AbortError") list.replaceChildren(element("li", { class: "failure" }, worded(error)));
    }
  }

  #ask(word, signal) {
    const prefix = word.prefix.trimEnd();
    const options = { return_alternatives: true, num_hypotheses: COUNT, ...(prefix ? { target_prefix: prefix } : {}) };
    return this.#session.ask(this.#session.sentence, options, signal);
  }

  #head(word) {
    const probability = ui.number(100 * Math.exp(word.score), 0);
    return element("p", { class: "faint" }, text("word_probability", { word: word.text.trim(), probability }));
  }

  #offer(word, hypothesis) {
    const rest = hypothesis.text.slice(word.prefix.trimEnd().length);
    const [first] = rest.match(/^\s*(?:\p{Script=Han}|[^\s\p{Script=Han}]+)/u) ?? [""];
    const label = element("span", {}, element("b", {}, first.trim() || "∅"), rest.slice(first.length));
    return button(label, { class: "offer", lang: this.#session.wishes.target_language }, () => this.#take(hypothesis));
  }

  #own(word) {
    const input = element("input", { type: "text", "aria-label": text("own_words"), placeholder: text("own_words") });
    const form = element("form", { class: "own" }, input, element("button", { type: "submit" }, text("go_on")));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!input.value.trim()) return;
      const space = word.text.startsWith(" ") ? " " : "";
      const prefix = word.prefix.trimEnd() + space + input.value.trim();
      const [best] = await this.#session.ask(this.#session.sentence, { target_prefix: prefix }).catch((error) => {
        form.after(element("p", { class: "failure" }, worded(error)));
        return [];
      });
      if (best) this.#take(best);
    });
    return form;
  }

  #take(hypothesis) {
    this.#session.choose(hypothesis);
    announce(this.#session.text);
    this.#close();
    this.#returnFocus(this.#place);
  }

  #put(anchor) {
    const frame = this.#root.parentElement.getBoundingClientRect();
    const word = anchor.getBoundingClientRect();
    const room = frame.width - this.#root.offsetWidth - 8;
    this.#root.style.setProperty("left", `${Math.max(8, Math.min(word.left - frame.left, room))}px`);
    this.#root.style.setProperty("top", `${word.bottom - frame.top + 6}px`);
  }

  #key(event) {
    const offers = [...this.#root.querySelectorAll(".offer")];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      this.#close();
      this.#returnFocus(this.#place);
    } else if (by && offers.length) {
      offers.at((offers.indexOf(document.activeElement) + by) % offers.length).focus();
      event.preventDefault();
    }
  }

  #close() {
    this.#asked?.abort();
    this.#root.hidden = true;
  }
}
