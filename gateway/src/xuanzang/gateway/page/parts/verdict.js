// Below the translation: how far to trust it, what is suspicious about it, and how long it took.

import { byId, element } from "../core/dom.js";
import { text, ui } from "../core/language.js";

/** Follows a session with its quality flags and times. */
export function showVerdict(session) {
  const show = () => {
    const quality = session.answer?.hypotheses[0]?.quality;
    byId("verdict").replaceChildren(...(quality ? verdict(quality) : []));
    byId("timing").textContent = session.answer ? timing(session.times) : "";
  };
  session.addEventListener("translated", show);
  ui.addEventListener("language", show);
}

/** Returns an estimate and flags as elements. */
export function verdict({ acceptable_probability: probability, flags }) {
  const estimate =
    probability === null
      ? []
      : [
          element("meter", { min: 0, max: 1, low: 0.4, high: 0.7, optimum: 1, value: probability, "aria-hidden": "true" }),
          element("span", {}, text("acceptable", { percent: ui.number(100 * probability) })),
        ];
  const found = flags.map((flag) =>
    element("span", { class: "flag", title: text(`flag_${flag}_why`) }, text(`flag_${flag}`)),
  );
  return [...estimate, ...found];
}

const timing = ({ first, whole }) => text("timing", { first: ui.number(first), whole: ui.number(whole) });
