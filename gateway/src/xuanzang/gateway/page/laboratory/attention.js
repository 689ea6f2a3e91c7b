// Attention as a heat map: a row per word that attends, a column per word attended to.

import { choice, element } from "../core/dom.js";
import { text, ui } from "../core/language.js";
import { wordOf, wordsOf } from "./pieces.js";

const KINDS = ["cross", "encoder", "decoder"];
const SHOWN = 0.05;

/** Panel of attention. */
export class Attention {
  name = "attention";
  #session;
  #explain;
  #kind = "cross";
  #layer = null;
  #head = null;

  constructor(session, explain) {
    this.#session = session;
    this.#explain = explain;
  }

  /** Returns what the panel shows; `again` shows it anew. */
  async content(again) {
    const explained = await this.#explain(this.#session.sentence, this.#kind);
    const maps = explained.attention.filter((each) => each.kind === this.#kind);
    const { weights } = this.#chosen(maps);
    const { rows, columns } = sides(explained, this.#kind);
    const caption = element("p", { class: "caption", "aria-live": "polite" }, text("attention_hint"));
    return [this.#bar(again, maps), caption, table(wordsOf(rows), wordsOf(columns), weights, caption)];
  }

  #chosen(maps) {
    const layers = maps.map((each) => each.layer);
    if (!layers.includes(this.#layer)) this.#layer = Math.max(...layers);
    const found = maps.find((each) => each.layer === this.#layer && each.head === this.#head);
    return found ?? maps.find((each) => each.layer === this.#layer);
  }

  #bar(again, maps) {
    const set = (change) => {
      change();
      again();
    };
    const layers = [...new Set(maps.map((each) => each.layer))].map((each) => [each, ui.number(each + 1)]);
    const heads = maps.filter((each) => each.layer === this.#layer).map(({ head }) => [head ?? "", headName(head)]);
    const kinds = KINDS.map((each) => [each, text(`attention_${each}`)]);
    return element(
      "p",
      { class: "options" },
      choice(text("tab_attention"), kinds, this.#kind, (value) => set(() => (this.#kind = value))),
      choice(text("layer"), layers, this.#layer, (value) => set(() => (this.#layer = Number(value)))),
      choice(text("head"), heads, this.#head ?? "", (value) => set(() => (this.#head = value ? Number(value) : null))),
    );
  }
}

const headName = (head) => (head === null ? text("all_heads") : ui.number(head + 1));

function sides({ source_tokens: source, target_tokens: target }, kind) {
  const from = source.map((each) => each.piece);
  const to = target.map((each) => each.piece);
  if (kind === "encoder") return { rows: from, columns: from };
  return { rows: to, columns: kind === "cross" ? from : ["<s>", ...to.slice(0, -1)] };
}

/** Makes the map of words: a word attends as its pieces do on average, and is attended to as all of them are. */
function table(rows, columns, weights, caption) {
  const head = element("tr", {}, element("td"), ...columns.map((each) => element("th", { scope: "col" }, wordOf(each.text))));
  const lines = rows.map((row) => {
    const cells = columns.map((column) => {
      const parts = row.indexes.flatMap((i) => column.indexes.map((j) => weights[i][j]));
      const weight = parts.reduce((sum, each) => sum + each, 0) / row.indexes.length;
      const said = { row: wordOf(row.text), column: wordOf(column.text), percent: ui.number(100 * weight, 1) };
      return cell(weight, text("attends", said), caption);
    });
    return element("tr", {}, element("th", { scope: "row" }, wordOf(row.text)), ...cells);
  });
  const made = element("table", { class: "heat" }, element("thead", {}, head), element("tbody", {}, ...lines));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": text("tab_attention") }, made);
}

function cell(weight, meaning, caption) {
  const say = () => (caption.textContent = meaning);
  const made = element("td", { on: { pointerenter: say } }, weight >= SHOWN ? String(Math.round(100 * weight)) : "");
  made.style.setProperty("--weight", weight.toFixed(3));
  return made;
}
