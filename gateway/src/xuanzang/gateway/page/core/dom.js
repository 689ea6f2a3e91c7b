// Elements of the page. Text only ever becomes text: nothing here, nor elsewhere, reads markup from a string.

const SVG = "http://www.w3.org/2000/svg";

/** Finds an element of index.html by its id. */
export const byId = (id) => document.getElementById(id);

/**
 * Makes an element.
 * @param {string} tag Name, such as "button".
 * @param {object} attributes Attributes by name; `on` has listeners by event; null, undefined and false are left out.
 * @param {...(Node|string)} children What is inside; strings become text.
 */
export const element = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

/** Makes an element of SVG. */
export const drawn = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

/** Makes a button that submits nothing; its label is a text, an element, or several of them. */
export const button = (label, attributes, onClick) =>
  element("button", { type: "button", ...attributes, on: { click: onClick } }, ...[label].flat());

/** Makes a picture out of index.html, beside a label that says the same. */
export const icon = (name) => drawn("svg", { class: "icon", "aria-hidden": "true" }, drawn("use", { href: `#icon-${name}` }));

/** Makes a select with a label before it. */
export function choice(label, options, chosen, onChange) {
  const select = element("select", { on: { change: () => onChange(select.value) } });
  fillSelect(select, options, chosen);
  return element("label", {}, `${label} `, select);
}

/** Gives a select its options, pairs of value and text. */
export function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  select.value = String(chosen);
}

/** Makes a link by which people save bytes as a file. */
export const saved = (blob, name, label = name) =>
  element("a", { href: URL.createObjectURL(blob), download: name, class: "save" }, label);

/** Puts a text on the clipboard, also where browsers offer none to scripts: on other machines without TLS. */
export async function copy(value) {
  if (navigator.clipboard) return navigator.clipboard.writeText(value);
  const focused = document.activeElement;
  const area = element("textarea", { class: "unseen" });
  area.value = value;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return focused.focus();
}

/** Shows a dialog with a title and a button that closes it; a click beside it and Escape do so, too. */
export function openDialog(dialog, title, close, ...children) {
  const shut = button(icon("close"), { class: "icon-only", "aria-label": close }, () => dialog.close());
  dialog.replaceChildren(element("div", { class: "dialog-head" }, element("h2", { id: `${dialog.id}-title` }, title), shut), ...children);
  dialog.onclick = ({ target }) => {
    if (target === dialog) dialog.close();
  };
  if (!dialog.open) dialog.showModal();
}

function filled(made, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  for (const [event, listener] of Object.entries(on)) made.addEventListener(event, listener);
  made.append(...children);
  return made;
}
