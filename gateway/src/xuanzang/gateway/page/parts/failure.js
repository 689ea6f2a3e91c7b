// What goes wrong: said in the reader's words, with another try by hand or, where time may help, by itself.

import { byId } from "../core/dom.js";
import { text, ui } from "../core/language.js";
import { isPassing, worded } from "../core/reasons.js";

const FIRST = 1000;
const LONGEST = 30000;

/** The line above the text. */
export class Failure {
  #error = null;
  #again = null;
  #timer = 0;
  #wait = FIRST;
  #offered;

  /** @param {() => string[]} offered Returns the codes of the languages that are translated. */
  constructor(offered) {
    this.#offered = offered;
    byId("again").addEventListener("click", () => this.#retry());
    window.addEventListener("online", () => this.#error && isPassing(this.#error) && this.#retry());
    ui.addEventListener("language", () => this.#show());
  }

  /**
   * Says what went wrong.
   * @param {Error} error
   * @param {() => void} again What tries once more.
   */
  say(error, again) {
    this.#error = error;
    this.#again = again;
    clearTimeout(this.#timer);
    if (isPassing(error)) {
      this.#timer = setTimeout(() => this.#retry(), this.#wait);
      this.#wait = Math.min(LONGEST, 2 * this.#wait);
    }
    this.#show();
  }

  /** Forgets what went wrong: something has gone right since, or is being tried. */
  clear() {
    clearTimeout(this.#timer);
    this.#error = null;
    this.#wait = FIRST;
    this.#show();
  }

  #retry() {
    clearTimeout(this.#timer);
    this.#again();
  }

  #show() {
    byId("failure").hidden = !this.#error;
    byId("reason").textContent = this.#error ? this.#reason() : "";
    byId("again").hidden = !this.#error || this.#error.isUnserved;
  }

  #reason() {
    if (!this.#error.isUnserved) return worded(this.#error);
    const names = (codes) => ui.list(codes.map((code) => ui.languageName(code)));
    const language = names(this.#error.detectedLanguages) || text("another_language");
    return text("unserved", { language, offered: names(this.#offered()) });
  }
}
