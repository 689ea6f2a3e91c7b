// The current translation: the text, the choices, the sentences found, and the selected one.

import { Problem, events, post } from "./api.js";
import { replaced, sentencesOf } from "./sentences.js";

/** Milliseconds without a key pressed after which a translation begins. */
export const PAUSE = 110;
/** A probability that a translation is acceptable below which it is worth checking, and one below which it is doubtful. */
export const GOOD = 0.7;
export const FAIR = 0.4;
/** Characters that a server takes at most unless it was told otherwise. */
const LIMIT = 20_000;

/**
 * The text and its translation. Events: `typed`, `begun`, `part`, `translated`, `sentence` (another one is looked at, or
 * it has changed), `assessed` (more is known of the quality), `marked` (source and target under the pointer), `failed`,
 * `state`.
 *
 * `state` says what the translation that is shown has to do with the text: "empty" and "done", it belongs to it; "waiting"
 * and "failed", it is that of an earlier text; "writing", it is the beginning of it.
 */
export class Session extends EventTarget {
  source = "";
  /** Fields of every request: languages, model, glossary. Nothing is translated before a target language is among them. */
  wishes = {};
  /** Answer of the server for the whole text, or null. */
  answer = null;
  sentences = [];
  index = 0;
  state = "empty";
  /** Most characters of a text. */
  limit = LIMIT;
  /** Milliseconds from the last key to the first words and to the whole, and from the call to both. */
  times = null;
  /** Returns the wishes with which an answer is to be asked for anew, or null: set by what chooses the languages. */
  redirect = () => null;
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

  /** Quality of the translation as it stands: its probability is that of its least sentence; null: nothing is known. */
  get quality() {
    if (!this.sentences.some((each) => each.isChosen)) return this.answer?.hypotheses[0]?.quality ?? null;
    const known = this.sentences.map((each) => each.quality).filter(Boolean);
    const probabilities = known.map((each) => each.acceptable_probability).filter((each) => each !== null);
    if (!known.length) return null;
    return {
      acceptable_probability: probabilities.length ? Math.min(...probabilities) : null,
      flags: [...new Set(known.flatMap((each) => each.flags))],
    };
  }

  /** Terms that the translation should have and lacks. */
  get missingTerms() {
    return (this.answer?.glossary_matches ?? []).filter((each) => each.target && each.outcome !== "honoured");
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
    this.#assess();
  }

  /** Takes back what was chosen in the sentences. */
  undo() {
    this.sentences = this.#found();
    this.#emit("sentence");
    this.#assess();
  }

  /** Says that characters of the source and words of the translation belong together; null: nothing does. */
  mark(spans, words) {
    this.dispatchEvent(new CustomEvent("marked", { detail: { spans, words } }));
  }

  /** Asks for something about one sentence and returns the hypotheses. */
  async ask(sentence, options, signal) {
    const [found] = await this.#translations([sentence], { return_scores: true, token_details: true, ...options }, signal);
    return found.hypotheses;
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

  /** Begins after a pause, which a further call begins anew. */
  #later(pause) {
    clearTimeout(this.#timer);
    this.#running?.abort();
    if (!this.source.trim()) return this.#finish(null);
    this.#enter("waiting");
    this.#timer = setTimeout(() => this.#translate(), pause);
    return null;
  }

  async #translate() {
    this.#running = new AbortController();
    const { signal } = this.#running;
    if (!this.wishes.target_language) return;
    this.#emit("begun");
    try {
      await this.#stream(signal);
    } catch (error) {
      if (!signal.aborted) await this.#failed(error);
    }
  }

  async #stream(signal) {
    const length = [...this.source].length;
    if (length > this.limit) throw new Problem(400, { detail: `must have at most ${this.limit} characters, has ${length}` });
    const times = { called: performance.now() - this.#typed };
    const body = { ...this.#body({ return_scores: true, token_details: true }), text: this.source, return_provenance: true };
    let written = "";
    for await (const { name, data } of events("/v1/translate/stream", body, signal)) {
      if (signal.aborted) return;
      times.first ??= performance.now() - this.#typed;
      if (name === "part") this.#part((written += data.text_delta));
      if (name === "error") throw new Problem(data.status, data);
      if (name === "translation") {
        this.times = { ...times, whole: performance.now() - this.#typed };
        return this.#finish(data);
      }
    }
    if (!signal.aborted) throw new Problem(0);
  }

  #part(written) {
    // A text that is in the target language already comes back unchanged: there is no translation to show.
    if (this.source.startsWith(written)) return;
    this.#enter("writing");
    this.dispatchEvent(new CustomEvent("part", { detail: written }));
  }

  async #translations(sentences, options, signal) {
    const body = { ...this.#body(options), texts: sentences.map((each) => each.source), source_language: this.sourceLanguage };
    return (await post("/v1/translate", body, signal)).translations;
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
    const wishes = answer && this.redirect(answer);
    if (wishes) return this.wish(wishes);
    this.sentences = this.#found();
    this.index = Math.min(this.index, Math.max(0, this.sentences.length - 1));
    this.#enter(answer ? "done" : "empty");
    this.#emit("translated");
    this.#emit("sentence");
    return this.#assess();
  }

  #found() {
    if (!this.answer) return [];
    const found = sentencesOf(this.source, this.answer.hypotheses[0] ?? { text: this.answer.text, tokens: [] });
    if (found.length === 1) found[0].quality = this.answer.hypotheses[0]?.quality;
    return found;
  }

  /** Finds out which sentences are to blame if the text is not good: each is as good as it is alone. */
  async #assess() {
    const { quality, sentences } = this;
    const isBlamed = quality && (quality.flags.length || (quality.acceptable_probability ?? 1) < GOOD);
    const unknown = sentences.filter((each) => each.quality === undefined);
    if (isBlamed && unknown.length) {
      const found = await this.#translations(unknown, {}, this.#running.signal).catch(() => []);
      if (this.sentences !== sentences) return;
      found.forEach(({ text, hypotheses: [best] }, i) => (unknown[i].quality = text === unknown[i].text ? (best?.quality ?? null) : null));
    }
    this.#emit("assessed");
  }

  async #failed(error) {
    // A model without a quality head: its translations are shown without an estimate.
    const target = this.wishes.target_language;
    if (!this.#unassessed.has(target) && error.names?.("return_quality")) {
      this.#unassessed.add(target);
      return this.#translate();
    }
    this.limit = error.limit ?? this.limit;
    this.#enter("failed");
    return this.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }

  #emit(name) {
    this.dispatchEvent(new Event(name));
  }
}
