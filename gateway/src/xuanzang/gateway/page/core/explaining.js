// Explanations of sentences, each asked for once: attention and the tree show two sides of the same answer.

import { post } from "./api.js";

const NOT_OFFERED = [404, 501];

/** Asks for explanations and keeps the last ones. */
export class Explaining {
  #session;
  #kept = new Map();
  #onMissing;

  /**
   * @param {Session} session
   * @param {() => void} onMissing Called when the server turns out to explain nothing.
   */
  constructor(session, onMissing) {
    this.#session = session;
    this.#onMissing = onMissing;
    session.addEventListener("begun", () => this.#kept.clear());
  }

  /**
   * Explains a sentence.
   * @param {object} sentence Sentence of the session.
   * @param {string} kind Attention wanted: "cross", "encoder" or "decoder".
   * @param {number|null} beamSize Beam size; null: the model's.
   */
  explanation(sentence, kind = "cross", beamSize = null) {
    const options = {
      ...(beamSize ? { beam_size: beamSize } : {}),
      // What was chosen is shown as it was chosen.
      ...(sentence.isChosen ? { target_prefix: sentence.text } : {}),
    };
    const body = { ...this.#session.about(sentence), options, attention_kinds: [kind], attention_heads: true };
    const key = JSON.stringify(body);
    if (!this.#kept.has(key)) this.#kept.set(key, this.#ask(body));
    return this.#kept.get(key);
  }

  async #ask(body) {
    try {
      return await post("/v1/explain", body);
    } catch (error) {
      if (NOT_OFFERED.includes(error.status)) this.#onMissing();
      throw error;
    }
  }
}
