// The translation: text while it is found, then words that can be pointed at, walked through and opened.

import { byId, element } from "../core/dom.js";
import { announce, text, ui } from "../core/language.js";

/** A word whose probability is below it is underlined. */
const UNCERTAIN = 0.2;
const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };

/** Shows the translation of a session. */
export class Target {
  #root = byId("target");
  #session;
  #open;
  #buttons = new Map();
  #isFresh = false;

  /**
   * @param {Session} session
   * @param {(word: object, button: Element) => void} open Opens the alternatives of a word.
   */
  constructor(session, open) {
    this.#session = session;
    this.#open = open;
    session.addEventListener("begun", () => this.#begin());
    session.addEventListener("part", ({ detail }) => this.#append(detail));
    session.addEventListener("sentence", () => this.#show());
    session.addEventListener("translated", () => announce(session.text));
    session.addEventListener("state", () => this.#enter(session.state));
    session.addEventListener("marked", ({ detail }) => this.#mark(detail.words));
    this.#root.addEventListener("keydown", (event) => this.#walk(event));
    byId("undo").addEventListener("click", () => session.undo());
    byId("copy").addEventListener("click", () => this.#copy());
    ui.addEventListener("language", () => this.#show());
  }

  /** Puts the focus on a word of the sentence that is looked at. */
  focus(place) {
    this.#buttons.get(this.#session.sentence?.words[place])?.focus();
  }

  #begin() {
    this.#isFresh = true;
  }

  /** Shows whether the translation belongs to the text: one of an earlier text can be neither copied nor opened. */
  #enter(state) {
    const isStale = state === "waiting" || state === "failed";
    this.#root.classList.toggle("stale", isStale);
    this.#root.inert = isStale;
    byId("panels").classList.toggle("stale", isStale);
    byId("progress").hidden = state !== "waiting" && state !== "writing";
    for (const id of ["verdict", "timing", "undo", "copy"]) byId(id).classList.toggle("withheld", state !== "done");
  }

  #append(delta) {
    if (this.#isFresh) this.#root.replaceChildren();
    this.#isFresh = false;
    this.#root.append(delta);
  }

  #show() {
    this.#buttons.clear();
    this.#root.replaceChildren(...this.#session.sentences.map((each, index) => this.#sentence(each, index)));
    this.#root.append(this.#session.sentences.at(-1)?.tail ?? "");
    const [first] = this.#buttons.values();
    first?.setAttribute("tabindex", "0");
    byId("copy").hidden = !this.#session.sentences.length;
    byId("undo").hidden = !this.#session.sentences.some((each) => each.isChosen);
  }

  #sentence(sentence, index) {
    const shown = element("span", { class: index === this.#session.index ? "sentence looked" : "sentence" });
    for (const word of sentence.words) {
      const visible = word.text.trim();
      const [before] = word.text.split(visible);
      shown.append(before, this.#word(word, visible, index));
    }
    if (!sentence.words.length) shown.append(sentence.text);
    return element("span", {}, sentence.gap, shown);
  }

  #word(word, visible, index) {
    const made = element(
      "span",
      {
        role: "button",
        tabindex: "-1",
        class: Math.exp(word.score) < UNCERTAIN ? "word uncertain" : "word",
        "aria-haspopup": "dialog",
        on: {
          click: () => this.#opened(word, index),
          pointerenter: () => this.#session.mark(word.spans, [word]),
          pointerleave: () => this.#session.mark([], []),
          focus: () => this.#session.mark(word.spans, [word]),
          blur: () => this.#session.mark([], []),
        },
      },
      visible,
    );
    this.#buttons.set(word, made);
    return made;
  }

  #opened(word, index) {
    const place = this.#session.sentences[index].words.indexOf(word);
    if (index !== this.#session.index) this.#session.look(index);
    this.#open(word, this.#buttons.get(word), place);
  }

  #walk(event) {
    const words = [...this.#buttons.values()];
    const at = words.indexOf(event.target);
    if (at < 0) return;
    if (event.key === "Enter" || event.key === " ") event.target.click();
    else if (event.key in STEPS) step(words, at, STEPS[event.key]);
    else return;
    event.preventDefault();
  }

  #mark(words) {
    for (const [word, shown] of this.#buttons) shown.classList.toggle("marked", words.includes(word));
  }

  async #copy() {
    await navigator.clipboard.writeText(this.#session.text);
    announce(text("copied"));
    byId("copy").textContent = text("copied");
    setTimeout(() => (byId("copy").textContent = text("copy")), 1500);
  }
}

function step(words, at, by) {
  const next = words[Math.min(words.length - 1, Math.max(0, at + by))];
  words[at].setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}
