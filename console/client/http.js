// @ts-check
// Streamable HTTP: each message is a POST; the server's own messages arrive on one long-lived GET.

import { ConnectError, LostError } from "./errors.js";
import { events } from "./sse.js";

/** @typedef {{message: (message: any) => void, lost: () => void}} LinkEvents */

export class HttpLink {
  kind = /** @type {const} */ ("http");
  handshake = {};
  cancelMethod = "notifications/cancelled";
  /** Resolves when the GET stream is open. @type {Promise<void>} */ listening;
  /** @type {string | null} */ #session = null;
  #revision = "";
  #ended = new AbortController();
  #heard = () => {};
  /** @type {(error: Error) => void} */ #unheard = () => {};
  #url;
  #token;
  #events;

  /** @param {URL} url @param {string | undefined} token @param {LinkEvents} events */
  constructor(url, token, events) {
    this.#url = new URL("/mcp", url);
    this.#token = token;
    this.#events = events;
    this.listening = new Promise((resolve, reject) => {
      this.#heard = resolve;
      this.#unheard = reject;
    });
    // Not every caller waits for it.
    this.listening.catch(() => {});
  }

  /** @param {any} message */
  async send(message) {
    const response = await this.#fetch(this.#url, {
      method: "POST",
      headers: this.#headers({
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
      }),
      body: JSON.stringify(message),
      // A notification, such as a cancellation, should be sent even while the page unloads.
      keepalive: message.id === undefined,
    });
    this.#session ??= response.headers.get("Mcp-Session-Id");
    if (response.status === 202 || response.status === 204) return;
    this.#read(response).catch(() => this.#lose());
  }

  /** Opens the GET stream after the handshake. @param {any} initialized */
  ready({ protocolVersion }) {
    this.#revision = protocolVersion;
    this.#listen().catch(() => this.#lose());
  }

  close() {
    if (this.#session && !this.#ended.signal.aborted) {
      const headers = this.#headers({});
      fetch(this.#url, { method: "DELETE", headers, keepalive: true }).catch(() => {});
    }
    this.#ended.abort();
  }

  /**
   * Streams large content: a link to a download on the same server.
   *
   * @param {number} _
   * @param {any} content
   */
  async stream(_, content) {
    const uri = content?._meta?.["mcp-flow/download"]?.url ?? (content?.type === "resource_link" ? content.uri : "");
    if (!isDownload(uri, this.#url)) return null;
    const headers = this.#headers({});
    const response = await this.#fetch(new URL(uri), { headers });
    return response.body;
  }

  async #listen() {
    const headers = this.#headers({ Accept: "text/event-stream" });
    for (;;) {
      const response = await this.#fetch(this.#url, { headers: { ...headers } });
      this.#heard();
      for await (const event of events(response)) {
        if (event.id) headers["Last-Event-ID"] = event.id;
        if (event.data) this.#events.message(JSON.parse(event.data));
      }
      // The server closed the stream; if the session is gone, the next request says so.
    }
  }

  /** @param {Response} response */
  async #read(response) {
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
      return this.#events.message(await response.json());
    }
    for await (const event of events(response)) {
      if (event.data) this.#events.message(JSON.parse(event.data));
    }
  }

  /** @param {URL} url @param {RequestInit} init */
  async #fetch(url, init) {
    let response;
    try {
      response = await fetch(url, { ...init, signal: this.#ended.signal });
    } catch (error) {
      this.#lose();
      throw new LostError(`the server cannot be reached: ${error}`);
    }
    // A rejected message has a JSON-RPC response.
    const isAnswer = response.headers.get("Content-Type")?.startsWith("application/json");
    if (response.ok || (response.status === 400 && isAnswer)) return response;
    // The session has ended, as after a restart, or its token is invalid.
    if (this.#session && url === this.#url && [401, 404].includes(response.status)) this.#lose();
    const text = await response.text().catch(() => "");
    throw new ConnectError(reason(text) || `the server answers ${response.status}`, response.status);
  }

  #lose() {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#unheard(new LostError("the connection was lost before the GET stream was open"));
    this.#events.lost();
  }

  /** @param {Record<string, string>} headers @returns {Record<string, string>} */
  #headers(headers) {
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    if (this.#session) headers["Mcp-Session-Id"] = this.#session;
    if (this.#revision) headers["MCP-Protocol-Version"] = this.#revision;
    return headers;
  }
}

/** Returns whether a URL has the server's origin, so that the token may be sent to it. @param {string} uri @param {URL} url */
function isDownload(uri, url) {
  return URL.canParse(uri) && new URL(uri).origin === url.origin;
}

/** Extracts the message of an error response. @param {string} text */
function reason(text) {
  try {
    const { error } = JSON.parse(text);
    return error?.data?.details ?? error?.message ?? "";
  } catch {
    return "";
  }
}
