// @ts-check
/**
 * MCP client for browsers, without dependencies.
 *
 *     import { connect } from "/client.js";
 *
 *     const client = await connect("http://127.0.0.1:4433");
 *     const result = await client.call("calculator.add", { a: 2, b: 3 });
 *
 * Uses WebTransport if browser and server support it, and Streamable HTTP otherwise. Reconnects
 * automatically and reports that by `state` events. See `README.md` in this directory.
 */

import { HttpLink } from "./client/http.js";
import { ConnectError, LostError, RpcError, UnreachableError } from "./client/errors.js";
import { WebTransportLink } from "./client/webtransport.js";

export { ConnectError, LostError, RpcError };

/**
 * @typedef {object} ConnectOptions
 * @property {string} [token] Bearer token.
 * @property {("webtransport" | "http")[]} [transports] Transports to try, in order.
 * @property {"push" | "inline"} [interaction] Delivery of session prompts: as `prompt` events, or in
 *   the results of requests.
 * @property {("json" | "cbor")[]} [encodings] Encodings for WebTransport, preferred first. Browsers
 *   handle JSON faster.
 * @property {object} [capabilities] Further client capabilities, such as `{ elicitation: {} }`.
 * @property {string} [name] Name of the client.
 * @property {string} [version]
 *
 * @typedef {object} RequestOptions
 * @property {AbortSignal} [signal] Cancels the request.
 * @property {(progress: Progress) => void} [onProgress] Receives progress notifications.
 * @property {boolean} [repeat] Send it again if the connection is lost before the response; for
 *   idempotent requests.
 *
 * @typedef {{progress: number, total?: number, message?: string}} Progress
 * @typedef {"connecting" | "open" | "lost" | "closed"} State
 *
 * @typedef {object} Link Transport of messages; see `client/http.js`.
 * @property {"webtransport" | "http"} kind
 * @property {string} cancelMethod Notification that cancels a request.
 * @property {(message: any) => Promise<void>} send
 * @property {() => void} close
 * @property {(initialized: {protocolVersion: string}) => void} ready
 * @property {(requestId: number, content: any) => Promise<ReadableStream<Uint8Array> | null>} stream
 */

/**
 * Connects to a server.
 *
 * @param {string | URL} [url] URL of the server; its path is ignored.
 * @param {ConnectOptions} [options]
 * @returns {Promise<Client>}
 */
export async function connect(url = location.origin, options = {}) {
  const client = new Client(new URL("/", url), options);
  await client.open();
  return client;
}

/**
 * A connection to a server. Events:
 *
 * - `state`: `detail` is the new {@link State};
 * - `refused`: the token was rejected, and the connection is closed;
 * - `prompt`: a session asks; `detail` is `{sessionId, prompt, progress, respond(value)}`;
 * - `complete`: a session has completed; `detail` is `{sessionId, result, summary}`;
 * - `expired`: a session has expired; `detail` is `{sessionId, expiredAt, limit}`, with `limit`
 *   `"inactivity"` or `"duration"`;
 * - `notification`: `detail` is `{method, params}`;
 * - `message`: every message that is sent or received; `detail` is `{sent, message}`.
 */
export class Client extends EventTarget {
  /** @type {Map<number, Pending>} */ #pending = new Map();
  /** @type {Map<string, (params: any) => any>} */ #handlers = new Map();
  /** Sessions with an open prompt. @type {Map<string, OpenSession>} */ #sessions = new Map();
  /** @type {Link | null} */ #link = null;
  /** True once WebTransport has worked, so that the network does not block it. */ #isReachable = false;
  /** Failures of WebTransport since. */ #failures = 0;
  /** @type {Promise<void> | null} */ #opening = null;
  #lastId = 0;
  #url;
  #options;

  /** @type {State} */ state = "connecting";
  /** @type {any} Result of `initialize`. */ server = null;

  /** @param {URL} url @param {ConnectOptions} options */
  constructor(url, options) {
    super();
    this.#url = url;
    this.#options = options;
  }

  /** Current transport. @returns {"webtransport" | "http" | null} */
  get transport() {
    return this.#link?.kind ?? null;
  }

  /** Connects, trying the transports in order. Called by {@link connect}. */
  async open() {
    const transports = this.#options.transports ?? ["webtransport", "http"];
    /** @type {unknown} */ let problem = new ConnectError("no transport is available");
    for (const transport of transports) {
      try {
        await this.#openBy(transport);
        if (this.state === "closed") throw new LostError("the connection was closed");
        this.#failures = 0;
        return this.#become("open");
      } catch (error) {
        problem = error;
        this.#link?.close();
        this.#link = null;
        if (this.state === "closed") break;
        if (error instanceof ConnectError && error.status === 401) break;
        // A server that is restarting must not switch the client to another transport.
        if (error instanceof UnreachableError) break;
        if (transport === "webtransport" && this.#isReachable && ++this.#failures < 3) break;
      }
    }
    throw problem;
  }

  /**
   * Calls a tool and returns its result.
   *
   * @param {string} name
   * @param {object} [args]
   * @param {RequestOptions} [options]
   */
  call(name, args = {}, options = {}) {
    return this.request("tools/call", { name, arguments: args }, options);
  }

  /**
   * Sends a request and returns its result.
   *
   * @param {string} method
   * @param {object} [params]
   * @param {RequestOptions} [options]
   * @returns {Promise<any>}
   */
  async request(method, params = {}, options = {}) {
    for (;;) {
      await this.#opening;
      try {
        return await this.#send(method, params, options);
      } catch (error) {
        const again = options.repeat && error instanceof LostError && !options.signal?.aborted;
        if (!again || this.state === "closed") throw error;
      }
    }
  }

  /**
   * Starts a session of a flow. Its prompts arrive as `prompt` events, its result as a `complete`
   * event, unless delivery is inline.
   *
   * @param {string} toolName
   * @param {object} [initialParams] Answers in advance, by key.
   */
  async start(toolName, initialParams = {}) {
    const begun = await this.request("interaction.start", { toolName, initialParams });
    const { sessionId, initialPrompt } = begun;
    if (initialPrompt && !begun.next) this.#prompt({ sessionId, prompt: initialPrompt });
    return begun;
  }

  /**
   * Lists all entries of a paginated method, such as `tools/list` with `tools`.
   *
   * @param {string} method
   * @param {string} member
   * @returns {Promise<any[]>}
   */
  async list(method, member) {
    const all = [];
    /** @type {string | undefined} */ let cursor;
    do {
      const page = await this.request(method, cursor ? { cursor } : {}, { repeat: true });
      all.push(...page[member]);
      cursor = page.nextCursor;
    } while (cursor);
    return all;
  }

  /** Sends a notification. @param {string} method @param {object} [params] */
  async notify(method, params = {}) {
    await this.#post({ jsonrpc: "2.0", method, params });
  }

  /**
   * Streams large content: a `ref/stream` or a link to a download. Returns null for other content.
   *
   * @param {any} result The result that has the content.
   * @param {any} content
   * @returns {Promise<ReadableStream<Uint8Array> | null>}
   */
  async stream(result, content) {
    return (await this.#link?.stream(requestIds.get(result) ?? 0, content)) ?? null;
  }

  /**
   * Sets the handler for a request of the server, such as `elicitation/create`. It returns the
   * result.
   *
   * @param {string} method
   * @param {(params: any) => any} handler
   */
  answer(method, handler) {
    this.#handlers.set(method, handler);
  }

  /** Closes the connection; the client does not reconnect. */
  close() {
    this.#become("closed");
    this.#link?.close();
    this.#link = null;
    this.#failAll(new LostError("the connection was closed"));
  }

  /** @param {"webtransport" | "http"} transport */
  async #openBy(transport) {
    const events = {
      /** @param {any} message */
      message: (message) => this.#receive(message),
      lost: () => this.#lost(link),
    };
    const { token, encodings = ["json", "cbor"] } = this.#options;
    const link =
      transport === "webtransport"
        ? await WebTransportLink.open(this.#url, token, events, this.#isReachable, encodings)
        : new HttpLink(this.#url, token, events);
    this.#link = link;
    this.#isReachable ||= transport === "webtransport";
    const { interaction = "push", capabilities = {} } = this.#options;
    const { name = "mcp-flow-browser", version = "0.1.0" } = this.#options;
    const experimental = interaction === "inline" ? { interaction: { delivery: "inline" } } : {};
    this.server = await this.#send("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: { ...capabilities, experimental },
      clientInfo: { name, version },
      ...link.handshake,
    });
    link.ready(this.server);
    await this.notify("notifications/initialized");
    await link.listening;
  }

  /** @param {string} method @param {any} params @param {RequestOptions} [options] */
  #send(method, params, { signal, onProgress } = {}) {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const id = ++this.#lastId;
    if (onProgress) params = { ...params, _meta: { ...params._meta, progressToken: id } };
    const answer = new Promise((resolve, reject) => {
      const cancel = () => {
        this.#pending.delete(id);
        reject(signal?.reason);
        const reason = String(signal?.reason?.message ?? signal?.reason ?? "no longer wanted");
        this.notify(this.#link?.cancelMethod ?? "notifications/cancelled", { requestId: id, reason }).catch(() => {});
      };
      signal?.addEventListener("abort", cancel, { once: true });
      const done = () => signal?.removeEventListener("abort", cancel);
      this.#pending.set(id, { resolve, reject, done, onProgress, reached: -Infinity });
    });
    this.#post({ jsonrpc: "2.0", id, method, params }).catch((error) => {
      this.#settle(id, (pending) => pending.reject(error));
    });
    return answer;
  }

  /** @param {any} message */
  async #post(message) {
    if (!this.#link) throw new LostError("not connected");
    this.dispatchEvent(new CustomEvent("message", { detail: { sent: true, message } }));
    await this.#link.send(message);
  }

  /** @param {any} message */
  #receive(message) {
    this.dispatchEvent(new CustomEvent("message", { detail: { sent: false, message } }));
    if (message.method === undefined) return this.#answered(message);
    if (message.id !== undefined) return void this.#asked(message);
    const { method, params } = message;
    if (method === "notifications/progress") this.#progress(params);
    if (method === "interaction.expired") this.#expired(params ?? {});
    this.dispatchEvent(new CustomEvent("notification", { detail: { method, params } }));
  }

  /** Handles progress; reports that do not increase are dropped. @param {any} params */
  #progress(params) {
    const pending = this.#pending.get(params?.progressToken);
    if (!pending || !(params.progress > pending.reached)) return;
    pending.reached = params.progress;
    pending.onProgress?.(params);
  }

  /** @param {any} message */
  #answered({ id, result, error }) {
    this.#settle(id, (pending) => {
      if (error) return pending.reject(new RpcError(error));
      if (typeof result === "object" && result !== null) requestIds.set(result, id);
      pending.resolve(result);
    });
  }

  /** @param {number} id @param {(pending: Pending) => void} settle */
  #settle(id, settle) {
    const pending = this.#pending.get(id);
    if (!pending) return;
    this.#pending.delete(id);
    pending.done();
    settle(pending);
  }

  /** Answers a request of the server. @param {any} message */
  async #asked({ id, method, params }) {
    /** @type {any} */ let outcome;
    try {
      outcome = { result: (await this.#handle(method, params)) ?? {} };
    } catch (error) {
      const code = error instanceof UnknownMethod ? -32601 : -32603;
      outcome = { error: { code, message: String(/** @type {any} */ (error)?.message ?? error) } };
    }
    await this.#post({ jsonrpc: "2.0", id, ...outcome }).catch(() => {});
  }

  /** @param {string} method @param {any} params */
  #handle(method, params) {
    const handler = this.#handlers.get(method);
    if (handler) return handler(params);
    switch (method) {
      case "ping":
        return {};
      case "interaction.prompt":
      case "interaction.continue":
        this.#prompt(params);
        return {};
      case "interaction.complete":
        this.#end(params?.sessionId, new Error("the session has completed"));
        this.dispatchEvent(new CustomEvent("complete", { detail: params }));
        return {};
      default:
        throw new UnknownMethod(`unknown method ${method}`);
    }
  }

  /** @param {any} params */
  #prompt({ sessionId, prompt, nextPrompt, progress }) {
    const asked = prompt ?? nextPrompt;
    const { turnId } = asked?.metadata ?? {};
    const session = this.#sessions.get(sessionId) ?? { prompt: asked, end: null };
    if (asked) this.#sessions.set(sessionId, Object.assign(session, { prompt: asked }));
    /** @param {any} value */
    const respond = async (value) => {
      if (session.end) throw session.end;
      if (!isSamePrompt(session.prompt, asked)) throw new Error("the question was superseded by another one");
      const params = { sessionId, response: { value, turnId } };
      return this.request("interaction.respond", params, { repeat: true });
    };
    const detail = { sessionId, prompt: asked, progress, respond };
    const name = asked ? "prompt" : "progress";
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** @param {any} params */
  #expired({ sessionId, expiredAt, limit }) {
    const data = { domain: "interaction", name: "SESSION_EXPIRED", sessionId, limit };
    this.#end(sessionId, new RpcError({ code: -32002, message: `Session expired: ${sessionId}`, data }));
    this.dispatchEvent(new CustomEvent("expired", { detail: { sessionId, expiredAt, limit } }));
  }

  /** Rejects later answers to a session's prompts. @param {string} sessionId @param {Error} error */
  #end(sessionId, error) {
    const session = this.#sessions.get(sessionId);
    if (!session) return;
    session.end = error;
    this.#sessions.delete(sessionId);
  }

  /** Fails pending requests and reconnects. @param {Link} link */
  #lost(link) {
    if (link !== this.#link || this.state === "closed") return;
    this.#link = null;
    const wasOpen = this.state === "open";
    if (wasOpen) {
      this.#become("lost");
      this.#opening = this.#openAgain();
    }
    this.#failAll(new LostError("the connection was lost before the response"));
  }

  async #openAgain() {
    for (let pause = 100; this.state === "lost"; pause = Math.min(pause * 1.6, 3000)) {
      await new Promise((resolve) => setTimeout(resolve, pause * (0.75 + Math.random() / 2)));
      if (/** @type {State} */ (this.state) === "closed") break;
      try {
        await this.open();
        break;
      } catch (error) {
        if (error instanceof ConnectError && error.status === 401) {
          this.dispatchEvent(new Event("refused"));
          return this.close();
        }
      }
    }
    this.#opening = null;
  }

  /** @param {Error} error */
  #failAll(error) {
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { done, reject } of pending) {
      done();
      reject(error);
    }
  }

  /** @param {State} state */
  #become(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}

/**
 * @typedef {object} Pending
 * @property {(result: any) => void} resolve
 * @property {(error: any) => void} reject
 * @property {() => void} done
 * @property {((progress: Progress) => void) | undefined} onProgress
 * @property {number} reached Last reported progress.
 */

/** @typedef {{prompt: any, end: Error | null}} OpenSession The newest prompt, and why there are no more. */

/**
 * Returns whether a prompt asks the same question: after a rejection the server repeats it with the same
 * turn.
 *
 * @param {any} newest
 * @param {any} prompt
 */
function isSamePrompt(newest, prompt) {
  const [turn, other] = [newest?.metadata?.turnId, prompt?.metadata?.turnId];
  return turn === undefined && other === undefined ? newest?.message === prompt?.message : turn === other;
}

/** A request of the server without a handler. */
class UnknownMethod extends Error {}

/** Request id of each result, by which streams are found. @type {WeakMap<object, number>} */
const requestIds = new WeakMap();
