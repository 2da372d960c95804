// @ts-check
// JSON as a collapsible tree and as highlighted text.

import { h } from "./dom.js";

/**
 * A value as a tree whose branches are rendered on demand.
 *
 * @param {any} value
 * @param {string} [name]
 * @param {number} [open] Number of levels that are open initially.
 * @returns {HTMLElement}
 */
export function tree(value, name, open = 2) {
  const label = name === undefined ? null : h("span", { class: "json-name" }, `${name}: `);
  if (value === null || typeof value !== "object") {
    return h("div", { class: "json-leaf" }, label, leaf(value));
  }
  const entries = Object.entries(value);
  const isList = Array.isArray(value);
  const size = isList ? `[${entries.length}]` : `{${entries.length}}`;
  if (entries.length === 0) {
    return h("div", { class: "json-leaf" }, label, h("span", { class: "muted" }, isList ? "[]" : "{}"));
  }
  const body = h("div", { class: "json-branch" });
  let from = 0;
  const more = () => {
    const next = entries.slice(from, from + MOST);
    from += next.length;
    body.append(...next.map(([key, child]) => tree(child, key, open - 1)));
    if (from < entries.length) {
      const left = entries.length - from;
      const button = h("button", { type: "button", class: "button quiet small" }, `${left} more`);
      button.addEventListener("click", () => {
        button.remove();
        more();
      });
      body.append(button);
    }
  };
  const details = h(
    "details",
    { class: "json", open: open > 0 },
    h("summary", null, label, h("span", { class: "muted" }, size)),
    body,
  );
  const opened = () => {
    if (details.open && from === 0) more();
  };
  details.addEventListener("toggle", opened);
  opened();
  return details;
}

/** @param {any} value */
function leaf(value) {
  const kind = value === null ? "null" : typeof value;
  return h("span", { class: `json-${kind}` }, kind === "string" ? JSON.stringify(value) : String(value));
}

/**
 * JSON text with syntax highlighting, indented if it is complete.
 *
 * @param {string} text
 * @param {string} label Accessible name.
 */
export function code(text, label) {
  const shown = pretty(text);
  const block = h("pre", { class: "code", tabIndex: 0, role: "region", "aria-label": label });
  if (shown.length > LONGEST) {
    block.append(`${shown.slice(0, LONGEST)}…`);
    return block;
  }
  let place = 0;
  for (const found of shown.matchAll(TOKENS)) {
    const at = found.index ?? 0;
    if (at > place) block.append(shown.slice(place, at));
    place = at + found[0].length;
    const kind = found[2] ? "name" : found[1] ? "string" : found[3] ? "number" : "boolean";
    block.append(h("span", { class: `json-${kind}` }, found[1] ?? found[0]), found[2] ?? "");
  }
  block.append(shown.slice(place));
  return block;
}

/** @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|\b(?:true|false|null)\b/g;

/** Maximum number of members shown at once. */
const MOST = 100;

/** Maximum length of highlighted text; more would take longer than a frame. */
const LONGEST = 40_000;
