// Documents: files dropped anywhere on the page are translated one after another and offered for saving.

import { postFile } from "../core/api.js";
import { button, element, saved } from "../core/dom.js";
import { announce, text, ui } from "../core/language.js";
import { worded } from "../core/reasons.js";

const SUFFIXES =
  ".txt .md .markdown .html .htm .srt .vtt .po .pot .json .jsonl .ndjson .csv .tsv .parquet .xliff .xlf .docx";

/** Panel of files. */
export class Documents {
  name = "documents";
  #session;
  #list = element("ul", { class: "files" });
  #columns = element("input", { type: "text", spellcheck: "false" });
  #last = Promise.resolve();

  /**
   * @param {Session} session
   * @param {() => void} show Brings the panel to the front.
   */
  constructor(session, show) {
    this.#session = session;
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
  }

  show(root) {
    const changed = ({ target }) => {
      this.#take(target.files);
      target.value = "";
    };
    const input = element("input", { type: "file", multiple: true, accept: SUFFIXES.replaceAll(" ", ","), class: "unseen", on: { change: changed } });
    root.replaceChildren(
      element("label", { class: "drop" }, element("span", {}, text("drop")), input),
      element("p", { class: "faint" }, SUFFIXES),
      element("p", { class: "options" }, element("label", {}, `${text("columns")} `, this.#columns)),
      this.#list,
    );
  }

  #take(files) {
    for (const file of files) {
      const row = element("li", {}, element("span", {}, file.name), element("span", { class: "faint" }, text("waiting")));
      this.#list.append(row);
      this.#last = this.#last.then(() => this.#translate(file, row));
    }
  }

  async #translate(file, row) {
    const stop = new AbortController();
    const cancel = button(text("cancel"), { class: "plain" }, () => stop.abort());
    row.replaceChildren(element("span", {}, file.name), element("span", { class: "faint" }, text("translating")), cancel);
    try {
      const { name, summary, blob } = await postFile(this.#parameters(file), file, stop.signal);
      row.replaceChildren(saved(blob, name), element("span", { class: "faint" }, done(summary)), ...refusals(summary));
      announce(text("document_ready", { name }));
    } catch (error) {
      const message = stop.signal.aborted ? text("cancelled") : worded(error);
      row.replaceChildren(element("span", {}, file.name), element("span", { class: "failure", role: "alert" }, message));
    }
  }

  #parameters(file) {
    const { source_language, target_language, model, glossary_name } = this.#session.wishes;
    const given = Object.entries({ name: file.name, source_language, target_language, model, glossary_name });
    const columns = this.#columns.value.split(/[,，]/).map((each) => ["column", each.trim()]);
    return new URLSearchParams([...given, ...columns].filter(([, value]) => value));
  }
}

const done = ({ texts, refused, characters }) =>
  text("document_done", { texts: ui.number(texts), refused: ui.number(refused), characters: ui.number(characters) });

const refusals = (summary) =>
  summary.refusals.map(({ where, message }) => element("span", { class: "failure" }, `${where}: ${message}`));
