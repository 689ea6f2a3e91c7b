// The page: its parts around one session.

import { lost } from "./core/api.js";
import { byId, element, icon, openDialog } from "./core/dom.js";
import { text, ui } from "./core/language.js";
import { Session } from "./core/session.js";
import { Tabs } from "./core/tabs.js";
import { Laboratory } from "./laboratory/laboratory.js";
import { Alternatives } from "./parts/alternatives.js";
import { Failure } from "./parts/failure.js";
import { Files } from "./parts/files.js";
import { Glossary } from "./parts/glossary.js";
import { Languages } from "./parts/languages.js";
import { Source } from "./parts/source.js";
import { Target } from "./parts/target.js";

const CONTROL = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";
const SHORTCUTS = [
  [[CONTROL, "Enter"], "key_copy"],
  [[CONTROL, "Shift", "S"], "key_swap"],
  [["Tab"], "key_words"],
  [["←", "→"], "key_walk"],
  [["Enter"], "key_open"],
  [["Esc"], "key_close"],
  [[CONTROL, "/"], "key_help"],
];

ui.begin();
const session = new Session();
const source = new Source(session);
const languages = new Languages(session, source);
const failure = new Failure(() => languages.offered);
const alternatives = new Alternatives(session, (place) => target.focus(place));
const target = new Target(session, (word, place) => alternatives.open(word, place));
const modes = new Tabs("modes", ["text", "files"], showMode, (name) => [icon(name)]);
new Files(session, () => modes.choose("files"), () => languages.offered);
new Laboratory(session);
new Glossary(session);
/** Milliseconds after which the page asks whether there is a server; a call that waits for one is told after three seconds. */
const LATE = 1000;
/** Whether it is known what the server offers. */
let isReady = false;

session.addEventListener("translated", () => isReady && failure.clear());
session.addEventListener("failed", ({ detail }) => isReady && failure.say(detail, () => session.retry()));
session.addEventListener("typed", () => isReady && failure.clear());
session.addEventListener("begun", () => setTimeout(() => session.state === "waiting" && sayIfLost(() => session.state === "waiting"), LATE));
byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  begin();
});
byId("open-shortcuts").addEventListener("click", showShortcuts);
document.addEventListener("keydown", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  const pressed = event.shiftKey ? event.key.toLowerCase() : event.key;
  const does = { Enter: () => target.copy(), "/": showShortcuts, ...(event.shiftKey ? { s: () => languages.swap() } : {}) }[pressed];
  if (!does) return;
  event.preventDefault();
  does();
});
begin();

/** Reads what the server offers; nothing can be translated before. */
async function begin() {
  byId("sheet").classList.toggle("loading", !isReady);
  byId("sheet").setAttribute("aria-busy", String(!isReady));
  sayIfLost(() => !isReady);
  try {
    await languages.load();
    isReady = true;
    byId("access").hidden = true;
    failure.clear();
  } catch (error) {
    failure.say(error, begin);
  }
  byId("sheet").classList.toggle("loading", !isReady);
  byId("sheet").setAttribute("aria-busy", String(!isReady));
}

/** Says at once that the server does not answer, if it still matters then; the call that waits for it tries again. */
async function sayIfLost(matters) {
  const problem = await lost();
  if (problem && matters()) failure.warn(problem);
}

function showMode(name) {
  byId("laboratory").hidden = name !== "text";
}

function showShortcuts() {
  const rows = SHORTCUTS.flatMap(([keys, meaning]) => [
    element("dt", {}, ...keys.map((each) => element("kbd", {}, each))),
    element("dd", {}, text(meaning)),
  ]);
  openDialog(byId("shortcuts"), text("shortcuts"), text("close"), element("dl", { class: "dialog-body keys" }, ...rows));
}
