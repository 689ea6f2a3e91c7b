// Files: dropped anywhere on the page or chosen, translated one after another, and offered for saving.

import { post, postFile, worded } from "../core/api.js";
import { button, byId, element, icon, saved } from "../core/dom.js";
import { announce, text, ui } from "../core/language.js";

const SUFFIXES =
  ".txt .md .markdown .mdx .html .htm .srt .vtt .ass .ssa .po .pot .json .jsonl .ndjson .csv .tsv .parquet .arb .strings .stringsdict .properties .resx .xml .ts .yml .yaml .xliff .xlf .docx .pptx .xlsx .odt .odp .ods .epub";
/** Files that are text from end to end, so that their beginning tells their language. */
const IS_TEXT = /\.(txt|md|markdown|mdx|srt|vtt|ass|ssa)$/i;
const SAMPLE_BYTES = 4000;
/** What the server says of a table of which it knows no columns to translate. */
const COLUMNS = /name the columns .* of: (.*)$|no column .*; it has: (.*)$/;
const IS_TABLE = /\.(jsonl?|ndjson|csv|tsv|parquet)$/i;

/** The panel of files. */
export class Files {
  #root = byId("files");
  #session;
  #offered;
  #list = element("ul", { class: "files" });
  #last = Promise.resolve();

  /**
   * @param {Session} session
   * @param {() => void} show Brings the panel to the front.
   * @param {() => string[]} offered Returns the codes of the languages that are translated.
   */
  constructor(session, show, offered) {
    this.#session = session;
    this.#offered = offered;
    document.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) document.body.classList.remove("dropping");
    });
    document.addEventListener("drop", (event) => {
      document.body.classList.remove("dropping");
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      show();
      this.#take(event.dataTransfer.files);
    });
    ui.addEventListener("language", () => this.#show());
    this.#show();
  }

  #show() {
    const changed = ({ target }) => {
      this.#take(target.files);
      target.value = "";
    };
    const input = element("input", { type: "file", multiple: true, accept: SUFFIXES.replaceAll(" ", ","), class: "unseen", on: { change: changed } });
    this.#root.replaceChildren(
      element("label", { class: "drop" }, icon("upload"), element("strong", {}, text("drop")), element("span", { class: "faint" }, text("formats")), input),
      this.#list,
    );
  }

  #take(files) {
    for (const file of files) {
      const row = element("li");
      this.#list.append(row);
      this.#wait(file, row);
    }
  }

  #wait(file, row, columns = "") {
    const suffix = file.name.match(/\.[^.]*$/)?.[0] ?? "";
    if (!SUFFIXES.split(" ").includes(suffix.toLowerCase())) return this.#refuse(file, row, text("file_unknown", { suffix: suffix || file.name }));
    row.replaceChildren(...named(file), element("span", { class: "faint" }, text("waiting")));
    this.#last = this.#last.then(() => this.#translate(file, row, columns));
    return null;
  }

  async #translate(file, row, columns) {
    const stop = new AbortController();
    const cancel = button(text("cancel"), { class: "plain" }, () => stop.abort());
    row.replaceChildren(...named(file), element("span", { class: "faint" }, text("translating")), cancel, element("div", { class: "progress" }));
    try {
      await this.#redirect(file, stop.signal);
      const { name, summary, blob } = await postFile(this.#parameters(file, columns), file, stop.signal);
      const isSame = await areSame(file, blob);
      const what = isSame ? text("file_unchanged") : done(summary);
      row.replaceChildren(icon("download"), saved(blob, name), element("span", { class: "faint" }, what), ...this.#asking(file, row, columns), ...refusals(summary));
      announce(text("document_ready", { name }));
    } catch (error) {
      if (stop.signal.aborted) row.replaceChildren(...named(file), element("span", { class: "faint" }, text("cancelled")), this.#again(file, row, columns));
      else this.#refuse(file, row, this.#reason(error), ...this.#asking(file, row, columns, () => this.#again(file, row, columns)));
    }
  }

  /** Takes a file in the target language elsewhere, as it is done with a text. */
  async #redirect(file, signal) {
    if (!IS_TEXT.test(file.name)) return;
    const sample = await file.slice(0, SAMPLE_BYTES).text();
    if (!sample.trim()) return;
    const { detections } = await post("/v1/detect", { texts: [sample] }, signal).catch(() => ({ detections: [[]] }));
    const wishes = detections[0].length ? this.#session.redirect({ source_language: detections[0][0].language }) : null;
    if (wishes) this.#session.wish(wishes);
  }

  /** Says why a file is not translated, and what can be done. */
  #refuse(file, row, reason, ...actions) {
    row.replaceChildren(...named(file), ...actions, element("span", { class: "complaint", role: "alert" }, reason));
  }

  #reason(error) {
    if (error.status === 413) return text("file_large");
    const [, unnamed, others] = error.message.match(COLUMNS) ?? [];
    if (unnamed || others) return text("file_columns", { columns: unnamed || others });
    if (error.status === 400 && !error.isUnserved) return text("file_refused", { reason: error.message });
    return worded(error, this.#offered());
  }

  #again(file, row, columns) {
    return button(text("try_again"), { class: "plain" }, () => this.#wait(file, row, columns));
  }

  /** Returns a field for the columns of a table, with which it is translated once more; of another file what is in its place. */
  #asking(file, row, columns, otherwise = null) {
    if (!IS_TABLE.test(file.name)) return otherwise ? [otherwise()] : [];
    const input = element("input", { type: "text", spellcheck: "false", value: columns });
    const label = element("label", { class: "faint" }, `${text("columns")} `, input);
    const form = element("form", { class: "columns" }, label, element("button", { type: "submit" }, text("try_again")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#wait(file, row, input.value);
    });
    return [form];
  }

  #parameters(file, named) {
    const { source_language, target_language, model, glossary_name } = this.#session.wishes;
    const given = Object.entries({ name: file.name, source_language, target_language, model, glossary_name });
    const columns = named.split(/[,，]/).map((each) => ["column", each.trim()]);
    return new URLSearchParams([...given, ...columns].filter(([, value]) => value));
  }
}

async function areSame(file, blob) {
  if (file.size !== blob.size) return false;
  const [before, after] = await Promise.all([file, blob].map(async (each) => new Uint8Array(await each.arrayBuffer())));
  return before.every((byte, i) => byte === after[i]);
}

const named = (file) => [icon("files"), element("span", { class: "name" }, file.name)];

const done = ({ texts, refused, characters }) =>
  text("document_done", { texts: ui.number(texts), characters: ui.number(characters) }) +
  (refused ? ` ${text("document_left", { count: ui.number(refused) })}` : "");

const refusals = (summary) =>
  summary.refusals.map(({ where, message }) => element("span", { class: "complaint" }, `${where}: ${message}`));
