// @ts-check
// WebTransport: one control stream for messages, each with its length before it, and a stream of
// its own for everything large.

import { ConnectError, LostError, UnreachableError } from "./errors.js";

/** @typedef {import("./http.js").LinkEvents} LinkEvents */

export class WebTransportLink {
  kind = /** @type {const} */ ("webtransport");
  handshake = { transport: { type: "mcp-flow", version: "0.1", encodings: ["json"] } };
  listening = Promise.resolve();
  /** Streams that came before anyone asked for them. @type {Map<string, {stream: ReadableStream<Uint8Array>, clock: any}>} */ #came = new Map();
  /** Whoever waits for a stream. @type {Map<string, Waiting>} */ #wanted = new Map();
  #ended = false;
  #session;
  #writer;
  #events;

  /**
   * Finds out from the server where and with which certificate, and connects.
   *
   * @param {URL} url
   * @param {string | undefined} token
   * @param {LinkEvents} events
   * @param {boolean} isReachable Whether it worked before: then it is worth waiting for.
   */
  static async open(url, token, events, isReachable) {
    // Browsers cannot send one when they open a session.
    if (token) throw new ConnectError("a token cannot be sent by WebTransport");
    if (!("WebTransport" in globalThis)) throw new ConnectError("no WebTransport in this browser");
    const response = await fetch(new URL("/connect.json", url)).catch(() => null);
    if (!response) throw new UnreachableError("the server cannot be reached");
    const told = await response.json().catch(() => null);
    if (!told?.webtransport) throw new ConnectError("the server does not offer WebTransport");
    const { url: address, certificateHashes = [] } = told.webtransport;
    const place = new URL(address, url);
    place.protocol = "https:";
    const session = new WebTransport(place.href, {
      serverCertificateHashes: certificateHashes.map((/** @type {string} */ hash) => ({
        algorithm: "sha-256",
        value: bytesOf(hash),
      })),
    });
    session.closed.catch(() => {});
    await within(isReachable ? RECONNECT_TIMEOUT : CONNECT_TIMEOUT, session.ready, () => session.close());
    const control = await session.createBidirectionalStream();
    return new WebTransportLink(session, control, events);
  }

  /**
   * @param {WebTransport} session
   * @param {WebTransportBidirectionalStream} control
   * @param {LinkEvents} events
   */
  constructor(session, control, events) {
    this.#session = session;
    this.#writer = control.writable.getWriter();
    this.#events = events;
    this.#readMessages(control.readable).then(
      () => this.#lose(),
      () => this.#lose(),
    );
    this.#acceptStreams().catch(() => {});
    this.#readDatagrams().catch(() => {});
    session.closed.then(
      () => this.#lose(),
      () => this.#lose(),
    );
  }

  ready() {}

  /** @param {any} message */
  async send(message) {
    const body = encoder.encode(JSON.stringify(message));
    const frame = new Uint8Array(4 + body.length);
    new DataView(frame.buffer).setUint32(0, body.length);
    frame.set(body, 4);
    try {
      await this.#writer.write(frame);
    } catch {
      this.#lose();
      throw new LostError("the connection broke");
    }
  }

  close() {
    this.#ended = true;
    for (const key of [...this.#wanted.keys()]) this.#fail(key, "the stream was lost with its connection");
    for (const { clock } of this.#came.values()) clearTimeout(clock);
    this.#came.clear();
    try {
      this.#session.close();
    } catch {
      // It was closed already.
    }
  }

  /**
   * Large content is a stream that the server has opened for the request.
   *
   * @param {number} requestId
   * @param {any} content
   * @returns {Promise<ReadableStream<Uint8Array> | null>}
   */
  async stream(requestId, content) {
    if (content?.type !== "ref/stream") return null;
    const key = `${requestId}/${content.streamTag}`;
    const came = this.#came.get(key);
    if (came) {
      clearTimeout(came.clock);
      this.#came.delete(key);
      return came.stream;
    }
    if (this.#ended) throw new LostError("the stream was lost with its connection");
    return new Promise((resolve, reject) => {
      const clock = setTimeout(() => this.#fail(key, "the stream has not come"), ARRIVAL);
      this.#wanted.set(key, { resolve, reject, clock });
    });
  }

  /** A stream that somebody waits for will not come. @param {string} key @param {string} why */
  #fail(key, why) {
    const wanted = this.#wanted.get(key);
    if (!wanted) return;
    clearTimeout(wanted.clock);
    this.#wanted.delete(key);
    wanted.reject(new LostError(why));
  }

  /** @param {ReadableStream<Uint8Array>} readable */
  async #readMessages(readable) {
    const source = new Source(readable);
    for (;;) {
      const head = await source.take(4);
      if (!head) return;
      const body = await source.take(view(head).getUint32(0));
      if (!body) return;
      const message = JSON.parse(decoder.decode(body));
      if (message.method === "$/streamError") {
        const { requestId, streamTag, error } = message.params ?? {};
        this.#fail(`${requestId}/${streamTag}`, String(error));
      }
      this.#events.message(message);
    }
  }

  /** What may be lost, such as progress, comes by datagrams: a channel, the request, the params. */
  async #readDatagrams() {
    const datagrams = this.#session.datagrams.readable.getReader();
    for (;;) {
      const { done, value } = await datagrams.read();
      if (done) return;
      const method = CHANNELS[Number(value[0])];
      // Flags are of a version to come.
      if (value.length < 6 || value[1] !== 0 || !method) continue;
      const params = parsed(value.subarray(6));
      if (params && typeof params === "object") this.#events.message({ jsonrpc: "2.0", method, params });
    }
  }

  async #acceptStreams() {
    const streams = this.#session.incomingUnidirectionalStreams.getReader();
    for (;;) {
      const { done, value } = await streams.read();
      if (done) return;
      this.#accept(value).catch(() => {});
    }
  }

  /** @param {ReadableStream<Uint8Array>} readable */
  async #accept(readable) {
    const source = new Source(readable);
    const head = await source.take(8);
    if (!head) return;
    const key = `${view(head).getUint32(0)}/${view(head).getUint32(4)}`;
    const wanted = this.#wanted.get(key);
    const stream = source.rest();
    if (wanted) {
      clearTimeout(wanted.clock);
      this.#wanted.delete(key);
      return wanted.resolve(stream);
    }
    // One that nobody reads holds up the others.
    const forget = () => {
      this.#came.delete(key);
      stream.cancel().catch(() => {});
    };
    this.#came.set(key, { stream, clock: setTimeout(forget, KEPT) });
  }

  #lose() {
    if (this.#ended) return;
    this.close();
    this.#events.lost();
  }
}

/** @typedef {{resolve: (stream: ReadableStream<Uint8Array>) => void, reject: (error: Error) => void, clock: any}} Waiting */

/** Bytes that are taken in the lengths one wants. */
class Source {
  /** @type {Uint8Array} */ #rest = new Uint8Array();
  #reader;

  /** @param {ReadableStream<Uint8Array>} readable */
  constructor(readable) {
    this.#reader = readable.getReader();
  }

  /** So many bytes, or null if there are no more. @param {number} length */
  async take(length) {
    /** @type {Uint8Array[]} */ const pieces = [];
    let missing = length;
    while (missing > 0) {
      if (this.#rest.length === 0) {
        const { done, value } = await this.#reader.read();
        if (done) return null;
        this.#rest = value;
      }
      const piece = this.#rest.subarray(0, missing);
      this.#rest = this.#rest.subarray(piece.length);
      missing -= piece.length;
      if (piece.length === length) return piece;
      pieces.push(piece);
    }
    const whole = new Uint8Array(length);
    let place = 0;
    for (const piece of pieces) {
      whole.set(piece, place);
      place += piece.length;
    }
    return whole;
  }

  /** Everything that is left, as a stream. @returns {ReadableStream<Uint8Array>} */
  rest() {
    const [first, reader] = [this.#rest, this.#reader];
    return new ReadableStream({
      start(controller) {
        if (first.length > 0) controller.enqueue(first);
      },
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    });
  }
}

/**
 * @template T
 * @param {number} limit
 * @param {Promise<T>} promise
 * @param {() => void} giveUp
 * @returns {Promise<T>}
 */
async function within(limit, promise, giveUp) {
  /** @type {any} */ let clock;
  const late = new Promise((_, reject) => {
    clock = setTimeout(() => {
      reject(new ConnectError("WebTransport does not answer"));
      giveUp();
    }, limit);
  });
  try {
    return await Promise.race([promise, /** @type {Promise<any>} */ (late)]);
  } finally {
    clearTimeout(clock);
  }
}

/** @param {Uint8Array} bytes @returns {any} */
function parsed(bytes) {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    return null;
  }
}

/** @param {string} hex */
function bytesOf(hex) {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** @param {Uint8Array} bytes */
function view(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** What comes by datagrams. @type {Record<number, string>} */
const CHANNELS = { 1: "notifications/progress", 3: "notifications/message" };

/** How long a stream may take to come after it is named, in milliseconds. */
const ARRIVAL = 10_000;

/** How long a stream is kept for someone to ask for it, in milliseconds. */
const KEPT = 60_000;

/** Time to connect before another transport is taken, in milliseconds: UDP may be blocked. */
const CONNECT_TIMEOUT = 2500;

/** Time to connect again to a server that was reached before. */
const RECONNECT_TIMEOUT = 15_000;
