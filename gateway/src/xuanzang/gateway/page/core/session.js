// What is being translated: the text, the choices, the sentences found, and which of them is looked at.

import { Problem, events, post } from "./api.js";
import { replaced, sentencesOf } from "./sentences.js";

/** Milliseconds without a key pressed after which a translation begins. */
export const PAUSE = 110;

/**
 * The text and its translation. Events: `typed`, `begun`, `part`, `translated`, `sentence` (another one is looked at, or
 * it has changed), `marked` (source and target under the pointer), `failed`, `state`.
 *
 * `state` says what the translation that is shown has to do with the text: "empty" and "done", it belongs to it; "waiting"
 * and "failed", it is that of an earlier text; "writing", it is the beginning of it.
 */
export class Session extends EventTarget {
  source = "";
  /** Fields of every request: languages, model, glossary. */
  wishes = {};
  /** Answer of the server for the whole text, or null. */
  answer = null;
  sentences = [];
  index = 0;
  state = "empty";
  /** Milliseconds from the last key to the first words and to the whole, and from the call to both. */
  times = null;
  #timer = 0;
  #running = null;
  #typed = 0;
  /** Target languages of models without a quality head. */
  #unassessed = new Set();

  /** The sentence that is looked at, or null. */
  get sentence() {
    return this.sentences[this.index] ?? null;
  }

  /** The translation as it stands, with the choices made in it. */
  get text() {
    return this.sentences.map((each) => each.gap + each.text).join("") + (this.sentences.at(-1)?.tail ?? "");
  }

  /** Takes another source text and translates it after a pause. */
  write(source, pause = PAUSE) {
    this.source = source;
    this.#typed = performance.now();
    this.#emit("typed");
    this.#later(pause);
  }

  /** Changes fields of the requests and translates anew; null takes a field away. */
  wish(fields) {
    this.wishes = Object.fromEntries(Object.entries({ ...this.wishes, ...fields }).filter(([, value]) => value !== null));
    this.#typed = performance.now();
    this.#later(0);
  }

  /** Translates once more what failed. */
  retry() {
    this.#later(0);
  }

  /** Looks at another sentence. */
  look(index) {
    this.index = index;
    this.#emit("sentence");
  }

  /** Puts another hypothesis in the place of the sentence that is looked at. */
  choose(hypothesis) {
    this.sentences[this.index] = replaced(this.sentence, hypothesis);
    this.#emit("sentence");
  }

  /** Takes back what was chosen in the sentences. */
  undo() {
    this.sentences = this.#found();
    this.#emit("sentence");
  }

  /** Says that characters of the source and words of the translation belong together; null: nothing does. */
  mark(spans, words) {
    this.dispatchEvent(new CustomEvent("marked", { detail: { spans, words } }));
  }

  /** Asks for something about one sentence and returns the hypotheses. */
  async ask(sentence, options, signal) {
    const { translations } = await post(
      "/v1/translate",
      {
        ...this.#body({ return_scores: true, token_details: true, ...options }),
        texts: [sentence.source],
        source_language: this.sourceLanguage,
      },
      signal,
    );
    return translations[0].hypotheses;
  }

  /** Fields of a request about one sentence. */
  about(sentence) {
    const { target_language, model } = this.wishes;
    return { text: sentence.source, source_language: this.sourceLanguage, target_language, ...(model ? { model } : {}) };
  }

  /** Language of the source, as chosen or as detected. */
  get sourceLanguage() {
    return this.wishes.source_language ?? (this.answer?.source_language || undefined);
  }

  #later(pause) {
    clearTimeout(this.#timer);
    this.#running?.abort();
    this.#enter(this.source.trim() ? "waiting" : "empty");
    this.#timer = setTimeout(() => this.#translate(), pause);
  }

  async #translate() {
    this.#running = new AbortController();
    const { signal } = this.#running;
    this.#emit("begun");
    try {
      if (this.source.trim()) await this.#stream(signal);
      else this.#finish(null);
    } catch (error) {
      if (!signal.aborted) await this.#failed(error);
    }
  }

  async #stream(signal) {
    const times = { called: performance.now() - this.#typed };
    const body = { ...this.#body({ return_scores: true, token_details: true }), text: this.source, return_provenance: true };
    for await (const { name, data } of events("/v1/translate/stream", body, signal)) {
      if (signal.aborted) return;
      times.first ??= performance.now() - this.#typed;
      if (name === "part") {
        this.#enter("writing");
        this.dispatchEvent(new CustomEvent("part", { detail: data.text_delta }));
      }
      if (name === "error") throw new Problem(data.status, data);
      if (name === "translation") {
        this.times = { ...times, whole: performance.now() - this.#typed };
        return this.#finish(data);
      }
    }
    if (!signal.aborted) throw new Problem(0);
  }

  #body(options) {
    return { ...this.wishes, return_quality: !this.#unassessed.has(this.wishes.target_language), options };
  }

  #enter(state) {
    this.state = state;
    this.#emit("state");
  }

  #finish(answer) {
    this.answer = answer;
    this.#enter(answer ? "done" : "empty");
    this.sentences = this.#found();
    this.index = Math.min(this.index, Math.max(0, this.sentences.length - 1));
    this.#emit("translated");
    this.#emit("sentence");
  }

  #found() {
    if (!this.answer) return [];
    return sentencesOf(this.source, this.answer.hypotheses[0] ?? { text: this.answer.text, tokens: [] });
  }

  async #failed(error) {
    // A model without a quality head: its translations are shown without an estimate.
    const target = this.wishes.target_language;
    if (!this.#unassessed.has(target) && error.names?.("return_quality")) {
      this.#unassessed.add(target);
      return this.#translate();
    }
    this.#enter("failed");
    return this.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }

  #emit(name) {
    this.dispatchEvent(new Event(name));
  }
}
