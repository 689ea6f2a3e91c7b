// Why something failed, in the reader's words.

import { text } from "./language.js";

const REASONS = { 0: "unreachable", 401: "key", 403: "key", 429: "busy", 503: "busy", 504: "late" };
const PASSING = ["unreachable", "busy", "late", "server"];

/** Returns whether another try may go well without anybody's doing. */
export const isPassing = (error) => PASSING.includes(reasonOf(error));

/** Returns what to say of an error. */
export const worded = (error) => text(`failed_${reasonOf(error)}`, { reason: error.message });

function reasonOf({ status }) {
  // An error of the page itself has no status.
  return REASONS[status] ?? (status >= 500 ? "server" : "refused");
}
