// @ts-check
// The console's end of the connection to an app: JSON-RPC over a port, as the apps extension
// (SEP-1865) defines it. Everything an app sends is hostile: it is copied as JSON, bounded, and
// checked against what the app may do.

/**
 * @typedef {object} Host What an app may ask of the console.
 * @property {() => any} context
 * @property {any} capabilities
 * @property {(name: string, args: object) => Promise<any>} callTool
 * @property {(uri: string) => Promise<any>} readResource
 * @property {(url: string) => Promise<void>} openLink
 * @property {(content: any[]) => Promise<void>} message
 * @property {(context: {content?: any[], structuredContent?: any}) => Promise<void>} updateContext
 * @property {(contents: any[]) => Promise<void>} download
 * @property {(mode: string) => string} displayMode
 * @property {(size: {width?: number, height?: number}) => void} resize
 * @property {(entry: {level: string, text: string}) => void} log
 * @property {() => void} initialized
 * @property {() => void} close
 */

/** An error that the app is told. */
export class AppError extends Error {
  /** @param {string} message @param {number} [code] */
  constructor(message, code = -32000) {
    super(message);
    this.code = code;
  }
}

/** Version of the extension. */
const VERSION = "2026-01-26";

/** Limits on what an app sends. */
const MOST = { characters: 1024 * 1024, open: 16, perSecond: 200, log: 4_000 };

export class Bridge {
  /** @type {MessagePort} */ #port;
  /** @type {Host} */ #host;
  #isInitialized = false;
  /** Requests of the app that are being answered. */ #open = 0;
  #second = 0;
  #seen = 0;
  #lastId = 0;
  /** Requests to the app. @type {Map<number, () => void>} */ #asked = new Map();
  /** Messages rejected so far. */ rejected = 0;

  /** @param {MessagePort} port @param {Host} host */
  constructor(port, host) {
    this.#port = port;
    this.#host = host;
    port.onmessage = ({ data }) => this.#receive(data);
  }

  /** Sends a notification; before the app is ready there is none to hear it. @param {string} method @param {object} params */
  notify(method, params) {
    if (this.#isInitialized) this.#send({ method, params });
  }

  /** Asks the app to end, and waits for that a little. */
  async end() {
    if (this.#isInitialized) {
      const id = ++this.#lastId;
      const answered = new Promise((resolve) => this.#asked.set(id, () => resolve(undefined)));
      this.#send({ id, method: "ui/resource-teardown", params: { reason: "closed" } });
      await Promise.race([answered, new Promise((resolve) => setTimeout(resolve, 1000))]);
    }
    this.#port.close();
  }

  /** @param {object} message */
  #send(message) {
    this.#port.postMessage({ jsonrpc: "2.0", ...message });
  }

  /** @param {unknown} data */
  #receive(data) {
    const message = this.#read(data);
    if (!message) return void this.rejected++;
    const { id, method, params } = message;
    if (method === undefined) return void this.#asked.get(id)?.();
    if (id === undefined) return this.#heard(method, params);
    this.#answer(id, method, params);
  }

  /** A message, if it is one. @param {unknown} data @returns {any} */
  #read(data) {
    if (!this.#hasRoom()) return null;
    let message;
    try {
      const text = JSON.stringify(data);
      if (text.length > MOST.characters) return null;
      message = JSON.parse(text);
    } catch {
      return null;
    }
    if (message?.jsonrpc !== "2.0") return null;
    const { id, method, params } = message;
    const isId = id === undefined || Number.isSafeInteger(id) || (typeof id === "string" && id.length <= 256);
    if (!isId || (method === undefined ? id === undefined : typeof method !== "string" || method.length > 128)) return null;
    if (params !== undefined && (typeof params !== "object" || params === null || Array.isArray(params))) return null;
    return { id, method, params: params ?? {} };
  }

  /** Counts messages; more than so many in a second are dropped. */
  #hasRoom() {
    const second = Math.floor(performance.now() / 1000);
    if (second !== this.#second) [this.#second, this.#seen] = [second, 0];
    return ++this.#seen <= MOST.perSecond;
  }

  /** @param {string} method @param {any} params */
  #heard(method, params) {
    switch (method) {
      case "ui/notifications/initialized":
        if (this.#isInitialized) return;
        this.#isInitialized = true;
        return this.#host.initialized();
      case "ui/notifications/size-changed":
        return this.#host.resize(params);
      case "ui/notifications/request-teardown":
        return this.#host.close();
      case "notifications/message": {
        const text = typeof params.data === "string" ? params.data : JSON.stringify(params.data ?? null);
        return this.#host.log({ level: String(params.level ?? "info").slice(0, 16), text: text.slice(0, MOST.log) });
      }
    }
  }

  /** @param {string | number} id @param {string} method @param {any} params */
  async #answer(id, method, params) {
    if (this.#open >= MOST.open) {
      return this.#send({ id, error: { code: -32000, message: `No more than ${MOST.open} requests at once.` } });
    }
    this.#open++;
    try {
      this.#send({ id, result: (await this.#do(method, params)) ?? {} });
    } catch (error) {
      const { code = -32603, message = String(error), data } = /** @type {any} */ (error ?? {});
      this.#send({ id, error: { code: Number.isInteger(code) ? code : -32603, message: String(message), ...(data === undefined ? {} : { data }) } });
    } finally {
      this.#open--;
    }
  }

  /** @param {string} method @param {any} params @returns {Promise<any>} */
  async #do(method, params) {
    if (method === "ping") return {};
    if (method === "ui/initialize") {
      return { protocolVersion: VERSION, hostInfo: { name: "mcp-flow-console", version: "0.1.0" }, hostCapabilities: this.#host.capabilities, hostContext: this.#host.context() };
    }
    if (!this.#isInitialized) throw new AppError("Send ui/notifications/initialized first.");
    switch (method) {
      case "tools/call":
        return this.#host.callTool(text(params.name, "name"), object(params.arguments ?? {}, "arguments"));
      case "resources/read":
        return this.#host.readResource(text(params.uri, "uri"));
      case "ui/open-link":
        return this.#host.openLink(webAddress(params.url));
      case "ui/message":
        return this.#host.message(blocks(params.content));
      case "ui/update-model-context":
        return this.#host.updateContext({ content: blocks(params.content ?? []), structuredContent: params.structuredContent });
      case "ui/download-file":
        return this.#host.download(blocks(params.contents));
      case "ui/request-display-mode":
        return { mode: this.#host.displayMode(text(params.mode, "mode")) };
      default:
        throw new AppError(`The host does not serve ${method.slice(0, 128)}.`, -32601);
    }
  }
}

/** @param {unknown} value @param {string} name */
function text(value, name) {
  if (typeof value !== "string" || value.length === 0 || value.length > 4096) throw new AppError(`${name} must be a text.`, -32602);
  return value;
}

/** @param {unknown} value @param {string} name @returns {any} */
function object(value, name) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new AppError(`${name} must be an object.`, -32602);
  return value;
}

/** Content blocks; one block counts as a list of one. @param {unknown} value @returns {any[]} */
function blocks(value) {
  const list = Array.isArray(value) ? value : [value];
  if (list.length > 64) throw new AppError("content has too many blocks.", -32602);
  return list.map((one) => object(one, "content"));
}

/** A URL of the web. @param {unknown} value */
export function webAddress(value) {
  const address = typeof value === "string" && value.length <= 2048 ? URL.parse(value) : null;
  if (!address || !/^https?:$/.test(address.protocol) || address.username || address.password) throw new AppError("url must be an http or https URL.", -32602);
  return address.href;
}
