// Alternatives at a word: what else the model would write there, or the reader's own words, and the rest translated anew.

import { worded } from "../core/api.js";
import { byId, button, element, icon } from "../core/dom.js";
import { announce, text } from "../core/language.js";
import { beginnings } from "../core/sentences.js";

const COUNT = 6;

/** The list below the translation, which it does not cover. */
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
    document.addEventListener("pointerdown", ({ target }) => {
      if (!this.#root.contains(target) && !target.closest?.(".word")) this.#close();
    });
    session.addEventListener("state", () => session.state !== "done" && this.#close());
  }

  /** Opens the list for a word and asks for its alternatives. */
  async open(word, place) {
    this.#close();
    this.#place = place;
    this.#asked = new AbortController();
    const waiting = Array.from({ length: COUNT }, () => element("li", { class: "skeleton", "aria-hidden": "true" }, element("i")));
    const list = element("ul", { "aria-busy": "true" }, ...waiting);
    this.#root.replaceChildren(this.#head(word), list, this.#own(word));
    this.#root.hidden = false;
    this.#root.querySelector("input").focus({ preventScroll: true });
    this.#root.scrollIntoView({ block: "nearest" });
    try {
      const found = await this.#ask(word, this.#asked.signal);
      const others = found.filter((each) => each.text !== this.#session.sentence.text).slice(0, COUNT);
      list.replaceChildren(...others.map((each) => element("li", {}, this.#offer(word, each))));
      list.querySelector("button")?.focus({ preventScroll: true });
    } catch (error) {
      if (error.name !== "AbortError") list.replaceChildren(element("li", { class: "complaint" }, worded(error)));
    }
    list.removeAttribute("aria-busy");
  }

  #ask(word, signal) {
    const prefix = word.prefix.trimEnd();
    const options = { return_alternatives: true, num_hypotheses: COUNT + 1, ...(prefix ? { target_prefix: prefix } : {}) };
    return this.#session.ask(this.#session.sentence, options, signal);
  }

  #head(word) {
    const close = () => {
      this.#close();
      this.#returnFocus(this.#place);
    };
    const shut = button(icon("close"), { class: "icon-only", "aria-label": text("close") }, close);
    return element("div", { class: "alternatives-head" }, element("p", {}, text("instead_of"), " ", element("b", {}, word.text.trim())), shut);
  }

  #offer(word, hypothesis) {
    const rest = hypothesis.text.slice(word.prefix.trimEnd().length);
    const shown = rest.trimStart();
    const [, end = shown.length] = beginnings(shown);
    const label = element("span", {}, element("b", {}, shown.slice(0, end) || "∅"), shown.slice(end));
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
        form.after(element("p", { class: "complaint" }, worded(error)));
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
    for (const each of document.querySelectorAll(".word.opened")) each.classList.remove("opened");
  }
}
