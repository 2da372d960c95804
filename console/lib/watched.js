// @ts-check
// Pushes of the admin extension: sessions, exchanges and metrics.

import { SECONDS } from "./chart.js";

/** Emits `traffic` and `stats` events; session changes go to `Sessions`. */
export class Watched extends EventTarget {
  /** Newest last. @type {any[]} */ exchanges = [];
  /** Oldest first. @type {any[]} */ seconds = [];
  /** True if the user may see traffic and metrics. */ all = false;
  #sessions;

  /** @param {import("./sessions.js").Sessions} sessions */
  constructor(sessions) {
    super();
    this.#sessions = sessions;
  }

  /**
   * Starts the watches that the user is permitted.
   *
   * @param {import("../client.js").Client} client
   * @param {any} about
   */
  async begin(client, about) {
    this.all = about.all === true;
    if (!known.has(client)) {
      known.add(client);
      client.addEventListener("notification", (event) => {
        const { method, params } = /** @type {CustomEvent} */ (event).detail;
        this.#take(client, method, params);
      });
    }
    // Metrics are recorded from now on, so that the charts have data when they are opened.
    const topics = this.all ? ["sessions", "stats"] : ["sessions"];
    this.#watches.clear();
    this.#watches.add((await client.request("admin/watch", { topics })).watchId);
    for (const topic of this.#wanted.keys()) this.#wanted.set(topic, this.#want(client, topic));
    await Promise.all(this.#wanted.values());
    if (about.sessions) await this.#sessions.load(client);
  }

  /**
   * Watches a topic with its history while a view is shown.
   *
   * @param {import("../client.js").Client} client
   * @param {"traffic" | "stats"} topic
   * @param {AbortSignal} signal
   */
  want(client, topic, signal) {
    this.#wanted.set(topic, this.#want(client, topic));
    signal.addEventListener("abort", async () => {
      // After a reconnection it is another watch than the one started here.
      const watching = this.#wanted.get(topic);
      this.#wanted.delete(topic);
      const watchId = (await watching) ?? 0;
      this.#watches.delete(watchId);
      client.request("admin/unwatch", { watchId }).catch(() => {});
    });
  }

  /** @param {import("../client.js").Client} client @param {string} topic @returns {Promise<number>} */
  async #want(client, topic) {
    try {
      const told = await client.request("admin/watch", { topics: [topic], history: true });
      this.#watches.add(told.watchId);
      if (told.exchanges) this.exchanges = told.exchanges;
      if (told.seconds) this.seconds = told.seconds;
      this.#tell(topic);
      return told.watchId;
    } catch {
      // The connection was lost; the watch is started again after the reconnection.
      return 0;
    }
  }

  /** @type {Set<number>} */ #watches = new Set();
  /** Watches started by views, by topic. @type {Map<string, Promise<number>>} */ #wanted = new Map();

  /** @param {import("../client.js").Client} client @param {string} method @param {any} params */
  #take(client, method, params) {
    // Ignores watches of an earlier connection.
    if (params?.watchId !== undefined && !this.#watches.has(params.watchId)) return;
    switch (method) {
      case "notifications/admin/sessions":
        if (this.#sessions.apply(params)) this.#sessions.load(client).catch(() => {});
        break;
      case "notifications/admin/traffic":
        this.exchanges = newer(this.exchanges, params.exchanges, "number").slice(-MOST);
        this.#tell("traffic");
        break;
      case "notifications/admin/stats":
        this.seconds = newer(this.seconds, params.seconds, "at").slice(-SECONDS);
        this.#tell("stats");
        break;
    }
  }

  /** @param {string} name */
  #tell(name) {
    this.dispatchEvent(new Event(name));
  }
}

/** Appends the entries that are newer than the last known one. @param {any[]} known @param {any[]} more @param {string} by */
function newer(known, more, by) {
  const last = known.at(-1)?.[by] ?? -1;
  return [...known, ...more.filter((one) => one[by] > last)];
}

/** Clients that have a listener. */
const known = new WeakSet();

/** Maximum number of exchanges, the same as the server's. */
const MOST = 500;
