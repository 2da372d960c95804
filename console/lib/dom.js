// @ts-check
// Element creation. Text is always set as text, so that no server text becomes markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Creates an element. `on…` members are listeners, `class` and names with a dash are attributes,
 * everything else is set as a property if the element has it.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) set(element, name, value);
  element.append(...nodes(children));
  return element;
}

/** Replaces the children of an element. @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
}

/** @param {(Child | Child[])[]} children */
function nodes(children) {
  const kept = children.flat().filter((child) => child !== null && child !== false);
  return kept
    .filter((child) => child !== undefined)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** @param {HTMLElement} element @param {string} name @param {any} value */
function set(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name.startsWith("on")) {
    element.addEventListener(name.slice(2), value);
  } else if (name === "class") {
    element.className = value;
  } else if (name === "style") {
    for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
  } else if (name in element && !name.includes("-") && name !== "role" && name !== "list") {
    /** @type {any} */ (element)[name] = value;
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Creates an icon of 24 by 24 units from its path data. @param {string} paths @param {string} [kind] */
export function icon(paths, kind = "icon") {
  const name = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(name, "svg");
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("class", kind);
  drawing.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(name, "path");
  path.setAttribute("d", paths);
  drawing.append(path);
  return drawing;
}

let last = 0;

/** Creates a unique element id. @param {string} name */
export function unique(name) {
  return `${name}-${++last}`;
}

/**
 * Returns a function that schedules `run` once for the next frame.
 *
 * @param {() => void} run
 */
export function eachFrame(run) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      run();
    });
  };
}
