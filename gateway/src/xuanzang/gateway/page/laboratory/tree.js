// The beam search as a tree that is read from top to bottom: a row per step with its candidates, the best ones first,
// the path that won, and the branches given up.

import { choice, drawn, element } from "../core/dom.js";
import { text, ui } from "../core/language.js";
import { goesOn, joined, wordOf } from "./pieces.js";

const BEAMS = [1, 2, 4, 6, 8, 16];
/** Sizes in units of the drawing, which is made smaller down to `SMALLEST` where it is too wide. */
const WIDTH = 88;
const HEIGHT = 26;
const COLUMN = 98;
const ROW = 46;
const SMALLEST = 0.8;
const MOST_LETTERS = 10;
const PHONE = "(max-width: 46rem)";

/** Panel of the search. */
export class Tree {
  name = "tree";
  #session;
  #explain;
  #beam = 4;
  #withPruned = !matchMedia(PHONE).matches;

  constructor(session, explain) {
    this.#session = session;
    this.#explain = explain;
  }

  /** Returns what the panel shows; `again` shows it anew. */
  async content(again) {
    const explained = await this.#explain(this.#session.sentence, "cross", this.#beam);
    const drawing = new Drawing(layout(explained, this.#withPruned));
    const omitted = explained.omitted_steps;
    return [
      this.#bar(again),
      drawing.root,
      drawing.caption,
      ...(omitted ? [element("p", { class: "faint" }, text("omitted", { steps: omitted }))] : []),
    ];
  }

  #bar(again) {
    const change = (set) => (value) => {
      set(value);
      again();
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
    );
  }
}

/**
 * Places the candidates.
 * @param {object} explained Answer of /v1/explain.
 * @param {boolean} withPruned Whether to place those that were given up.
 * @returns {object[]} Nodes: `candidate`, `step`, `place`, `x`, `y`, `parent` (a node or null), `isBest`.
 */
function layout({ search_steps: steps, target_tokens: tokens }, withPruned) {
  const nodes = [];
  let before = new Map();
  steps.forEach(({ candidates }, step) => {
    const row = new Map();
    candidates.forEach((candidate, index) => {
      const isBest = tokens[step]?.candidate === index;
      if (candidate.fate === "pruned" && !withPruned && !isBest) return;
      const parent = before.get(candidate.parent) ?? null;
      const place = row.size;
      const node = { candidate, step, place, x: place * COLUMN, y: step * ROW, parent, isBest };
      row.set(index, node);
      nodes.push(node);
    });
    before = row;
  });
  return nodes;
}

/** The drawing, with one node at a time described below it. */
class Drawing {
  #nodes;
  #shapes = new Map();
  #chosen;

  constructor(nodes) {
    this.#nodes = nodes;
    const width = Math.max(...nodes.map((each) => each.x)) + WIDTH + 2;
    const height = Math.max(...nodes.map((each) => each.y)) + HEIGHT + 2;
    const shapes = [...nodes.filter((each) => each.parent).map(edge), ...nodes.map((each) => this.#shape(each))];
    const svg = drawn("svg", { viewBox: `-1 -1 ${width} ${height}`, "aria-hidden": "true" }, ...shapes);
    svg.style.setProperty("max-width", `${width}px`);
    svg.style.setProperty("min-width", `${SMALLEST * width}px`);
    this.caption = element("p", { class: "caption", "aria-live": "polite" });
    const keys = { keydown: (event) => this.#key(event) };
    const attributes = { class: "tree scroll", tabindex: "0", role: "application", "aria-label": text("tree_keys"), on: keys };
    this.root = element("div", attributes, svg);
    const best = nodes.filter((each) => each.isBest);
    if (best.length) this.#choose(best.at(-1));
  }

  #shape(node) {
    const { candidate, parent } = node;
    const name = wordOf(candidate.piece);
    const isContinued = parent && goesOn(parent.candidate.piece, candidate.piece);
    const letters = [...(isContinued ? `‑${name}` : name)];
    const label = letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS - 1).join("")}…` : letters.join("");
    const shape = drawn(
      "g",
      {
        class: `node ${candidate.fate}${node.isBest ? " best" : ""}${candidate.piece === "</s>" ? " end" : ""}`,
        transform: `translate(${node.x} ${node.y})`,
        on: { click: () => this.#choose(node) },
      },
      drawn("rect", { width: WIDTH, height: HEIGHT, rx: 6 }),
      drawn("text", { x: WIDTH / 2, y: 17, "text-anchor": "middle" }, label),
    );
    this.#shapes.set(node, shape);
    return shape;
  }

  #choose(node) {
    this.#shapes.get(this.#chosen)?.classList.remove("chosen");
    this.#chosen = node;
    this.#shapes.get(node).classList.add("chosen");
    this.caption.replaceChildren(element("b", {}, joined(pathTo(node))), element("br"), described(node));
  }

  #key(event) {
    const next = event.key.startsWith("Arrow") && this.#chosen && neighbour(this.#nodes, this.#chosen, event.key);
    if (!next) return;
    this.#choose(next);
    this.#shapes.get(next).scrollIntoView({ block: "nearest", inline: "nearest" });
    event.preventDefault();
  }
}

/** Returns the node in a direction: parent, first child, or neighbour in the row. */
function neighbour(nodes, node, key) {
  if (key === "ArrowUp") return node.parent;
  if (key === "ArrowDown") {
    const children = nodes.filter((each) => each.parent === node);
    return children.find((each) => each.isBest) ?? children[0];
  }
  const by = key === "ArrowRight" ? 1 : -1;
  return nodes.find((each) => each.step === node.step && each.place === node.place + by);
}

/** Returns the pieces along the path to a node. */
function pathTo(node) {
  const pieces = [];
  for (let each = node; each; each = each.parent) pieces.unshift(each.candidate.piece);
  return pieces;
}

function edge({ parent, x, y, isBest, candidate }) {
  const [fromX, fromY, toX] = [parent.x + WIDTH / 2, parent.y + HEIGHT, x + WIDTH / 2];
  const middle = (fromY + y) / 2;
  const kind = isBest && parent.isBest ? "best" : candidate.fate;
  return drawn("path", { class: `edge ${kind}`, d: `M${fromX} ${fromY}C${fromX} ${middle} ${toX} ${middle} ${toX} ${y}` });
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
