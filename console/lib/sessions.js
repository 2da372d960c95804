// @ts-check
// All conversations one may see, kept up to date by what the server pushes.

/**
 * @typedef {object} Row
 * @property {string} sessionId
 * @property {string} state
 * @property {string} toolName
 * @property {number} createdAt
 * @property {number} lastActivityAt
 * @property {number} [expiresAt]
 * @property {string} owner
 * @property {{current: number, total: number, message?: string}} [progress]
 *
 * @typedef {"waiting" | "working" | "finished"} Phase
 */

/** Tells by `change` events, of which one may stand for many changes. */
export class Sessions extends EventTarget {
  /** @type {Map<string, Row>} */ rows = new Map();
  /** Newest first. @type {Row[]} */ ordered = [];
  /** @type {Record<Phase, number>} */ counts = { waiting: 0, working: 0, finished: 0 };
  isLoading = false;
  #loads = 0;
  /** What was listed or pushed since the list was begun; all else is gone. */ #seen = new Set();

  /**
   * Lists everything again. What is pushed meanwhile is newer than what is listed.
   *
   * @param {import("../client.js").Client} client
   */
  async load(client) {
    const load = ++this.#loads;
    this.isLoading = true;
    /** @type {Set<string>} */ const seen = new Set();
    this.#seen = seen;
    /** @type {string | undefined} */ let cursor;
    do {
      const page = await client.request("admin/sessions", cursor ? { cursor } : {}, { repeat: true });
      if (load !== this.#loads) return;
      for (const row of page.sessions) {
        seen.add(row.sessionId);
        const known = this.rows.get(row.sessionId);
        if (!known || known.lastActivityAt <= row.lastActivityAt) this.#put(row);
      }
      cursor = page.nextCursor;
      this.#order();
      this.#tell();
    } while (cursor);
    this.isLoading = false;
    for (const id of [...this.rows.keys()]) if (!seen.has(id)) this.#remove(id);
    this.#order();
    this.#tell();
  }

  /** Takes in what was pushed. Whether all has to be listed again. @param {any} params */
  apply({ sessions = [], progress = [], forgotten = [], missed }) {
    if (missed) return true;
    let isNew = false;
    for (const row of sessions) {
      this.#seen.add(row.sessionId);
      isNew = this.#put(row) || isNew;
    }
    for (const { sessionId, progress: far } of progress) {
      const row = this.rows.get(sessionId);
      if (row) this.rows.set(sessionId, this.#replaced({ ...row, progress: far }));
    }
    const before = this.rows.size;
    for (const id of forgotten) this.#remove(id);
    if (isNew || this.rows.size !== before) this.#order();
    this.#tell({ changed: [...sessions, ...progress].map(({ sessionId }) => sessionId) });
    return false;
  }

  /** @type {Map<string, number>} Where each row is in `ordered`. */ #places = new Map();

  /** Whether it was not known before. @param {Row} row */
  #put(row) {
    const known = this.rows.get(row.sessionId);
    if (known) this.counts[phaseOf(known.state)] -= 1;
    this.counts[phaseOf(row.state)] += 1;
    const isWorking = phaseOf(row.state) === "working";
    this.rows.set(row.sessionId, this.#replaced(isWorking && known?.progress ? { ...row, progress: known.progress } : row));
    return !known;
  }

  /** @param {Row} row */
  #replaced(row) {
    const place = this.#places.get(row.sessionId);
    if (place !== undefined) this.ordered[place] = row;
    return row;
  }

  /** @param {string} id */
  #remove(id) {
    const row = this.rows.get(id);
    if (!row) return;
    this.counts[phaseOf(row.state)] -= 1;
    this.rows.delete(id);
  }

  #order() {
    this.ordered = [...this.rows.values()].sort((a, b) => b.createdAt - a.createdAt || (a.sessionId < b.sessionId ? -1 : 1));
    this.#places = new Map(this.ordered.map((row, place) => [row.sessionId, place]));
  }

  /** @param {object} [detail] */
  #tell(detail = {}) {
    this.dispatchEvent(new CustomEvent("change", { detail }));
  }
}

/** @param {string} state @returns {Phase} */
export function phaseOf(state) {
  if (state === "waiting_user") return "waiting";
  return ["completed", "cancelled", "error", "expired"].includes(state) ? "finished" : "working";
}

/** A state in words. @param {string} state */
export function wordFor(state) {
  return { waiting_user: "waiting", processing: "processing", idle: "starting", completed: "completed", cancelled: "cancelled", error: "failed" }[state] ?? state;
}
