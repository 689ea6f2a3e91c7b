// Timing and origin: where the time went, and everything that the translation depends on.

import { button, copy, element } from "../core/dom.js";
import { announce, text, ui } from "../core/language.js";

const TIMES = ["queue_milliseconds", "encode_milliseconds", "decode_milliseconds"];
const COUNTS = ["steps", "searches", "batch_sentences"];
const FACTS = [
  "model",
  "model_version",
  "manifest_sha256",
  "precision",
  "execution_provider",
  "kernels",
  "server_version",
  "onnxruntime_version",
];

/** Panel of timing and origin. */
export class Origin {
  name = "origin";
  #session;

  constructor(session) {
    this.#session = session;
  }

  /** Returns what the panel shows. */
  async content() {
    const { provenance } = this.#session.answer;
    if (!provenance) return [element("p", { class: "faint" }, text("nothing_yet"))];
    const take = button(text("copy_json"), {}, () => copied(provenance));
    return [
      element("div", { class: "columns" }, element("div", {}, this.#times(), searches(provenance)), facts(provenance)),
      element("p", { class: "options" }, take),
    ];
  }

  #times() {
    const { called, first, whole } = this.#session.times;
    const end = Math.max(whole, 1);
    const bars = [
      ["time_pause", 0, called],
      ["time_first", called, first],
      ["time_rest", first, whole],
    ].map(([key, from, to]) => {
      const bar = element("span", { class: "stretch" });
      bar.style.setProperty("--from", from / end);
      bar.style.setProperty("--to", to / end);
      return element("li", {}, element("span", {}, text(key)), bar, element("span", {}, milliseconds(to - from)));
    });
    return element("ul", { class: "times" }, ...bars);
  }
}

function searches({ sentences }) {
  const columns = [...TIMES, ...COUNTS];
  const head = ["sentence", ...columns].map((each) => element("th", { scope: "col" }, text(each)));
  const rows = sentences.map((each) => {
    const times = TIMES.map((name) => ui.number(each[name], 1));
    const counts = COUNTS.map((name) => ui.number(each[name]));
    const cells = [...times, ...counts].map((value) => element("td", {}, value));
    return element("tr", {}, element("th", { scope: "row" }, ui.number(each.sentence_index + 1)), ...cells);
  });
  const table = element("table", { class: "figures" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text("searches") }, table);
}

function facts(provenance) {
  const known = FACTS.map((name) => [text(`fact_${name}`), String(provenance[name])]);
  const { beam_size: beam, length_penalty: penalty } = provenance.options;
  const searched = [[text("beam_size"), ui.number(beam)], [text("length_penalty"), ui.number(penalty, 1)]];
  return element(
    "dl",
    {},
    ...[...known, ...searched].flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}

async function copied(provenance) {
  await copy(JSON.stringify(provenance, null, 2));
  announce(text("copied"));
}

const milliseconds = (value) => text("milliseconds", { value: ui.number(value) });
