// Pieces of the vocabulary as people read them: words without SentencePiece's marks, and names for the two ends.

import { text } from "../core/language.js";
import { beginnings } from "../core/sentences.js";

const SPACE = "▁";
const SPACED = /[\p{L}\p{N}]/u;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

/** Whether a piece goes on with a word of a script that has spaces between words, so that it shows a hyphen alone. */
export function goesOn(before, piece) {
  const [last, first] = [[...before].at(-1) ?? "", [...piece][0] ?? ""];
  return [last, first].every((each) => SPACED.test(each) && !UNSPACED.test(each)) && !isEnd(piece) && !isEnd(before);
}

/**
 * Joins pieces to words.
 * @param {string[]} pieces
 * @returns {{text: string, indexes: number[]}[]} Words, each with the places of its pieces.
 */
export function wordsOf(pieces) {
  const texts = pieces.map((each) => (isEnd(each) ? "\n" : each.replaceAll(SPACE, " ")));
  const begins = beginnings(texts.join(""));
  const words = [];
  let offset = 0;
  pieces.forEach((piece, index) => {
    const visible = offset + texts[index].length - texts[index].trimStart().length;
    const isBlank = words.at(-1)?.text === SPACE;
    if (!index || isEnd(piece) || isEnd(pieces[index - 1]) || (begins.has(visible) && !isBlank)) words.push({ text: "", indexes: [] });
    words.at(-1).text += piece;
    words.at(-1).indexes.push(index);
    offset += texts[index].length;
  });
  return words;
}

/** Returns what a piece or word is called; that of a piece alone may be a mere space. */
export function wordOf(piece) {
  if (piece === "<s>") return text("piece_start");
  if (piece === "</s>") return text("piece_end");
  return piece.replaceAll(SPACE, " ").trim() || "␣";
}

/** Returns the text of pieces that follow one another. */
export const joined = (pieces) => pieces.filter((each) => !isEnd(each)).join("").replaceAll(SPACE, " ").trim();

const isEnd = (piece) => piece === "<s>" || piece === "</s>";
