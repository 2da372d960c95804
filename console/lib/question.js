// @ts-check
// A session prompt, or a signal that its flow waits for, as a form with its validation rules. The server
// validates every answer again.

import { fill, h, unique } from "./dom.js";
import { checkText, labelled, objectForm } from "./form.js";
import { bytes } from "./format.js";
import { button } from "./parts.js";

/**
 * @param {any} prompt
 * @param {(value: any) => Promise<string | null>} answer Sends an answer; returns its validation error.
 * @returns {{element: HTMLElement, complain: (prompt: any) => void}} `complain` shows the prompt's
 *   validation error and keeps the input.
 */
export function questionForm(prompt, answer) {
  const id = unique("answer");
  const problem = h("p", { class: "field-problem", id: `${id}-problem`, role: "alert" });
  const control = controlFor(prompt, id);
  const send = h("button", { type: "submit", class: "button primary" }, control.submit ?? "Answer");
  /** @param {any} value */
  const give = async (value) => {
    form.setAttribute("aria-busy", "true");
    const wrong = await answer(value).catch((error) => String(error?.message ?? error));
    form.removeAttribute("aria-busy");
    complain(wrong ?? "");
  };
  /** @param {string} said */
  const complain = (said) => {
    fill(problem, said);
    form.classList.toggle("wrong", said !== "");
  };
  const form = h(
    "form",
    {
      class: "question",
      noValidate: true,
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        Promise.resolve()
          .then(() => control.read())
          .then(give, (error) => complain(error.message));
      },
    },
    control.labels === false ? h("p", { class: "question-text" }, prompt.message) : h("label", { class: "question-text", htmlFor: id }, prompt.message),
    control.element,
    problem,
    control.buttons ? control.buttons(give) : h("div", { class: "actions" }, send),
  );
  const show = (/** @type {any} */ prompt) => {
    if (prompt.metadata?.error) complain(wrongWith(prompt.metadata));
  };
  show(prompt);
  return { element: form, complain: show };
}

/** Joins a validation error and its suggestion. @param {{error: string, suggestion?: string}} said */
export function wrongWith({ error, suggestion }) {
  const end = /[.!?]$/.test(error) ? "" : ".";
  return suggestion && suggestion !== error ? `${error}${end} ${suggestion}` : error;
}

/**
 * @typedef {object} Answering
 * @property {HTMLElement} element
 * @property {() => any} read
 * @property {boolean} [labels] False if the question does not label a single field.
 * @property {string} [submit]
 * @property {(give: (value: any) => void) => HTMLElement} [buttons]
 *
 * @param {any} prompt
 * @param {string} id
 * @returns {Answering}
 */
function controlFor(prompt, id) {
  const rules = prompt.validation ?? {};
  const described = { id, "aria-describedby": `${id}-problem` };
  switch (prompt.type) {
    case "confirm":
      return confirm(prompt);
    case "choice":
      return choice(prompt, id);
    case "number": {
      const input = h("input", { ...described, type: "text", inputMode: "decimal", placeholder: prompt.placeholder ?? "", value: prompt.defaultValue ?? "", autocomplete: "off" });
      return { element: input, read: () => readNumber(input.value, rules) };
    }
    case "date": {
      const input = h("input", { ...described, type: "date", value: prompt.defaultValue ?? "", min: rules.min ?? "", max: rules.max ?? "" });
      return { element: input, read: () => needed(input.value, rules) };
    }
    case "file":
      return file(rules, described);
    case "custom":
      return custom(prompt, rules);
    case "signal": {
      const field = labelled("Value", {}, false, undefined, {});
      return { element: field.element, labels: false, read: field.read, submit: "Send signal" };
    }
    default: {
      const input = h("input", { ...described, type: "text", placeholder: prompt.placeholder ?? "", value: prompt.defaultValue ?? "", autocomplete: "off" });
      return { element: input, read: () => readText(input.value, rules) };
    }
  }
}

/** @param {string} value @param {any} rules */
function needed(value, rules) {
  if (value === "" && rules.required) throw new Error("An answer is required.");
  return value;
}

/** @param {string} value @param {any} rules */
function readText(value, rules) {
  needed(value, rules);
  if (value !== "") checkText(value, rules.min, rules.max, rules.pattern, rules.patternDescription);
  return value;
}

/** @param {string} said @param {any} rules */
function readNumber(said, rules) {
  if (needed(said.trim(), rules) === "") return "";
  const value = Number(said);
  if (!Number.isFinite(value)) throw new Error("This must be a number.");
  if (rules.integer && !Number.isInteger(value)) throw new Error("This must be a whole number.");
  if (rules.min !== undefined && value < rules.min) throw new Error(`This must be ${rules.min} or more.`);
  if (rules.max !== undefined && value > rules.max) throw new Error(`This must be ${rules.max} or less.`);
  return value;
}

/** @param {any} prompt @returns {Answering} */
function confirm(prompt) {
  return {
    element: h("span"),
    labels: false,
    read: () => prompt.defaultValue ?? false,
    buttons: (give) =>
      h(
        "div",
        { class: "actions" },
        button("Yes", () => give(true), { class: "button primary" }),
        button("No", () => give(false)),
      ),
  };
}

/** @param {any} prompt @param {string} id @returns {Answering} */
function choice(prompt, id) {
  const choices = prompt.choices ?? [];
  const element = h(
    "div",
    { class: "choices", role: "radiogroup", "aria-label": prompt.message },
    ...choices.map((/** @type {any} */ one, /** @type {number} */ place) =>
      h(
        "label",
        { class: "choice" },
        h("input", { type: "radio", name: id, value: String(place), checked: one.value === prompt.defaultValue }),
        h("span", null, one.label),
      ),
    ),
  );
  return {
    element,
    labels: false,
    read() {
      const chosen = /** @type {HTMLInputElement | null} */ (element.querySelector("input:checked"));
      if (!chosen) throw new Error("Select an option.");
      return choices[Number(chosen.value)].value;
    },
  };
}

/** @param {any} rules @param {object} described @returns {Answering} */
function file(rules, described) {
  const input = h("input", { ...described, type: "file", accept: (rules.mimeTypes ?? []).join(",") });
  const about = rules.maxSize ? h("p", { class: "hint" }, `At most ${bytes(rules.maxSize)}.`) : null;
  return {
    element: h("div", null, input, about),
    async read() {
      const chosen = input.files?.[0];
      if (!chosen) throw new Error("Select a file.");
      if (rules.maxSize && chosen.size > rules.maxSize) throw new Error(`At most ${bytes(rules.maxSize)}.`);
      const raw = new Uint8Array(await chosen.arrayBuffer());
      let letters = "";
      for (let at = 0; at < raw.length; at += 0x8000) letters += String.fromCharCode(...raw.subarray(at, at + 0x8000));
      return { name: chosen.name, mimeType: chosen.type || "application/octet-stream", data: btoa(letters) };
    },
  };
}

/** @param {any} prompt @param {any} rules @returns {Answering} */
function custom(prompt, rules) {
  const schema = rules.schema ?? {};
  if (schema.type === "object" && schema.properties) {
    const form = objectForm(schema, prompt.defaultValue);
    return { element: form.element, labels: false, read: form.read };
  }
  const field = labelled("Answer", schema, false, prompt.defaultValue, schema);
  return { element: field.element, labels: false, read: field.read };
}
