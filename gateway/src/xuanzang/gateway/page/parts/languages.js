// Which languages and which model: what the server offers, and what is chosen.

import { get } from "../core/api.js";
import { byId, fillSelect } from "../core/dom.js";
import { keep, kept, text, ui } from "../core/language.js";

/** The choices of languages, and that of the model. */
export class Languages {
  #session;
  #source;
  #models = [];

  constructor(session, source) {
    this.#session = session;
    this.#source = source;
    byId("source-language").addEventListener("change", () => this.#changed());
    byId("target-language").addEventListener("change", ({ target }) => {
      keep("target", target.value);
      this.#changed();
    });
    byId("model").addEventListener("change", () => this.#changed());
    byId("swap").addEventListener("click", () => this.swap());
    session.redirect = (answer) => this.#redirected(answer);
    session.addEventListener("translated", () => this.#offer());
    session.addEventListener("failed", () => this.#offer());
    ui.addEventListener("language", () => this.#offer());
  }

  /** Reads the models; throws if the server does not answer. */
  async load() {
    ({ models: this.#models } = await get("/v1/models"));
    this.#offer();
    const targets = codes(this.#models, "target_languages");
    // A reader wants what is foreign in the own language, unless another was chosen before.
    byId("target-language").value = [kept("target"), ui.language].find((each) => targets.includes(each)) ?? targets[0] ?? "";
    this.#changed();
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
  #redirected({ source_language }) {
    const found = base(source_language ?? "");
    if (byId("source-language").value || found !== base(byId("target-language").value)) return null;
    const from = this.#models.filter((each) => each.source_languages.some((code) => base(code) === found));
    const other = codes(from, "target_languages").find((code) => base(code) !== found);
    if (!other) return null;
    byId("target-language").value = other;
    return this.#chosen();
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
    this.#source.speak(source || this.#sourcesOf(target)[0] || "zh");
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

const codes = (models, field) => [...new Set(models.flatMap((each) => each[field]))].sort();

const base = (code) => code.split("-")[0].toLowerCase();

const label = (model) => `${model.name} ${model.version} (${model.precision})`;

function refill(id, options) {
  const select = byId(id);
  const isKnown = options.some(([value]) => value === select.value);
  fillSelect(select, options, isKnown ? select.value : (options[0]?.[0] ?? ""));
}
