// Choice of languages and model among the server's.

import { get } from "../core/api.js";
import { byId, fillSelect } from "../core/dom.js";
import { keep, kept, text, ui } from "../core/language.js";

/** The choices of languages, and that of the model. */
export class Languages {
  #session;
  #source;
  #models = [];
  /** The text that was taken elsewhere, because it is in the language into which it was to go; it goes there once. */
  #redirectedText = null;

  constructor(session, source) {
    this.#session = session;
    this.#source = source;
    byId("source-language").addEventListener("change", () => this.#changed());
    byId("target-language").addEventListener("change", ({ target }) => {
      keep("target", target.value);
      this.#changed();
    });
    byId("model").addEventListener("change", () => this.#changed());
    byId("model").addEventListener("focus", () => this.#refresh());
    byId("swap").addEventListener("click", () => this.swap());
    session.redirect = (answer) => this.#redirected(answer);
    session.addEventListener("translated", () => {
      this.#offer();
      this.#explain();
    });
    session.addEventListener("state", () => session.state !== "done" && (byId("note").hidden = true));
    session.addEventListener("failed", () => this.#offer());
    ui.addEventListener("language", () => {
      this.#offer();
      this.#explain();
    });
    byId("note-go").addEventListener("click", () => this.#go());
  }

  /** Reads the models; throws if the server does not answer. */
  async load() {
    this.#models = await models();
    this.#offer();
    const targets = codes(this.#models, "target_languages");
    // The target is the reader's language, unless another was chosen before.
    byId("target-language").value = [kept("target"), ui.language].find((each) => targets.includes(each)) ?? targets[0] ?? "";
    this.#changed();
  }

  /** Reads again which models are in memory; a server that does not answer leaves what was known. */
  async #refresh() {
    const known = await models().catch(() => []);
    if (known.length) this.#models = known;
    this.#offer();
  }

  /** Codes of the languages that are translated. */
  get offered() {
    return codes(this.#models, "source_languages");
  }

  /** Exchanges the languages; a translation that belongs to its source becomes the source. */
  swap() {
    const reverse = this.#reverse();
    if (!reverse) return;
    byId("source-language").value = reverse.source;
    byId("target-language").value = reverse.target;
    const { state, text: written, source } = this.#session;
    this.#changed();
    this.#source.write(state === "done" ? written : source);
  }

  #offer() {
    if (!this.#models.length) return;
    const targets = codes(this.#models, "target_languages");
    const name = (code) => [code, ui.languageName(code)];
    refill("source-language", [["", this.#detected()], ...this.offered.map(name)]);
    refill("target-language", targets.map(name));
    const versions = this.#models.map((each) => [`${each.name}/${each.version}`, label(each)]);
    refill("model", [["", text("model_default")], ...versions]);
    byId("swap").disabled = !this.#reverse();
  }

  /** Where a text goes that was found to be in the target language already; null if it was not, or nowhere. */
  #redirected(answer) {
    const target = byId("target-language").value;
    // Of a few words nothing tells the language; they are copied if their script is that of the target.
    const isTaken = isCopied(answer) && WORDS.test(this.#session.source);
    const found = answer.source_language || (isTaken ? target : "");
    const isAgain = answer.text !== undefined && this.#redirectedText === this.#session.source;
    if (byId("source-language").value || base(found) !== base(target) || isAgain) return null;
    const other = this.#elsewhere(found);
    if (!other) return null;
    this.#redirectedText = this.#session.source;
    byId("target-language").value = other;
    return this.#chosen();
  }

  /** Returns another language into which one is translated, or undefined. */
  #elsewhere(found) {
    const from = this.#models.filter((each) => each.source_languages.some((code) => base(code) === base(found)));
    return codes(from, "target_languages").find((code) => base(code) !== base(found));
  }

  /** Says why a text came back as it was, or went into another language than was chosen, and offers the other one. */
  #explain() {
    const { answer, source, state } = this.#session;
    const target = byId("target-language").value;
    const isSame = state === "done" && answer?.text === source;
    const isElsewhere = state === "done" && this.#redirectedText === source && !isSame;
    byId("note").hidden = !isSame && !isElsewhere;
    if (byId("note").hidden) return;
    const taken = answer.source_language || target;
    const isThere = base(taken) === base(target);
    const hasWords = LETTER.test(source);
    const other = isSame && hasWords && isThere ? this.#elsewhere(target) : null;
    const isKept = answer.hypotheses[0]?.finish_reason === "placeholder_lost";
    const why = isKept ? "unchanged_placeholder" : !hasWords ? "unchanged_signs" : isThere ? "unchanged" : "unchanged_names";
    const names = { language: ui.languageName(taken), target: ui.languageName(target) };
    byId("note-text").textContent = text(isSame ? why : "redirected", names);
    byId("note-go").hidden = !other;
    byId("note-go").textContent = other ? text("go_into", { language: ui.languageName(other) }) : "";
    byId("note-go").value = other ?? "";
  }

  #go() {
    this.#redirectedText = this.#session.source;
    byId("source-language").value = this.offered.find((code) => base(code) === base(byId("target-language").value)) ?? "";
    byId("target-language").value = byId("note-go").value;
    this.#changed();
  }

  #detected() {
    const { source_language: found, detection_confidence: confidence } = this.#session.answer ?? {};
    if (byId("source-language").value || !found || this.#session.state === "failed") return text("detect");
    return text(confidence === null ? "taken_for" : "detected", { language: ui.languageName(found) });
  }

  #changed() {
    this.#session.wish(this.#chosen());
  }

  #chosen() {
    const source = byId("source-language").value;
    const target = byId("target-language").value;
    byId("target").lang = target;
    byId("swap").disabled = !this.#reverse();
    this.#source.speak(source || this.#sourcesOf(target)[0] || "zh", this.offered);
    return { source_language: source || null, target_language: target, model: byId("model").value || null };
  }

  #sourcesOf(target) {
    return codes(this.#models.filter((each) => each.target_languages.includes(target)), "source_languages");
  }

  /** The languages the other way round, if a model offers them. */
  #reverse() {
    const target = byId("target-language").value;
    const source = byId("source-language").value || this.#session.answer?.source_language || this.#sourcesOf(target)[0];
    for (const model of this.#models) {
      const from = model.source_languages.find((code) => base(code) === base(target));
      const into = model.target_languages.find((code) => code === source);
      if (from && into) return { source: from, target: into };
    }
    return null;
  }
}

const LETTER = /\p{L}/u;
const WORDS = /^[\p{L}\p{M}\p{P}\s]*\p{L}[\p{L}\p{M}\p{P}\s]*$/u;

const isCopied = ({ hypotheses }) => hypotheses?.[0]?.finish_reason === "copied";

const codes = (models, field) => [...new Set(models.flatMap((each) => each[field]))].sort();

const base = (code) => code.split("-")[0].toLowerCase();

/** The served models, each with the languages that it reaches through another one. */
async function models() {
  const answer = await get("/v1/models");
  for (const each of answer.models) each.source_languages.push(...(each.pivoted_source_languages ?? []));
  return answer.models;
}

/** A model, and the place of its weights where they are not in memory. */
function label({ name, version, precision, residency }) {
  const place = ["loading", "on_demand", "failing"].includes(residency) ? `, ${text(`model_${residency}`)}` : "";
  return `${name} ${version} (${precision}${place})`;
}

function refill(id, options) {
  const select = byId(id);
  const isKnown = options.some(([value]) => value === select.value);
  fillSelect(select, options, isKnown ? select.value : (options[0]?.[0] ?? ""));
}
