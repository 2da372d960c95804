// @ts-check
// Components shared by the views.

import { fill, h, icon, unique } from "./dom.js";
import { ICONS } from "./icons.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * The head of a view.
 *
 * @param {string} title
 * @param {string} about
 * @param {...Child} actions
 */
export function head(title, about, ...actions) {
  return h(
    "header",
    { class: "view-head" },
    h("div", null, h("h1", null, title), h("p", { class: "muted" }, about)),
    actions.length > 0 && h("div", { class: "actions" }, ...actions),
  );
}

/** @param {string} label @param {(event: MouseEvent) => void} onclick @param {object} [props] */
export function button(label, onclick, props = {}) {
  return h("button", { type: "button", class: "button", onclick, ...props }, label);
}

/** A button with an icon only. @param {string} name @param {string} label @param {() => void} onclick */
export function iconButton(name, label, onclick) {
  const drawing = icon(/** @type {any} */ (ICONS)[name]);
  const props = { type: "button", class: "icon-button", title: label, "aria-label": label, onclick };
  return h("button", props, drawing);
}

/**
 * A search field.
 *
 * @param {string} label
 * @param {(text: string) => void} onchange
 */
export function search(label, onchange) {
  const input = h("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: false,
    oninput: () => onchange(input.value.trim().toLowerCase()),
  });
  return h("div", { class: "search" }, icon(ICONS.search), input);
}

/**
 * A segmented control.
 *
 * @template {string} T
 * @param {string} label
 * @param {{value: T, label: string}[]} options
 * @param {T} chosen
 * @param {(value: T) => void} onchoose
 */
export function segments(label, options, chosen, onchoose) {
  const badges = new Map(options.map(({ value }) => [value, h("span", { class: "badge", hidden: true })]));
  const buttons = new Map(
    options.map(({ value, label }) => [
      value,
      h("button", { type: "button", onclick: () => choose(value) }, h("span", null, label), badges.get(value)),
    ]),
  );
  /** @param {T} value */
  const show = (value) => {
    for (const [name, one] of buttons) one.setAttribute("aria-pressed", String(name === value));
  };
  /** @param {T} value */
  const choose = (value) => {
    show(value);
    onchoose(value);
  };
  show(chosen);
  const element = h("div", { class: "segments", role: "group", "aria-label": label }, ...buttons.values());
  /** Shows a count on each segment. @param {Record<string, number>} counts */
  const setCounts = (counts) => {
    for (const [name, badge] of badges) {
      const text = (counts[name] ?? 0).toLocaleString("en-US");
      if (badge.textContent === text) continue;
      badge.hidden = false;
      badge.textContent = text;
    }
  };
  return { element, setCounts };
}

/** Placeholder for an empty view. @param {string} title @param {string} about @param {...Child} more */
export function empty(title, about, ...more) {
  return h("div", { class: "empty" }, h("h2", null, title), h("p", { class: "muted" }, about), ...more);
}

/** Renders an error. @param {unknown} error */
export function problem(error) {
  const said = /** @type {any} */ (error);
  const name = said?.data?.name;
  const details = said?.data?.details;
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", null, String(said?.message ?? error)),
    details && h("p", null, String(details)),
    name && h("p", { class: "mono small" }, `${name} ${said.code ?? ""}`),
  );
}

/** A progress bar. @param {string} label */
export function progressBar(label) {
  const bar = h("div", { class: "bar-fill" });
  const element = h("div", { class: "bar", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 }, bar);
  return {
    element,
    /** @param {number} done @param {number} [total] */
    set(done, total) {
      const share = total ? Math.min(1, done / total) : 0;
      element.classList.toggle("unknown", !total);
      element.setAttribute("aria-valuenow", String(Math.round(share * 100)));
      bar.style.setProperty("inline-size", `${share * 100}%`);
    },
  };
}

/** A button that copies a text. @param {string} label @param {() => string} text */
export function copyButton(label, text) {
  const one = h(
    "button",
    {
      type: "button",
      class: "button quiet small",
      onclick: async () => {
        if (!(await copy(text()))) return toast("Copying needs https or localhost.");
        fill(one, icon(ICONS.check), "Copied");
        setTimeout(() => fill(one, icon(ICONS.copy), label), 1500);
      },
    },
    icon(ICONS.copy),
    label,
  );
  return one;
}

/** Copies a text; returns whether that succeeded. @param {string} text */
async function copy(text) {
  // The clipboard API needs a secure context.
  const copying = navigator.clipboard?.writeText(text);
  return copying ? copying.then(() => true, () => false) : false;
}

/** Collapsible content. @param {string} title @param {...Child} children */
export function fold(title, ...children) {
  return h("details", { class: "fold" }, h("summary", null, title), h("div", null, ...children));
}

/** A row of a name and a value. @param {Child} name @param {Child} value */
export function fact(name, value) {
  return h("div", { class: "fact" }, h("dt", null, name), h("dd", null, value ?? "–"));
}

/**
 * A toast: a temporary message, announced to screen readers.
 *
 * @param {string} text
 */
export function toast(text) {
  let place = document.getElementById("toasts");
  if (!place) {
    place = h("div", { id: "toasts", role: "status", "aria-live": "polite" });
    document.body.append(place);
  }
  const one = h("div", { class: "toast", id: unique("toast") }, text);
  place.append(one);
  setTimeout(() => one.remove(), 4000);
}
