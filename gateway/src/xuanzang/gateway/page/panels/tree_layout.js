// Where the candidates of a search stand: a column per step, in each the best on top.

/** Width and height of a node with the space around it, in units of the drawing. */
export const COLUMN = 118;
export const ROW = 30;

/**
 * Places the candidates.
 * @param {object} explained Answer of /v1/explain.
 * @param {boolean} withPruned Whether to place those that were given up.
 * @returns {object[]} Nodes: `candidate`, `step`, `place`, `x`, `y`, `parent` (a node or null), `isBest`.
 */
export function layout({ search_steps: steps, target_tokens: tokens }, withPruned) {
  const nodes = [];
  let before = new Map();
  steps.forEach(({ candidates }, step) => {
    const column = new Map();
    candidates.forEach((candidate, index) => {
      const isBest = tokens[step]?.candidate === index;
      if (candidate.fate === "pruned" && !withPruned && !isBest) return;
      const parent = before.get(candidate.parent) ?? null;
      const place = column.size;
      const node = { candidate, step, place, x: step * COLUMN, y: place * ROW, parent, isBest };
      column.set(index, node);
      nodes.push(node);
    });
    before = column;
  });
  return nodes;
}

/** Returns the text along the path to a node. */
export function pathTo(node) {
  const pieces = [];
  for (let each = node; each; each = each.parent) pieces.unshift(each.candidate.piece);
  return pieces.join("").replaceAll("▁", " ").trim();
}

/** Returns the node in a direction: parent, first child, or neighbour in the column. */
export function neighbour(nodes, node, key) {
  if (key === "ArrowLeft") return node.parent;
  if (key === "ArrowRight") {
    const children = nodes.filter((each) => each.parent === node);
    return children.find((each) => each.isBest) ?? children[0];
  }
  const by = key === "ArrowDown" ? 1 : -1;
  return nodes.find((each) => each.step === node.step && each.place === node.place + by);
}
