// Failures: shown at the translation in the reader's words, with another try by hand or, where time may help, by
// itself.

import { worded } from "../core/api.js";
import { byId } from "../core/dom.js";
import { ui } from "../core/language.js";

const FIRST = 1000;
const LONGEST = 30000;

/** The message in the place of the translation. */
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
    window.addEventListener("online", () => this.#error?.isPassing && this.#retry());
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
    if (error.isPassing) {
      this.#timer = setTimeout(() => this.#retry(), this.#wait);
      this.#wait = Math.min(LONGEST, 2 * this.#wait);
    }
    this.#show();
    byId("failure").scrollIntoView({ block: "nearest" });
  }

  /** Says what is wrong while something is still under way, which will succeed or say it again. */
  warn(error) {
    this.#error = error;
    this.#show();
    byId("again").hidden = true;
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
    const error = this.#error;
    byId("failure").hidden = !error;
    byId("reason").textContent = error ? worded(error, this.#offered()) : "";
    byId("by-itself").hidden = !error?.isPassing;
    // No other try helps against a text that must be another.
    byId("again").hidden = !error || error.isUnserved || Boolean(error.limit);
  }
}
