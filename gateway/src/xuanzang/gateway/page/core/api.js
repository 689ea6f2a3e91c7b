// Calls of the gateway: JSON, server-sent events and files, with its errors as exceptions.

import { byId } from "./dom.js";
import { text, ui } from "./language.js";

const REASONS = { 0: "unreachable", 401: "key", 403: "forbidden", 413: "large", 429: "busy", 503: "busy", 504: "late" };
const PASSING = ["unreachable", "busy", "lost", "late", "server"];

/** A refusal or failure, as the gateway's problem describes it. */
export class Problem extends Error {
  /** `status` is 0 if no answer came. */
  constructor(status, { detail = "", violations = [], detected_languages = [], served_languages = null, reason = "" } = {}) {
    super(violations.map((each) => `${each.field}: ${each.description}`).join("; ") || detail);
    this.status = status;
    /** Whether it is the server behind the gateway that does not answer. */
    this.isLost = reason === "server_unavailable";
    this.violations = violations;
    /** Languages of the text that are not served; none if it is refused for another reason, or nothing tells them. */
    this.detectedLanguages = detected_languages;
    /** Whether the text is in a language that is not served. */
    this.isUnserved = served_languages !== null;
  }

  /** Why it failed, as the texts of the page name it. */
  get reason() {
    if (this.isLost) return "lost";
    return REASONS[this.status] ?? (this.status >= 500 ? "server" : "refused");
  }

  /** Whether another try may go well without anybody's doing. */
  get isPassing() {
    return PASSING.includes(this.reason);
  }

  /** Most characters that a text may have, if it has more of them; null: it is refused for another reason. */
  get limit() {
    const [, limit] = this.message.match(/^(?:texts?(?:\[0\])?: )?must have at most (\d+) characters/) ?? [];
    return limit ? Number(limit) : null;
  }

  /** Whether a field of the request is named as faulty. */
  names(field) {
    return this.violations.some((each) => each.field === field);
  }
}

/**
 * Returns what to tell the reader of an error.
 * @param {Error} error A problem, or a fault of the page itself.
 * @param {string[]} offered Codes of the languages that are translated.
 */
export function worded(error, offered = []) {
  if (!(error instanceof Problem)) return text("failed_page");
  const names = (codes) => ui.list(codes.map((code) => ui.languageName(code)));
  if (error.isUnserved) {
    return text("unserved", { language: names(error.detectedLanguages) || text("another_language"), offered: names(offered) });
  }
  if (error.limit) return text("failed_long", { limit: ui.number(error.limit) });
  return text(`failed_${error.reason}`, { reason: error.message });
}

/** Gets JSON. */
export const get = async (path) => (await sent(path, {})).json();

/** Returns the problem that the server behind the gateway does not answer, or null if it does. */
export async function lost() {
  const answer = await fetch("/health", { cache: "no-store" }).catch(() => null);
  return answer?.status === 503 ? new Problem(503, { reason: "server_unavailable" }) : null;
}

/** Posts JSON and returns the answer's. */
export const post = async (path, body, signal) => (await sent(path, json(body, signal))).json();

/** Posts JSON and yields the events of the answer, each with `name` and `data`. */
export async function* events(path, body, signal) {
  const answer = await sent(path, json(body, signal));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read().catch(unreached);
    if (done) return;
    const blocks = (waiting + value).split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      const [name, data] = block.split("\n");
      yield { name: name.slice("event: ".length), data: JSON.parse(data.slice("data: ".length)) };
    }
  }
}

/** Posts a file; returns the translated one, its name, and what was done. */
export async function postFile(parameters, file, signal) {
  const type = { "content-type": "application/octet-stream" };
  const answer = await sent(`/v1/documents?${parameters}`, { method: "POST", body: file, headers: type, signal });
  const disposition = answer.headers.get("content-disposition");
  return {
    name: decodeURIComponent(disposition.split("''")[1]),
    summary: JSON.parse(answer.headers.get("x-document-summary")),
    blob: await answer.blob(),
  };
}

const json = (body, signal) => ({
  method: "POST",
  body: JSON.stringify(body),
  headers: { "content-type": "application/json" },
  signal,
});

async function sent(path, options) {
  const key = byId("key").value;
  const headers = { ...options.headers, ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" }).catch(unreached);
  if (answer.ok) return answer;
  if (answer.status === 401) byId("access").hidden = false;
  throw new Problem(answer.status, await problemOf(answer));
}

/** What becomes of a call that gets no answer, or no more of it; one that is given up is no problem. */
function unreached(error) {
  throw error.name === "AbortError" ? error : new Problem(0, { detail: error.message });
}

async function problemOf(answer) {
  const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
  return isProblem ? answer.json() : { detail: `${answer.status} ${answer.statusText}` };
}
