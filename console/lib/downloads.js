// @ts-check
// Downloads of large content, in a tray that stays open across views.

import { fill, h, icon } from "./dom.js";
import { bytes } from "./format.js";
import { ICONS } from "./icons.js";
import { iconButton, progressBar, toast } from "./parts.js";

/**
 * @typedef {object} Wanted
 * @property {string} name
 * @property {number | Promise<number | undefined>} [size] Size in bytes, as soon as it is known.
 * @property {() => Promise<ReadableStream<Uint8Array> | null>} open
 */

class Downloads {
  #list = h("ul", { class: "tray-list" });
  #title = h("h2", null, "Downloads");
  #running = 0;
  element = h(
    "aside",
    { class: "tray", hidden: true, "aria-label": "Downloads" },
    h("header", null, this.#title, iconButton("cross", "Close downloads", () => this.#clear())),
    this.#list,
  );

  /** Starts a download. @param {Wanted} wanted */
  async start({ name, size, open }) {
    const bar = progressBar(name);
    const told = h("span", { class: "muted small numbers" }, "waiting");
    const ended = new AbortController();
    const cancel = iconButton("cross", `Stop ${name}`, () => ended.abort());
    const row = h(
      "li",
      { class: "download", "data-state": "running" },
      h("div", { class: "download-head" }, icon(ICONS.download), h("span", { class: "download-name" }, name), cancel),
      bar.element,
      told,
    );
    this.#list.prepend(row);
    this.element.hidden = false;
    this.#count(1);
    /** @type {number | undefined} */ let length;
    Promise.resolve(size).then((known) => (length = known));
    try {
      const stream = await open();
      if (!stream) throw new Error("the stream is no longer available");
      const blob = await read(stream, ended.signal, (done, rate) => {
        bar.set(done, length);
        fill(told, `${bytes(done)}${length ? ` of ${bytes(length)}` : ""} at ${bytes(rate)}/s`);
      });
      bar.set(1, 1);
      row.dataset.state = "done";
      fill(told, bytes(blob.size));
      cancel.replaceWith(iconButton("download", `Save ${name}`, () => this.save(name, blob)));
    } catch (error) {
      row.dataset.state = "failed";
      fill(told, ended.signal.aborted ? "stopped" : String(/** @type {any} */ (error)?.message ?? error));
      cancel.remove();
    } finally {
      this.#count(-1);
    }
  }

  /** Saves a blob as a file. @param {string} name @param {Blob} blob */
  save(name, blob) {
    const address = URL.createObjectURL(blob);
    h("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    toast(`Saved ${name}`);
  }

  /** @param {number} change */
  #count(change) {
    this.#running += change;
    fill(this.#title, this.#running > 0 ? `Downloads · ${this.#running} running` : "Downloads");
  }

  #clear() {
    for (const row of [...this.#list.children]) {
      if (/** @type {HTMLElement} */ (row).dataset.state !== "running") row.remove();
    }
    this.element.hidden = this.#running === 0 || this.#list.children.length === 0;
  }
}

/**
 * Reads a stream to its end. Chunks are merged into blobs on the way, which browsers keep on disk.
 *
 * @param {ReadableStream<Uint8Array>} stream
 * @param {AbortSignal} signal
 * @param {(done: number, rate: number) => void} tell
 */
async function read(stream, signal, tell) {
  const reader = stream.getReader();
  signal.addEventListener("abort", () => reader.cancel().catch(() => {}), { once: true });
  const begun = performance.now();
  let blob = new Blob([]);
  /** @type {Uint8Array[]} */ let pieces = [];
  let [done, held, told] = [0, 0, 0];
  for (;;) {
    const next = await reader.read();
    signal.throwIfAborted();
    if (next.value) {
      pieces.push(next.value);
      done += next.value.length;
      held += next.value.length;
    }
    if (held > PIECE || next.done) {
      blob = new Blob([blob, .../** @type {any[]} */ (pieces)]);
      [pieces, held] = [[], 0];
    }
    const now = performance.now();
    if (now - told > 100 || next.done) {
      told = now;
      tell(done, (done / Math.max(1, now - begun)) * 1000);
    }
    if (next.done) return blob;
  }
}

const PIECE = 8 * 1024 * 1024;

/** Downloads of this page. */
export const downloads = new Downloads();
