// The page: its parts around one session.

import { byId, element } from "./core/dom.js";
import { Explaining } from "./core/explaining.js";
import { ui } from "./core/language.js";
import { Session } from "./core/session.js";
import { Attention } from "./panels/attention.js";
import { Documents } from "./panels/documents.js";
import { Glossary } from "./panels/glossary.js";
import { Hypotheses } from "./panels/hypotheses.js";
import { Provenance } from "./panels/provenance.js";
import { Tree } from "./panels/tree.js";
import { Alternatives } from "./parts/alternatives.js";
import { Choices } from "./parts/choices.js";
import { Failure } from "./parts/failure.js";
import { Source } from "./parts/source.js";
import { Tabs } from "./parts/tabs.js";
import { Target } from "./parts/target.js";
import { showVerdict } from "./parts/verdict.js";

const OF_SENTENCES = ["hypotheses", "attention", "tree"];

ui.begin();
const session = new Session();
const source = new Source(session);
const choices = new Choices(session, source);
const failure = new Failure(() => choices.languages);
const alternatives = new Alternatives(session, (place) => target.focus(place));
const target = new Target(session, (word, anchor, place) => alternatives.open(word, anchor, place));
const explaining = new Explaining(session, () => tabs.withdraw(["attention", "tree"]));
let seen = "";
/** Whether it is known what the server offers. */
let isReady = false;
const panels = [
  new Hypotheses(session),
  new Attention(session, explaining),
  new Tree(session, explaining),
  new Glossary(session),
  new Provenance(session),
  new Documents(session, () => tabs.choose("documents")),
];
const tabs = new Tabs(panels, (name) => {
  seen = name;
  showSentences();
});
showVerdict(session);

session.addEventListener("sentence", () => {
  showSentences();
  tabs.refresh(({ name }) => OF_SENTENCES.includes(name));
});
session.addEventListener("translated", () => {
  if (isReady) failure.clear();
  tabs.refresh(({ name }) => name === "provenance");
});
session.addEventListener("failed", ({ detail }) => isReady && failure.say(detail, () => session.retry()));
session.addEventListener("typed", () => isReady && failure.clear());
byId("sentence").addEventListener("change", ({ target: { value } }) => session.look(Number(value)));
byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  begin();
});
begin();

/** Reads what the server offers; nothing can be translated before. */
async function begin() {
  byId("loading").hidden = isReady;
  try {
    await choices.load();
    isReady = true;
    failure.clear();
  } catch (error) {
    failure.say(error, begin);
  }
  byId("loading").hidden = true;
}

function showSentences() {
  byId("sentence-choice").hidden = session.sentences.length < 2 || !OF_SENTENCES.includes(seen);
  const options = session.sentences.map((each, i) => {
    const option = element("option", { value: String(i) }, `${i + 1}/${session.sentences.length}  ${each.source.slice(0, 24)}`);
    option.selected = i === session.index;
    return option;
  });
  byId("sentence").replaceChildren(...options);
}
