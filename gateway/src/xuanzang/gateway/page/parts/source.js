// The source: typed text, examples, and marks of the characters that words of the translation come from.

import { byId, button } from "../core/dom.js";
import { text, ui } from "../core/language.js";

const EXAMPLES = {
  zh: ["他在北京工作了五年，去年搬到了上海。", "这家餐厅的菜很好吃，价格也不贵。"],
  en: ["The weather is nice today.", "The film was good. We all liked it."],
};

/** Shows the source of a session. */
export class Source {
  #area = byId("source");
  #mirror = byId("mirror");
  #session;

  constructor(session) {
    this.#session = session;
    this.#area.addEventListener("input", (event) => this.#typed(event));
    this.#area.addEventListener("compositionend", () => session.write(this.#area.value));
    this.#area.addEventListener("pointermove", (event) => this.#pointed(event));
    this.#area.addEventListener("pointerleave", () => session.mark([], []));
    this.#area.addEventListener("keyup", () => this.#lookAt(this.#area.selectionStart));
    byId("clear").addEventListener("click", () => this.write(""));
    session.addEventListener("marked", ({ detail }) => this.#mark(detail.spans));
    session.addEventListener("failed", () => this.#count());
    ui.addEventListener("language", () => this.#count());
    this.#count();
    // A browser may keep typed text when it reloads the page.
    if (this.#area.value) session.write(this.#area.value, 0);
  }

  /** Replaces the text, as an example does. */
  write(value) {
    this.#area.value = value;
    this.#session.write(value, 0);
    this.#count();
    this.#area.focus();
  }

  /**
   * Tells the browser the language, for its fonts, and offers examples in it and in the others.
   * @param {string} language Code of the language that is expected.
   * @param {string[]} offered Codes of the languages that are translated.
   */
  speak(language, offered) {
    this.#area.lang = language;
    this.#mirror.lang = language;
    const shown = [...new Set([language, ...offered])].flatMap((code) => (EXAMPLES[code.split("-")[0]] ?? []).map((each) => [code, each]));
    byId("examples").replaceChildren(
      ...shown.map(([lang, each]) => button(each, { class: "example", lang }, () => this.write(each))),
    );
  }

  #typed(event) {
    this.#count();
    this.#mark([]);
    if (event.isComposing) return;
    const isWhole = event.inputType === "insertFromPaste" || event.inputType === "insertFromDrop";
    this.#session.write(this.#area.value, isWhole ? 0 : undefined);
  }

  #count() {
    const { value } = this.#area;
    const count = [...value].length;
    const { limit } = this.#session;
    byId("length").textContent = text("length", { count: ui.number(count), limit: ui.number(limit) });
    byId("length").classList.toggle("over", count > limit);
    byId("clear").hidden = !value;
    this.#mirror.textContent = `${value}\n`;
  }

  #mark(spans) {
    const { value } = this.#area;
    const ends = [...new Set(spans.flat())].sort((a, b) => a - b);
    const pieces = [0, ...ends, value.length].map((from, i, all) => [from, all[i + 1] ?? value.length]);
    this.#mirror.replaceChildren(
      ...pieces.map(([from, to]) => {
        const piece = document.createElement(spans.some(([a, b]) => a <= from && to <= b && from < to) ? "mark" : "span");
        piece.textContent = value.slice(from, to);
        return piece;
      }),
      "\n",
    );
  }

  #pointed(event) {
    const place = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    if (place?.offsetNode === this.#area) this.#lookAt(place.offset);
  }

  #lookAt(at) {
    if (this.#session.state === "done") this.#session.mark([], wordsAt(this.#session.sentences, at));
  }
}

/** Returns the words that come from a character of the source. */
function wordsAt(sentences, at) {
  const isAt = ([from, to]) => from <= at && at < to;
  return sentences.flatMap((each) => each.words.filter((word) => word.spans.some(isAt)));
}
