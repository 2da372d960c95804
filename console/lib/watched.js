// @ts-check
// What the server pushes to those who look after it: sessions, exchanges, figures.

import { SECONDS } from "./chart.js";

/** Tells by `traffic` and `stats` events; sessions go to where they are kept. */
export class Watched extends EventTarget {
  /** Newest last. @type {any[]} */ exchanges = [];
  /** Oldest first. @type {any[]} */ seconds = [];
  /** Whether traffic and figures may be seen. */ all = false;
  #sessions;

  /** @param {import("./sessions.js").Sessions} sessions */
  constructor(sessions) {
    super();
    this.#sessions = sessions;
  }

  /**
   * Has everything pushed that may be seen.
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
    // Figures are counted from now on, so that there is something to see when they are looked at.
    const topics = this.all ? ["sessions", "stats"] : ["sessions"];
    this.#watches.clear();
    this.#watches.add((await client.request("admin/watch", { topics })).watchId);
    for (const topic of this.#wanted.keys()) this.#wanted.set(topic, this.#want(client, topic));
    await Promise.all(this.#wanted.values());
    if (about.conversations) await this.#sessions.load(client);
  }

  /**
   * Has a topic pushed, beginning with what the server has kept of it, as long as a view is shown.
   *
   * @param {import("../client.js").Client} client
   * @param {"traffic" | "stats"} topic
   * @param {AbortSignal} signal
   */
  want(client, topic, signal) {
    this.#wanted.set(topic, this.#want(client, topic));
    signal.addEventListener("abort", async () => {
      // Not the one that was begun here, if the connection was made anew.
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
      // The connection broke; whoever connects again asks again.
      return 0;
    }
  }

  /** @type {Set<number>} */ #watches = new Set();
  /** What views have pushed beside, and the watch it comes by. @type {Map<string, Promise<number>>} */ #wanted = new Map();

  /** @param {import("../client.js").Client} client @param {string} method @param {any} params */
  #take(client, method, params) {
    // A watch that was begun before a reconnect is not this one.
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

/** What is known, and what comes after it. @param {any[]} known @param {any[]} more @param {string} by */
function newer(known, more, by) {
  const last = known.at(-1)?.[by] ?? -1;
  return [...known, ...more.filter((one) => one[by] > last)];
}

/** Clients that are listened to already. */
const known = new WeakSet();

/** How many exchanges are kept, as many as the server keeps. */
const MOST = 500;
