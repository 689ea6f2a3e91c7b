// Which languages and which model: what the server offers, and what is chosen.

import { get } from "../core/api.js";
import { byId, fillSelect } from "../core/dom.js";
import { text, ui } from "../core/language.js";

/** The choices above the text. */
export class Choices {
  #session;
  #source;
  #models = [];

  constructor(session, source) {
    this.#session = session;
    this.#source = source;
    byId("source-language").addEventListener("change", () => this.#changed());
    byId("target-language").addEventListener("change", () => this.#changed());
    byId("model").addEventListener("change", () => this.#changed());
    byId("swap").addEventListener("click", () => this.#swap());
    session.addEventListener("translated", () => this.#answered());
    session.addEventListener("failed", () => this.#offer());
    ui.addEventListener("language", () => this.#offer());
  }

  /** Reads the models; throws if the server does not answer. */
  async load() {
    ({ models: this.#models } = await get("/v1/models"));
    this.#offer();
    this.#changed();
  }

  /** Codes of the languages that are translated. */
  get languages() {
    return codes(this.#models, "source_languages");
  }

  #offer() {
    const sources = codes(this.#models, "source_languages");
    const targets = codes(this.#models, "target_languages");
    const name = (code) => [code, ui.languageName(code)];
    refill("source-language", [["", this.#detected()], ...sources.map(name)]);
    refill("target-language", targets.map(name));
    const versions = this.#models.map((each) => [`${each.name}/${each.version}`, label(each)]);
    refill("model", [["", text("model_default")], ...versions]);
    byId("swap").hidden = !this.#reverse();
  }

  #answered() {
    this.#offer();
    const other = this.#otherTarget();
    if (!other) return;
    byId("target-language").value = other;
    this.#changed();
  }

  /** Where a text goes that was found to be in the target language already; null if it was not, or nowhere. */
  #otherTarget() {
    const found = base(this.#session.answer?.source_language ?? "");
    if (byId("source-language").value || found !== base(byId("target-language").value)) return null;
    const from = this.#models.filter((each) => each.source_languages.some((code) => base(code) === found));
    return codes(from, "target_languages").find((code) => base(code) !== found) ?? null;
  }

  #detected() {
    const { source_language: found, detection_confidence: confidence } = this.#session.answer ?? {};
    if (byId("source-language").value || !found || this.#session.state === "failed") return text("detect");
    return text(confidence === null ? "taken_for" : "detected", { language: ui.languageName(found) });
  }

  #changed() {
    const source = byId("source-language").value;
    const target = byId("target-language").value;
    this.#session.wish({
      source_language: source || null,
      target_language: target,
      model: byId("model").value || null,
    });
    byId("target").lang = target;
    const into = this.#models.filter((each) => each.target_languages.includes(target));
    this.#source.speak(source || (codes(into, "source_languages")[0] ?? "zh"));
    byId("swap").hidden = !this.#reverse();
  }

  /** The languages the other way round, if a model offers them. */
  #reverse() {
    const source = byId("source-language").value || this.#session.answer?.source_language;
    const target = byId("target-language").value;
    const isOffered = this.#models.some(
      (each) => each.source_languages.includes(target) && each.target_languages.includes(source),
    );
    return isOffered ? { source: target, target: source } : null;
  }

  #swap() {
    const { source, target } = this.#reverse();
    byId("source-language").value = source;
    byId("target-language").value = target;
    const written = this.#session.text;
    this.#changed();
    this.#source.write(written);
  }
}

const codes = (models, field) => [...new Set(models.flatMap((each) => each[field]))].sort();

const base = (code) => code.split("-")[0].toLowerCase();

const label = (model) => `${model.name} ${model.version} (${model.precision})`;

function refill(id, options) {
  const select = byId(id);
  const isKnown = options.some(([value]) => value === select.value);
  fillSelect(select, options, isKnown ? select.value : (options[0]?.[0] ?? ""));
}
