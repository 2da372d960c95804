// @ts-check
/**
 * A client of MCP Flow for browsers, without dependencies.
 *
 *     import { connect } from "/client.js";
 *
 *     const client = await connect("http://127.0.0.1:4433");
 *     const result = await client.call("calculator.add", { a: 2, b: 3 });
 *
 * It speaks WebTransport where browser and server can, and Streamable HTTP otherwise. A connection
 * that breaks is made again by itself; `state` events tell. See `README.md` beside this file.
 */

import { HttpLink } from "./client/http.js";
import { ConnectError, LostError, RpcError, UnreachableError } from "./client/errors.js";
import { WebTransportLink } from "./client/webtransport.js";

export { ConnectError, LostError, RpcError };

/**
 * @typedef {object} ConnectOptions
 * @property {string} [token] The bearer token to come in with, where one is needed.
 * @property {("webtransport" | "http")[]} [transports] What to try, in this order.
 * @property {"push" | "inline"} [interaction] Whether questions of conversations come as `prompt`
 *   events, or in the results of one's own requests.
 * @property {("json" | "cbor")[]} [encodings] How messages may be written by WebTransport, the best
 *   first. Browsers read and write JSON faster.
 * @property {object} [capabilities] What else the client can do, such as `{ elicitation: {} }`.
 * @property {string} [name] What the client calls itself.
 * @property {string} [version]
 *
 * @typedef {object} RequestOptions
 * @property {AbortSignal} [signal] Cancels the request.
 * @property {(progress: Progress) => void} [onProgress] Hears how far it has come.
 * @property {boolean} [repeat] Whether it may be sent again if the connection breaks before its
 *   answer has come: for what changes nothing, or is safe to repeat.
 *
 * @typedef {{progress: number, total?: number, message?: string}} Progress
 * @typedef {"connecting" | "open" | "lost" | "closed"} State
 *
 * @typedef {object} Link What carries messages; see `client/http.js`.
 * @property {"webtransport" | "http"} kind
 * @property {string} cancelMethod How a request is cancelled.
 * @property {(message: any) => Promise<void>} send
 * @property {() => void} close
 * @property {(initialized: {protocolVersion: string}) => void} ready
 * @property {(requestId: number, content: any) => Promise<ReadableStream<Uint8Array> | null>} stream
 */

/**
 * Connects to a server.
 *
 * @param {string | URL} [url] Where it is; the path does not matter.
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
 * - `refused`: the token is not good any more, and the connection is closed;
 * - `prompt`: a conversation asks; `detail` is `{sessionId, prompt, progress, respond(value)}`;
 * - `complete`: a conversation is over; `detail` is `{sessionId, result, summary}`;
 * - `notification`: `detail` is `{method, params}`;
 * - `message`: every message that is sent or received; `detail` is `{sent, message}`.
 */
export class Client extends EventTarget {
  /** @type {Map<number, Pending>} */ #pending = new Map();
  /** @type {Map<string, (params: any) => any>} */ #handlers = new Map();
  /** @type {Link | null} */ #link = null;
  /** Whether WebTransport has worked before, so that no network blocks it. */ #isReachable = false;
  /** How often it has failed since. */ #failures = 0;
  /** @type {Promise<void> | null} */ #opening = null;
  #lastId = 0;
  #url;
  #options;

  /** @type {State} */ state = "connecting";
  /** @type {any} What the server said of itself. */ server = null;

  /** @param {URL} url @param {ConnectOptions} options */
  constructor(url, options) {
    super();
    this.#url = url;
    this.#options = options;
  }

  /** How messages travel at the moment. @returns {"webtransport" | "http" | null} */
  get transport() {
    return this.#link?.kind ?? null;
  }

  /** Connects, trying one transport after the other. Done by {@link connect}. */
  async open() {
    const transports = this.#options.transports ?? ["webtransport", "http"];
    /** @type {unknown} */ let problem = new ConnectError("no transport can be used");
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
        // A server that just comes back must not be met by another transport than before.
        if (error instanceof UnreachableError) break;
        if (transport === "webtransport" && this.#isReachable && ++this.#failures < 3) break;
      }
    }
    throw problem;
  }

  /**
   * Calls a tool, and gives its result.
   *
   * @param {string} name
   * @param {object} [args]
   * @param {RequestOptions} [options]
   */
  call(name, args = {}, options = {}) {
    return this.request("tools/call", { name, arguments: args }, options);
  }

  /**
   * Sends a request, and gives its result.
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
   * Starts a conversation. Its questions come as `prompt` events, its end as a `complete` event,
   * unless the client wants them inline.
   *
   * @param {string} toolName
   * @param {object} [initialParams] Answers that are known already, by their keys.
   */
  async start(toolName, initialParams = {}) {
    const begun = await this.request("interaction.start", { toolName, initialParams });
    const { sessionId, initialPrompt } = begun;
    if (initialPrompt && !begun.next) this.#prompt({ sessionId, prompt: initialPrompt });
    return begun;
  }

  /**
   * All entries of a list, such as `tools/list` with `tools`.
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

  /** Tells the server something. @param {string} method @param {object} [params] */
  async notify(method, params = {}) {
    await this.#post({ jsonrpc: "2.0", method, params });
  }

  /**
   * The bytes of content that travels beside its message: a `ref/stream` or a link to a download.
   * Gives null for content that does not.
   *
   * @param {any} result The result the content is of.
   * @param {any} content
   * @returns {Promise<ReadableStream<Uint8Array> | null>}
   */
  async stream(result, content) {
    return (await this.#link?.stream(requestIds.get(result) ?? 0, content)) ?? null;
  }

  /**
   * Answers requests of the server's, such as `elicitation/create`. What the function returns is
   * the result.
   *
   * @param {string} method
   * @param {(params: any) => any} handler
   */
  answer(method, handler) {
    this.#handlers.set(method, handler);
  }

  /** Ends the connection for good. */
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
    if (!this.#link) throw new LostError("there is no connection at the moment");
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
    this.dispatchEvent(new CustomEvent("notification", { detail: { method, params } }));
  }

  /** What comes late says less than what is known already. @param {any} params */
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

  /** Answers a request of the server's. @param {any} message */
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
        this.dispatchEvent(new CustomEvent("complete", { detail: params }));
        return {};
      default:
        throw new UnknownMethod(`this client does not know ${method}`);
    }
  }

  /** @param {any} params */
  #prompt({ sessionId, prompt, nextPrompt, progress }) {
    const asked = prompt ?? nextPrompt;
    const { turnId } = asked?.metadata ?? {};
    /** @param {any} value */
    const respond = (value) =>
      this.request(
        "interaction.respond",
        { sessionId, response: { value, turnId } },
        { repeat: true },
      );
    const detail = { sessionId, prompt: asked, progress, respond };
    const name = asked ? "prompt" : "progress";
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** The link broke: whoever waits is told, and another is made. @param {Link} link */
  #lost(link) {
    if (link !== this.#link || this.state === "closed") return;
    this.#link = null;
    const wasOpen = this.state === "open";
    if (wasOpen) {
      this.#become("lost");
      this.#opening = this.#openAgain();
    }
    this.#failAll(new LostError("the connection broke before the answer came"));
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
 * @property {number} reached The last progress that was told.
 */

/** The server asks for something that nobody here answers. */
class UnknownMethod extends Error {}

/** Which request a result answers; streams are found by that. @type {WeakMap<object, number>} */
const requestIds = new WeakMap();
