// @ts-check
// The sessions that the user may see, updated by the server's pushes.

/**
 * @typedef {object} Row
 * @property {string} sessionId
 * @property {string} state
 * @property {string} toolName
 * @property {number} createdAt
 * @property {number} lastActivityAt
 * @property {number} [expiresAt]
 * @property {number} [wakesAt]
 * @property {string} owner
 * @property {{current: number, total: number, message?: string}} [progress]
 *
 * @typedef {"waiting" | "working" | "finished"} Phase
 */

/** Emits `change` events, one of which may cover many changes. */
export class Sessions extends EventTarget {
  /** @type {Map<string, Row>} */ rows = new Map();
  /** Newest first. @type {Row[]} */ ordered = [];
  /** @type {Record<Phase, number>} */ counts = { waiting: 0, working: 0, finished: 0 };
  isLoading = false;
  #loads = 0;
  /** Ids listed or pushed since loading started; all others are removed. */ #seen = new Set();

  /**
   * Lists all sessions again. Pushed changes win over listed ones.
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

  /** Applies a pushed change. Returns true if all sessions have to be listed again. @param {any} params */
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

  /** @type {Map<string, number>} Index of each row in `ordered`. */ #places = new Map();

  /** Adds or replaces a row. Returns true if it is new. @param {Row} row */
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

/** Display name of a state. @param {string} state */
export function wordFor(state) {
  return { waiting_user: "waiting", processing: "processing", idle: "starting", completed: "completed", cancelled: "cancelled", error: "failed" }[state] ?? state;
}
