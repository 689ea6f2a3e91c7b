// Language of the interface, and light or dark: chosen by the reader, kept by the browser.

import { byId } from "./dom.js";
import { TEXTS } from "../texts.js";

const ATTRIBUTES = { text: "textContent", label: "ariaLabel", placeholder: "placeholder" };

class Interface extends EventTarget {
  language = kept("language") ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");

  /** Returns a text of the interface, with values put where it has their names in braces. */
  text(key, values = {}) {
    return TEXTS[this.language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  }

  /** Returns the name of a language, or its code if the browser knows none. */
  languageName(code) {
    return new Intl.DisplayNames([this.language], { type: "language" }).of(code) ?? code;
  }

  /** Joins names in the way of the language. */
  list(names) {
    return new Intl.ListFormat(this.language).format(names);
  }

  /** Writes a number in the way of the language. */
  number(value, digits = 0) {
    return value.toLocaleString(this.language, { maximumFractionDigits: digits, minimumFractionDigits: digits });
  }

  /** Shows the chosen language and theme, and follows both choices. */
  begin() {
    follow("language", this.language, (chosen) => this.#speak(chosen));
    follow("theme", kept("theme") ?? "auto", (chosen) => {
      if (chosen === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = chosen;
    });
  }

  #speak(language) {
    this.language = language;
    document.documentElement.lang = language;
    for (const [kind, property] of Object.entries(ATTRIBUTES)) {
      for (const each of document.querySelectorAll(`[data-${kind}]`)) each[property] = this.text(each.dataset[kind]);
    }
    this.dispatchEvent(new Event("language"));
  }
}

/** The interface of this page. */
export const ui = new Interface();

/** Returns a text of the interface. */
export const text = (key, values) => ui.text(key, values);

/** Says something to readers of the screen. */
export const announce = (message) => (byId("status").textContent = message);

function follow(name, first, show) {
  const select = byId(name);
  select.value = first;
  show(first);
  select.addEventListener("change", () => {
    keep(name, select.value);
    show(select.value);
  });
}

/** Returns what the browser keeps under a name, or null. It may forbid storage; then a choice holds until the page is closed. */
export function kept(name) {
  try {
    return localStorage.getItem(`xuanzang-${name}`);
  } catch {
    return null;
  }
}

/** Keeps a text in the browser. */
export function keep(name, value) {
  try {
    localStorage.setItem(`xuanzang-${name}`, value);
  } catch {
    return;
  }
}
