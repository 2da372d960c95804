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
    const topics = this.all ? ["sessions", "traffic", "stats"] : ["sessions"];
    const told = await client.request("admin/watch", { topics });
    this.#watch = told.watchId;
    this.exchanges = told.exchanges ?? [];
    this.seconds = told.seconds ?? [];
    this.#tell("traffic");
    this.#tell("stats");
    if (about.conversations) await this.#sessions.load(client);
  }

  #watch = 0;

  /** @param {import("../client.js").Client} client @param {string} method @param {any} params */
  #take(client, method, params) {
    // A watch that was begun before a reconnect is not this one.
    if (params?.watchId !== undefined && params.watchId !== this.#watch) return;
    switch (method) {
      case "notifications/admin/sessions":
        if (this.#sessions.apply(params)) this.#sessions.load(client).catch(() => {});
        break;
      case "notifications/admin/traffic":
        this.exchanges = [...this.exchanges, ...params.exchanges].slice(-MOST);
        this.#tell("traffic");
        break;
      case "notifications/admin/stats":
        this.seconds = [...this.seconds, ...params.seconds].slice(-SECONDS);
        this.#tell("stats");
        break;
    }
  }

  /** @param {string} name */
  #tell(name) {
    this.dispatchEvent(new Event(name));
  }
}

/** Clients that are listened to already. */
const known = new WeakSet();

/** How many exchanges are kept, as many as the server keeps. */
const MOST = 500;
