// A translation as sentences and words, each with the characters of the source that it comes from.
//
// The server counts characters as code points, JavaScript as UTF-16 units; all positions below are the latter.

const WORDS = new Intl.Segmenter(undefined, { granularity: "word" });
const ENDS_SENTENCE = /[.!?…。！？；;]["'”’）)」』]*\s*|\n\s*/g;

/**
 * Cuts a hypothesis at its end tokens.
 * @param {string} source The whole source text.
 * @param {{text: string, tokens: object[]}} hypothesis As the gateway answers, with token details.
 * @returns {object[]} Sentences: `source`, `start` in the source, `gap` before it in the translation, `text`, `words`.
 */
export function sentencesOf(source, hypothesis) {
  const units = unitsOf(source);
  const found = [];
  let written = 0;
  for (const tokens of runsOf(hypothesis.tokens)) {
    const text = tokens.map((each) => each.text).join("");
    const at = hypothesis.text.indexOf(text, written);
    if (at < 0) return [whole(source, hypothesis.text)];
    found.push({ gap: hypothesis.text.slice(written, at), text, tokens: placed(tokens, units) });
    written = at + text.length;
  }
  if (!found.length) return [whole(source, hypothesis.text)];
  found.at(-1).tail = hypothesis.text.slice(written);
  return cut(source, found).map(withWords);
}

/**
 * Makes one sentence of another hypothesis for its source.
 * @param {object} sentence The sentence that it replaces.
 * @param {object} hypothesis Translation of `sentence.source`.
 */
export function replaced(sentence, hypothesis) {
  const units = unitsOf(sentence.source);
  const tokens = placed(hypothesis.tokens, units).map((each) => ({
    ...each,
    start: each.start + sentence.start,
    end: each.end + sentence.start,
  }));
  return withWords({ ...sentence, text: hypothesis.text, tokens, isChosen: true, quality: hypothesis.quality });
}

/** Returns the words of a text that no tokens are known of. */
function whole(source, text) {
  return withWords({ gap: "", text, tail: "", tokens: [], source, start: 0 });
}

function unitsOf(source) {
  const units = [0];
  for (const character of source) units.push(units.at(-1) + character.length);
  return units;
}

function runsOf(tokens) {
  const runs = [[]];
  for (const token of tokens) {
    if (token.text) runs.at(-1).push(token);
    else if (runs.at(-1).length) runs.push([]);
  }
  return runs.filter((run) => run.length);
}

const placed = (tokens, units) =>
  tokens
    .filter((token) => token.text)
    .map((token) => ({ ...token, start: units[token.source_start], end: units[token.source_end] }));

/** Finds where each sentence begins in the source: after the end of the one before, ahead of what its tokens see. */
function cut(source, sentences) {
  const hulls = sentences.map(({ tokens }) => ({
    start: Math.min(...tokens.map((each) => each.start)),
    end: Math.max(...tokens.map((each) => each.end)),
  }));
  const starts = hulls.map((hull, i) => (i ? boundary(source, Math.min(hulls[i - 1].end, hull.start), hull.start) : 0));
  return sentences.map((each, i) => {
    const slice = source.slice(starts[i], starts[i + 1] ?? source.length);
    return { ...each, start: starts[i] + slice.length - slice.trimStart().length, source: slice.trim() };
  });
}

function boundary(source, from, to) {
  // One character more to the left: the mark that ends a sentence may be the last that its tokens see.
  const begin = Math.max(0, from - 1);
  const ends = [...source.slice(begin, to).matchAll(ENDS_SENTENCE)].map((match) => begin + match.index + match[0].length);
  return ends.at(-1) ?? to;
}

/** Returns where the words, spaces and marks of a text begin, also in scripts that have no spaces between words. */
export const beginnings = (text) => new Set([...WORDS.segment(text)].map((each) => each.index));

/** Joins tokens to words: one begins with the first token that begins where a word of the text does. */
function withWords(sentence) {
  const begins = beginnings(sentence.tokens.map((each) => each.text).join(""));
  const words = [];
  let prefix = "";
  for (const token of sentence.tokens) {
    const visible = prefix.length + token.text.length - token.text.trimStart().length;
    const isBlank = words.length > 0 && !words.at(-1).text.trim();
    if (!words.length || (begins.has(visible) && !isBlank)) words.push({ prefix, text: "", spans: [] });
    const word = words.at(-1);
    word.text += token.text;
    if (token.end > token.start) word.spans.push([token.start, token.end]);
    prefix += token.text;
  }
  return { ...sentence, words: words.filter((word) => word.text.trim()) };
}
