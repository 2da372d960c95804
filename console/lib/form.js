// @ts-check
// A form for a JSON Schema. Values without a field of their own are entered as JSON.

import { fill, h, unique } from "./dom.js";
import { button } from "./parts.js";

/**
 * A form field. `read` throws an Error for an invalid value, and returns undefined for an empty one.
 *
 * @typedef {object} Field
 * @property {HTMLElement} element
 * @property {() => any} read
 * @property {(problem: string) => void} complain
 */

/**
 * The fields of an object.
 *
 * @param {any} schema
 * @param {any} [values] Initial values.
 * @param {number} [depth] Nesting depth.
 * @returns {Field}
 */
export function objectForm(schema, values = {}, depth = 0) {
  const root = schema ?? {};
  const required = new Set(root.required ?? []);
  const fields = Object.entries(root.properties ?? {}).map(([name, member]) => ({
    name,
    isRequired: required.has(name),
    field: labelled(name, resolve(member, root), required.has(name), values?.[name], root, depth),
  }));
  const extra = root.additionalProperties && fields.length === 0 ? jsonField("Arguments", {}) : null;
  const element = h("div", { class: "fields" }, ...fields.map(({ field }) => field.element), extra?.element);
  return {
    element,
    complain: (problem) => fields[0]?.field.complain(problem),
    read() {
      if (extra) return extra.read() ?? {};
      /** @type {Record<string, any>} */ const value = {};
      let first = null;
      for (const { name, isRequired, field } of fields) {
        field.complain("");
        try {
          const given = field.read();
          if (given !== undefined) value[name] = given;
          else if (isRequired) throw new Error("This field is required.");
        } catch (error) {
          field.complain(/** @type {Error} */ (error).message);
          first ??= field;
        }
      }
      if (first) {
        /** @type {HTMLElement | null} */ (first.element.querySelector("input, select, textarea"))?.focus();
        throw new Error("Correct the marked fields.");
      }
      return value;
    },
  };
}

/**
 * A value of any schema, with its label.
 *
 * @param {string} name
 * @param {any} schema
 * @param {boolean} isRequired
 * @param {any} value
 * @param {any} root
 * @param {number} [depth]
 * @returns {Field}
 */
export function labelled(name, schema, isRequired, value, root, depth = 0) {
  // A schema may be recursive.
  if (schema.type === "object" && schema.properties && depth < DEEPEST) {
    const inner = objectForm({ ...schema, $defs: root.$defs }, value, depth + 1);
    const legend = h("legend", null, schema.title ?? name);
    const element = h("fieldset", { class: "nested" }, legend, hint(schema), inner.element);
    const isEmpty = () => ![...element.querySelectorAll("input, textarea, select")].some((one) => /** @type {any} */ (one).value);
    return { ...inner, element, read: () => (!isRequired && isEmpty() ? undefined : inner.read()) };
  }
  const id = unique("field");
  const problem = h("p", { class: "field-problem", id: `${id}-problem` });
  const control = controlFor(schema, value ?? schema.default, root, name);
  control.input.id = id;
  control.input.setAttribute("aria-describedby", `${id}-problem`);
  if (isRequired) control.input.setAttribute("aria-required", "true");
  const label = h("label", { htmlFor: id }, schema.title ?? name, isRequired ? h("span", { class: "needed" }, "required") : null, kindOf(schema));
  const element = control.isInline
    ? h("div", { class: "field inline" }, control.element, label, hint(schema), problem)
    : h("div", { class: "field" }, label, hint(schema), control.element, problem);
  return {
    element,
    read: control.read,
    complain(said) {
      fill(problem, said);
      element.classList.toggle("wrong", said !== "");
      control.input.setAttribute("aria-invalid", String(said !== ""));
    },
  };
}

/** @param {any} schema */
function hint(schema) {
  return schema.description ? h("p", { class: "hint" }, schema.description) : null;
}

/** @param {any} schema */
function kindOf(schema) {
  const kind = Array.isArray(schema.type) ? schema.type.filter((/** @type {string} */ one) => one !== "null").join(" or ") : schema.type;
  return kind ? h("span", { class: "kind" }, kind) : null;
}

/**
 * @typedef {object} Control
 * @property {HTMLElement} element
 * @property {HTMLElement} input Element of the label.
 * @property {() => any} read
 * @property {boolean} [isInline]
 *
 * @param {any} schema
 * @param {any} value
 * @param {any} root
 * @param {string} name
 * @returns {Control}
 */
function controlFor(schema, value, root, name) {
  const kinds = [schema.type].flat().filter((kind) => kind !== "null");
  const options = optionsOf(schema);
  if (options) return select(options, value);
  if (kinds.length === 1) {
    switch (kinds[0]) {
      case "boolean":
        return checkbox(value);
      case "integer":
      case "number":
        return number(schema, kinds[0] === "integer", value);
      case "string":
        return text(schema, value);
      case "array":
        return list(schema, value, root, name);
    }
  }
  return jsonControl(value);
}

/** Options of a schema with an enumeration. @param {any} schema */
function optionsOf(schema) {
  if (schema.enum) return schema.enum.map((/** @type {any} */ value) => ({ value, label: String(value) }));
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices?.every((/** @type {any} */ one) => one && "const" in one)) {
    return choices.map((/** @type {any} */ one) => ({ value: one.const, label: one.title ?? one.description ?? String(one.const) }));
  }
  return null;
}

/** @param {{value: any, label: string}[]} options @param {any} value @returns {Control} */
function select(options, value) {
  const input = h(
    "select",
    null,
    h("option", { value: "" }, "Choose…"),
    ...options.map((option, place) => h("option", { value: String(place), selected: option.value === value }, option.label)),
  );
  return { element: input, input, read: () => (input.value === "" ? undefined : options[Number(input.value)]?.value) };
}

/** @param {any} value @returns {Control} */
function checkbox(value) {
  const input = h("input", { type: "checkbox", checked: value === true });
  return { element: input, input, isInline: true, read: () => input.checked };
}

/** @param {any} schema @param {boolean} isWhole @param {any} value @returns {Control} */
function number(schema, isWhole, value) {
  const input = h("input", { type: "text", inputMode: "decimal", value: value ?? "", autocomplete: "off" });
  return {
    element: input,
    input,
    read() {
      const said = input.value.trim();
      if (said === "") return undefined;
      const given = Number(said);
      if (!Number.isFinite(given)) throw new Error("This must be a number.");
      if (isWhole && !Number.isInteger(given)) throw new Error("This must be a whole number.");
      const { minimum, maximum } = schema;
      if (minimum !== undefined && given < minimum) throw new Error(`This must be ${minimum} or more.`);
      if (maximum !== undefined && given > maximum) throw new Error(`This must be ${maximum} or less.`);
      return given;
    },
  };
}

/** @param {any} schema @param {any} value @returns {Control} */
function text(schema, value) {
  const isLong = (schema.maxLength ?? 0) > 200 || /text|body|content|prompt/i.test(schema.title ?? "");
  const input = isLong
    ? h("textarea", { rows: 4, value: value ?? "" })
    : h("input", { type: schema.format === "date" ? "date" : "text", value: value ?? "", autocomplete: "off", spellcheck: false });
  return {
    element: input,
    input,
    read() {
      const given = input.value;
      if (given === "") return undefined;
      checkText(given, schema.minLength, schema.maxLength, schema.pattern);
      return given;
    },
  };
}

/** @param {string} given @param {number | undefined} least @param {number | undefined} most @param {string | undefined} pattern @param {string} [described] */
export function checkText(given, least, most, pattern, described) {
  const length = [...given].length;
  if (least !== undefined && length < least) throw new Error(`At least ${least} characters.`);
  if (most !== undefined && length > most) throw new Error(`At most ${most} characters.`);
  // A pattern this browser cannot read is for the server to judge.
  let matches = true;
  try {
    matches = pattern === undefined || new RegExp(pattern, "u").test(given);
  } catch {
    matches = true;
  }
  if (!matches) throw new Error(described ? `Expected: ${described}` : `This does not match ${pattern}`);
}

/** @param {any} schema @param {any} value @param {any} root @param {string} name @returns {Control} */
function list(schema, value, root, name) {
  const items = resolve(schema.items ?? {}, root);
  const isSimple = ["string", "number", "integer"].includes(items.type) || optionsOf(items);
  if (!isSimple) return jsonControl(value);
  const rows = h("div", { class: "list-rows" });
  /** @type {{control: Control, row: HTMLElement}[]} */ let all = [];
  /** @param {any} [given] */
  const add = (given) => {
    const control = controlFor(items, given, root, name);
    control.input.setAttribute("aria-label", `${name}, entry ${all.length + 1}`);
    const remove = button("Remove", () => {
      all = all.filter((one) => one.control !== control);
      row.remove();
    }, { class: "button quiet small" });
    const row = h("div", { class: "list-row" }, control.element, remove);
    all.push({ control, row });
    rows.append(row);
  };
  for (const given of Array.isArray(value) ? value : []) add(given);
  const more = button("Add an entry", () => add(), { class: "button quiet small" });
  return {
    element: h("div", null, rows, more),
    input: more,
    read() {
      const given = all.map(({ control }) => control.read()).filter((one) => one !== undefined);
      return given.length > 0 ? given : undefined;
    },
  };
}

/** @param {any} value @returns {Control} */
function jsonControl(value) {
  const input = h("textarea", {
    rows: 3,
    class: "mono",
    spellcheck: false,
    placeholder: "JSON, or plain text",
    value: value === undefined ? "" : JSON.stringify(value, null, 2),
  });
  return { element: input, input, read: () => readJson(input.value) };
}

/** @param {string} label @param {any} value @returns {Field} */
export function jsonField(label, value) {
  return labelled(label, {}, false, value, {});
}

/** @param {string} said */
function readJson(said) {
  if (said.trim() === "") return undefined;
  try {
    return JSON.parse(said);
  } catch {
    if (/^\s*[[{"]/.test(said)) throw new Error("Invalid JSON.");
    return said;
  }
}

/** Depth up to which objects within objects have fields of their own; beyond, they are written as JSON. */
const DEEPEST = 3;

/** Follows references within a schema. @param {any} schema @param {any} root @returns {any} */
function resolve(schema, root) {
  const path = schema?.$ref?.startsWith?.("#/") ? schema.$ref.slice(2).split("/") : null;
  if (path) {
    const found = path.reduce((/** @type {any} */ place, /** @type {string} */ name) => place?.[name], root);
    return found ? { ...found, ...schema, $ref: undefined } : {};
  }
  const some = (schema?.anyOf ?? []).filter((/** @type {any} */ one) => one?.type !== "null");
  return some.length === 1 ? { ...schema, ...resolve(some[0], root), anyOf: undefined } : (schema ?? {});
}
