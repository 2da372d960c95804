// @ts-check
// Virtual list: only the visible rows have elements, which are reused. All rows have one height.

import { eachFrame, h } from "./dom.js";

/**
 * @template T
 * @typedef {object} Options
 * @property {string} label Accessible name of the list.
 * @property {number} height Of one row, in pixels.
 * @property {() => {element: HTMLElement, show: (item: T) => void}} row Creates a reusable row.
 * @property {(item: T) => string} key
 * @property {(item: T) => void} onopen
 */

/** @template T */
export class VirtualList {
  /** @type {T[]} */ #items = [];
  /** @type {{element: HTMLElement, show: (item: T) => void}[]} */ #rows = [];
  /** @type {string | null} */ #chosen = null;
  #active = 0;
  #shown = -1;
  #options;
  #space = h("div", { class: "virtual-space", role: "presentation" });
  #draw = eachFrame(() => this.#show());
  #watch = new ResizeObserver(() => this.#draw());

  /** @param {Options<T>} options */
  constructor(options) {
    this.#options = options;
    this.element = h(
      "div",
      {
        class: "virtual",
        role: "listbox",
        tabIndex: 0,
        "aria-label": options.label,
        onscroll: this.#draw,
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      },
      this.#space,
    );
    this.element.style.setProperty("--row", `${options.height}px`);
    this.#watch.observe(this.element);
  }

  /** Replaces the items. @param {T[]} items */
  set(items) {
    this.#items = items;
    this.#draw();
  }

  /** Marks the selected item. @param {string | null} key */
  choose(key) {
    this.#chosen = key;
    const place = this.#items.findIndex((item) => this.#options.key(item) === key);
    if (place >= 0) this.#active = place;
    this.#draw();
  }

  dispose() {
    this.#watch.disconnect();
  }

  #show() {
    const { height, key } = this.#options;
    const count = this.#items.length;
    if (count !== this.#shown) this.#space.style.setProperty("block-size", `${count * height}px`);
    this.#shown = count;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - BESIDE);
    const visible = Math.ceil(this.element.clientHeight / height) + 2 * BESIDE;
    const last = Math.min(count, first + visible);
    while (this.#rows.length < last - first) this.#add();
    this.#rows.forEach((row, number) => {
      const place = first + number;
      const item = this.#items[place];
      const isThere = place < last && item !== undefined;
      if (row.element.hidden === isThere) row.element.hidden = !isThere;
      if (!isThere) return;
      row.show(item);
      const isChosen = key(item) === this.#chosen;
      // Rows are updated only if something has changed.
      const standing = `${place} ${count} ${isChosen} ${place === this.#active}`;
      if (row.element.dataset.standing === standing) return;
      row.element.dataset.standing = standing;
      row.element.dataset.place = String(place);
      row.element.style.setProperty("transform", `translateY(${place * height}px)`);
      row.element.setAttribute("aria-setsize", String(count));
      row.element.setAttribute("aria-posinset", String(place + 1));
      row.element.setAttribute("aria-selected", String(isChosen));
      row.element.classList.toggle("active", place === this.#active);
    });
    const active = this.#rows.find((row) => !row.element.hidden && row.element.classList.contains("active"));
    if (active) this.element.setAttribute("aria-activedescendant", active.element.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #add() {
    const row = this.#options.row();
    row.element.classList.add("virtual-row");
    row.element.setAttribute("role", "option");
    row.element.id = `row-${++rows}`;
    row.element.addEventListener("click", () => this.#open(Number(row.element.dataset.place)));
    this.#rows.push(row);
    this.#space.append(row.element);
  }

  /** @param {number} place */
  #open(place) {
    const item = this.#items[place];
    if (item === undefined) return;
    this.#active = place;
    this.#options.onopen(item);
    this.#draw();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.#options.height) - 1);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.#open(this.#active);
    }
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.#active = Math.max(0, Math.min(this.#items.length - 1, this.#active + step));
    const { height } = this.#options;
    const top = this.#active * height;
    const box = this.element;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
    this.#draw();
  }
}

/** Number of extra rows above and below the visible ones. */
const BESIDE = 4;

let rows = 0;
