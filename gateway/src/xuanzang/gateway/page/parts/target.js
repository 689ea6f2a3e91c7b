// The translation: text while it is found, then words that can be pointed at, walked through and opened, and below them
// how far to trust them.

import { byId, copy, element } from "../core/dom.js";
import { announce, keep, kept, text, ui } from "../core/language.js";
import { FAIR, GOOD } from "../core/session.js";

const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };

/** Shows the translation of a session. */
export class Target {
  #root = byId("target");
  #session;
  #open;
  #buttons = new Map();
  #shown = [];

  /**
   * @param {Session} session
   * @param {(word: object, place: number) => void} open Opens the alternatives of a word.
   */
  constructor(session, open) {
    this.#session = session;
    this.#open = open;
    session.addEventListener("part", ({ detail }) => this.#root.replaceChildren(detail, element("span", { class: "caret" })));
    session.addEventListener("sentence", () => this.#show());
    session.addEventListener("assessed", () => this.#assess());
    session.addEventListener("translated", () => announce(session.text));
    session.addEventListener("state", () => this.#enter(session.state));
    // One of an earlier text has nothing to do with a text that is refused.
    session.addEventListener("failed", ({ detail }) => (this.#root.hidden = !detail.isPassing));
    session.addEventListener("marked", ({ detail }) => this.#mark(detail.words));
    this.#root.addEventListener("keydown", (event) => this.#walk(event));
    byId("undo").addEventListener("click", () => session.undo());
    byId("copy").addEventListener("click", () => this.copy());
    ui.addEventListener("language", () => this.#show());
  }

  /** Puts the focus on a word of the sentence that is looked at. */
  focus(place) {
    this.#buttons.get(this.#session.sentence?.words[place])?.focus();
  }

  /** Copies the translation, if it is that of the text. */
  async copy() {
    if (this.#session.state !== "done") return;
    await copy(this.#session.text);
    announce(text("copied"));
    byId("copy-label").textContent = text("copied");
    setTimeout(() => (byId("copy-label").textContent = text("copy")), 1500);
  }

  /** Shows whether the translation belongs to the text: one of an earlier text can be neither copied nor opened. */
  #enter(state) {
    const isStale = state === "waiting" || state === "failed";
    const hasText = Boolean(this.#root.textContent);
    this.#root.classList.toggle("stale", isStale);
    this.#root.inert = isStale;
    if (state !== "failed") this.#root.hidden = false;
    byId("panels").classList.toggle("stale", isStale);
    byId("progress").hidden = state !== "waiting" && state !== "writing";
    byId("skeleton").hidden = state !== "waiting" || hasText;
    byId("invitation").hidden = state !== "empty";
    for (const id of ["verdict", "hint", "undo", "copy"]) byId(id).classList.toggle("withheld", state !== "done");
  }

  #show() {
    const { sentences } = this.#session;
    this.#buttons.clear();
    this.#shown = sentences.map((each, index) => this.#sentence(each, index));
    this.#root.replaceChildren(...this.#shown.flatMap((shown, i) => [sentences[i].gap, shown]), sentences.at(-1)?.tail ?? "");
    const [first] = this.#buttons.values();
    first?.setAttribute("tabindex", "0");
    byId("copy").hidden = !sentences.length;
    byId("undo").hidden = !sentences.some((each) => each.isChosen);
    byId("hint").hidden = !first || Boolean(kept("hinted"));
    this.#assess();
  }

  #sentence(sentence, index) {
    const shown = element("span", { class: "sentence" });
    for (const word of sentence.words) {
      const visible = word.text.trim();
      const [before] = word.text.split(visible);
      shown.append(before, this.#word(word, visible, index));
    }
    if (!sentence.words.length) shown.append(sentence.text);
    return shown;
  }

  #word(word, visible, index) {
    const listeners = {
      click: () => this.#opened(word, index),
      pointerenter: () => this.#session.mark(word.spans, [word]),
      pointerleave: () => this.#session.mark([], []),
      focus: () => this.#session.mark(word.spans, [word]),
      blur: () => this.#session.mark([], []),
    };
    const attributes = { role: "button", tabindex: "-1", class: "word", "aria-haspopup": "dialog", on: listeners };
    const made = element("span", attributes, visible);
    this.#buttons.set(word, made);
    return made;
  }

  #opened(word, index) {
    const place = this.#session.sentences[index].words.indexOf(word);
    if (index !== this.#session.index) this.#session.look(index);
    keep("hinted", "yes");
    byId("hint").hidden = true;
    this.#open(word, place);
    this.#buttons.get(word)?.classList.add("opened");
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

  /** Underlines the sentences that are not good; the verdict is that of the least of them. */
  #assess() {
    this.#shown.forEach((shown, i) => {
      const level = levelOf(this.#session.sentences[i]?.quality) ?? "good";
      shown.className = `sentence ${level}`;
      shown.title = level === "good" ? "" : text(`verdict_${level}`);
    });
    const isPartial = this.#shown.length > 1 && this.#shown.some((each) => each.title);
    const missing = this.#session.missingTerms.map((each) => text("term_missing", { term: each.target }));
    byId("verdict").replaceChildren(...verdict(this.#session.quality, isPartial), ...missing.map((each) => element("span", { class: "flag" }, each)));
  }
}

/** Returns how good something is, in a word: "good", "check", "doubtful"; null: nothing is known. */
function levelOf(quality) {
  const probability = quality?.acceptable_probability ?? null;
  if (probability === null) return quality?.flags.length ? "check" : null;
  if (probability < FAIR) return "doubtful";
  return probability < GOOD || quality.flags.length ? "check" : "good";
}

/** Returns how far to trust a translation, and what is suspicious about it, as elements. */
function verdict(quality, isPartial) {
  const level = levelOf(quality);
  if (!level) return [];
  const meaning = text(isPartial ? `verdict_${level}_where` : `verdict_${level}`);
  return [element("span", { class: `level ${level}`, title: text("verdict_why") }, meaning), ...flags(quality)];
}

/** Returns what is suspicious about a translation as elements. */
export const flags = (quality) =>
  quality.flags.map((flag) => element("span", { class: "flag", title: text(`flag_${flag}_why`) }, text(`flag_${flag}`)));

function step(words, at, by) {
  const next = words[Math.min(words.length - 1, Math.max(0, at + by))];
  words[at].setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}
