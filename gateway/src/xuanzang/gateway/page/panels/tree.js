// The beam search as a tree: every candidate of every step, the best path, and the branches given up.

import { button, choice, drawn, element } from "../core/dom.js";
import { text, ui } from "../core/language.js";
import { fill, nothing } from "./filling.js";
import { COLUMN, layout, neighbour, pathTo, ROW } from "./tree_layout.js";
import { View } from "./view.js";

const BEAMS = [1, 2, 4, 6, 8, 16];
const WIDTH = 96;
const HEIGHT = 24;
const MOST_LETTERS = 11;

/** Panel of the search. */
export class Tree {
  name = "tree";
  #session;
  #explaining;
  #beam = 4;
  #withPruned = true;

  constructor(session, explaining) {
    this.#session = session;
    this.#explaining = explaining;
  }

  show(root) {
    const { sentence } = this.#session;
    fill(root, async () => {
      if (!sentence) return nothing();
      const explained = await this.#explaining.explanation(sentence, "cross", this.#beam);
      return this.#shown(root, explained);
    });
  }

  #shown(root, explained) {
    const nodes = layout(explained, this.#withPruned);
    const drawing = new Drawing(nodes);
    requestAnimationFrame(() => drawing.begin());
    return [
      this.#bar(root, drawing),
      drawing.root,
      drawing.caption,
      ...(explained.omitted_steps ? [element("p", { class: "faint" }, text("omitted", { steps: explained.omitted_steps }))] : []),
    ];
  }

  #bar(root, drawing) {
    const change = (set) => (value) => {
      set(value);
      this.show(root);
    };
    const toggle = change((event) => (this.#withPruned = event.target.checked));
    const pruned = element("input", { type: "checkbox", on: { change: toggle } });
    pruned.checked = this.#withPruned;
    const beams = BEAMS.map((each) => [each, ui.number(each)]);
    return element(
      "p",
      { class: "options" },
      choice(text("beam_size"), beams, this.#beam, change((value) => (this.#beam = Number(value)))),
      element("label", {}, pruned, ` ${text("show_pruned")}`),
      button("−", { "aria-label": text("zoom_out") }, () => drawing.view.zoom(0.8)),
      button("+", { "aria-label": text("zoom_in") }, () => drawing.view.zoom(1.25)),
      button(text("fit"), {}, () => drawing.fit()),
    );
  }
}

/** The drawing, with one node at a time described below it. */
class Drawing {
  #nodes;
  #shapes = new Map();
  #chosen;

  constructor(nodes) {
    this.#nodes = nodes;
    const group = drawn("g", {}, ...nodes.filter((each) => each.parent).map(edge), ...nodes.map((each) => this.#shape(each)));
    const svg = drawn("svg", { "aria-hidden": "true" }, group);
    this.view = new View(svg, group);
    this.caption = element("p", { class: "caption", "aria-live": "polite" });
    const keys = { keydown: (event) => this.#key(event) };
    this.root = element(
      "div",
      { class: "tree", tabindex: "0", role: "application", "aria-label": text("tree_keys"), on: keys },
      svg,
    );
    const best = nodes.filter((each) => each.isBest);
    if (best.length) this.#choose(best.at(-1));
  }

  /** Shows where the search begins. */
  begin() {
    this.view.begin(this.#size());
  }

  /** Shows the whole search. */
  fit() {
    this.view.fit(this.#size());
  }

  #size() {
    const width = Math.max(...this.#nodes.map((each) => each.x)) + COLUMN;
    const height = Math.max(...this.#nodes.map((each) => each.y)) + ROW;
    return { width, height };
  }

  #shape(node) {
    const { candidate } = node;
    const letters = [...candidate.piece];
    const label = letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS - 1).join("")}…` : candidate.piece;
    const shape = drawn(
      "g",
      {
        class: `node ${candidate.fate}${node.isBest ? " best" : ""}`,
        transform: `translate(${node.x} ${node.y})`,
        on: { click: () => this.#choose(node) },
      },
      drawn("rect", { width: WIDTH, height: HEIGHT, rx: 4 }),
      drawn("text", { x: 7, y: 16 }, label),
    );
    this.#shapes.set(node, shape);
    return shape;
  }

  #choose(node) {
    this.#shapes.get(this.#chosen)?.classList.remove("chosen");
    this.#chosen = node;
    this.#shapes.get(node).classList.add("chosen");
    this.caption.replaceChildren(element("b", {}, pathTo(node)), element("br"), described(node));
  }

  #key(event) {
    if (event.key.startsWith("Arrow") && this.#chosen) {
      const next = neighbour(this.#nodes, this.#chosen, event.key);
      if (next) {
        this.#choose(next);
        this.view.reveal(next.x, next.y, WIDTH, HEIGHT);
      }
    } else if (event.key === "+" || event.key === "=") this.view.zoom(1.25);
    else if (event.key === "-") this.view.zoom(0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }
}

function edge({ parent, x, y, isBest, candidate }) {
  const [fromX, fromY, toY] = [parent.x + WIDTH, parent.y + HEIGHT / 2, y + HEIGHT / 2];
  const middle = (fromX + x) / 2;
  const kind = isBest && parent.isBest ? "best" : candidate.fate;
  return drawn("path", { class: `edge ${kind}`, d: `M${fromX} ${fromY}C${middle} ${fromY} ${middle} ${toY} ${x} ${toY}` });
}

function described({ candidate, step }) {
  const facts = [
    text("step", { step: ui.number(step + 1) }),
    text(`fate_${candidate.fate}`),
    candidate.reason ? text(`reason_${candidate.reason}`) : null,
    candidate.score === null ? null : text("sum", { score: ui.number(candidate.score, 3) }),
    candidate.final_score === null ? null : text("score", { score: ui.number(candidate.final_score, 3) }),
    candidate.rank === null ? null : text("rank", { rank: ui.number(candidate.rank) }),
  ];
  return facts.filter(Boolean).join(" · ");
}
