// @ts-check
// WebTransport: one control stream of length-prefixed messages, and one execution stream for each
// large content.

import * as cbor from "./cbor.js";
import { ConnectError, LostError, UnreachableError } from "./errors.js";

/** @typedef {import("./http.js").LinkEvents} LinkEvents */

export class WebTransportLink {
  kind = /** @type {const} */ ("webtransport");
  cancelMethod = "$/cancel";
  listening = Promise.resolve();
  /** Streams that arrived before they were requested. @type {Map<string, {stream: ReadableStream<Uint8Array>, clock: any}>} */ #came = new Map();
  /** Callers that wait for a stream. @type {Map<string, Waiting>} */ #wanted = new Map();
  /** Functions that abort the open streams. @type {Map<string, (why: string) => void>} */ #running = new Map();
  /** Reasons of failed streams that were not requested yet. @type {Map<string, string>} */ #failed = new Map();
  /** Current encoding. @type {"json" | "cbor"} */ #encoding = "json";
  /** Id of `initialize`, whose response sets the encoding. @type {any} */ #agreeing = null;
  #ended = false;
  #session;
  #writer;
  #events;

  /**
   * Gets the address and certificate hash from `/connect.json`, and connects.
   *
   * @param {URL} url
   * @param {string | undefined} token
   * @param {LinkEvents} events
   * @param {boolean} isReachable True if it worked before; the timeout is longer then.
   * @param {("json" | "cbor")[]} encodings Encodings, preferred first.
   */
  static async open(url, token, events, isReachable, encodings) {
    // Browsers cannot send headers when they open a session.
    if (token) throw new ConnectError("browsers cannot send a token over WebTransport");
    if (!("WebTransport" in globalThis)) throw new ConnectError("this browser does not support WebTransport");
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
    return new WebTransportLink(session, control, events, encodings);
  }

  /**
   * @param {WebTransport} session
   * @param {WebTransportBidirectionalStream} control
   * @param {LinkEvents} events
   * @param {("json" | "cbor")[]} encodings
   */
  constructor(session, control, events, encodings) {
    this.handshake = { transport: { type: "mcp-flow", version: "0.1", encodings } };
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
    if (message.method === "initialize") this.#agreeing = message.id;
    try {
      await this.#write(message);
    } catch {
      this.#lose();
      throw new LostError("the connection was lost");
    }
  }

  /** @param {any} message */
  #write(message) {
    const body = this.#encoding === "cbor" ? cbor.encode(message) : encoder.encode(JSON.stringify(message));
    const frame = new Uint8Array(4 + body.length);
    new DataView(frame.buffer).setUint32(0, body.length);
    frame.set(body, 4);
    return this.#writer.write(frame);
  }

  /** Ends the session: the server closes it once it has drained (C-20). */
  close() {
    if (this.#ended) return;
    this.#abandon();
    const told = this.#write({ jsonrpc: "2.0", method: "$/shutdown" });
    within(CLOSE_TIMEOUT, told.then(() => this.#session.closed), () => {})
      .catch(() => {})
      .finally(() => this.#closeSession());
  }

  /** Fails all streams. */
  #abandon() {
    this.#ended = true;
    const open = [...this.#wanted.keys(), ...this.#running.keys()];
    for (const key of open) this.#fail(key, "the stream was lost with its connection");
    for (const { clock } of this.#came.values()) clearTimeout(clock);
    this.#came.clear();
  }

  #closeSession() {
    try {
      this.#session.close();
    } catch {
      // Already closed.
    }
  }

  /**
   * Streams large content on the execution stream that the server opened for the request. A stream
   * that ends early fails.
   *
   * @param {number} requestId
   * @param {any} content
   * @returns {Promise<ReadableStream<Uint8Array> | null>}
   */
  async stream(requestId, content) {
    if (content?.type !== "ref/stream") return null;
    const stream = await this.#find(`${requestId}/${content.streamTag}`);
    const size = content._meta?.["mcp-flow/download"]?.size;
    return typeof size === "number" ? stream.pipeThrough(exactly(size)) : stream;
  }

  /** @param {string} key @returns {Promise<ReadableStream<Uint8Array>>} */
  async #find(key) {
    const came = this.#came.get(key);
    if (came) {
      clearTimeout(came.clock);
      this.#came.delete(key);
      return came.stream;
    }
    const failed = this.#failed.get(key);
    if (failed !== undefined) throw new LostError(failed);
    if (this.#ended) throw new LostError("the stream was lost with its connection");
    return new Promise((resolve, reject) => {
      const clock = setTimeout(() => this.#fail(key, "the stream did not arrive in time"), ARRIVAL);
      this.#wanted.set(key, { resolve, reject, clock });
    });
  }

  /** Fails a stream, whether it has arrived or not. @param {string} key @param {string} why */
  #fail(key, why) {
    this.#running.get(key)?.(why);
    const wanted = this.#wanted.get(key);
    if (!wanted) return;
    clearTimeout(wanted.clock);
    this.#wanted.delete(key);
    wanted.reject(new LostError(why));
  }

  /** Handles `$/streamError`. @param {any} params */
  #streamError({ requestId, streamTag, error }) {
    const key = `${requestId}/${streamTag}`;
    const why = `the server aborted the stream: ${String(error).slice(0, LONGEST_REASON)}`;
    if (!this.#running.has(key)) {
      this.#failed.set(key, why);
      // Bounded: the oldest are dropped.
      for (const oldest of this.#failed.keys()) {
        if (this.#failed.size <= MAX_FAILED) break;
        this.#failed.delete(oldest);
      }
    }
    this.#fail(key, why);
  }

  /** @param {ReadableStream<Uint8Array>} readable */
  async #readMessages(readable) {
    const source = new Source(readable);
    for (;;) {
      const head = await source.take(4);
      if (!head) return;
      const body = await source.take(view(head).getUint32(0));
      if (!body) return;
      const message = this.#decode(body);
      if (message.method === "$/streamError") this.#streamError(message.params ?? {});
      if (this.#agreeing !== null && message.id === this.#agreeing && message.method === undefined) {
        this.#agreeing = null;
        if (message.result?.transport?.encoding === "cbor") this.#encoding = "cbor";
      }
      this.#events.message(message);
    }
  }

  /** @param {Uint8Array} bytes @returns {any} */
  #decode(bytes) {
    return this.#encoding === "cbor" ? cbor.decode(bytes) : JSON.parse(decoder.decode(bytes));
  }

  /** Reads datagrams (progress, log messages): channel, flags, request id, params. */
  async #readDatagrams() {
    const datagrams = this.#session.datagrams.readable.getReader();
    for (;;) {
      const { done, value } = await datagrams.read();
      if (done) return;
      const method = CHANNELS[Number(value[0])];
      // Flags are reserved.
      if (value.length < 6 || value[1] !== 0 || !method) continue;
      try {
        const params = this.#decode(value.subarray(6));
        if (params && typeof params === "object") this.#events.message({ jsonrpc: "2.0", method, params });
      } catch {
        // Invalid datagrams are dropped.
      }
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
    const { stream, fail } = source.rest(() => this.#running.delete(key));
    // `$/streamError` may arrive before the stream.
    if (this.#ended || this.#failed.has(key)) return void stream.cancel().catch(() => {});
    this.#running.set(key, fail);
    if (wanted) {
      clearTimeout(wanted.clock);
      this.#wanted.delete(key);
      return wanted.resolve(stream);
    }
    // An unread stream takes flow control credit from the others.
    const forget = () => {
      this.#came.delete(key);
      stream.cancel().catch(() => {});
    };
    this.#came.set(key, { stream, clock: setTimeout(forget, KEPT) });
  }

  #lose() {
    if (this.#ended) return;
    this.#abandon();
    this.#closeSession();
    this.#events.lost();
  }
}

/** @typedef {{resolve: (stream: ReadableStream<Uint8Array>) => void, reject: (error: Error) => void, clock: any}} Waiting */

/** Reads exact numbers of bytes from a stream. */
class Source {
  /** @type {Uint8Array} */ #rest = new Uint8Array();
  #reader;

  /** @param {ReadableStream<Uint8Array>} readable */
  constructor(readable) {
    this.#reader = readable.getReader();
  }

  /** Reads `length` bytes; null at the end of the stream. @param {number} length */
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

  /**
   * The remaining bytes as a stream, and a function that aborts it.
   *
   * @param {() => void} ended Called at the end of the stream.
   * @returns {{stream: ReadableStream<Uint8Array>, fail: (why: string) => void}}
   */
  rest(ended) {
    const [first, reader] = [this.#rest, this.#reader];
    /** @type {any} */ let controller;
    let isOver = false;
    let settle = () => {};
    /** @param {string} why */
    const fail = (why) => {
      if (isOver) return;
      isOver = true;
      ended();
      controller.error(new LostError(why));
      reader.cancel().catch(() => {});
      settle();
    };
    const stream = new ReadableStream({
      start(given) {
        controller = given;
        if (first.length > 0) controller.enqueue(first);
      },
      async pull() {
        const next = await reader.read().catch(async (error) => {
          // The reason for a reset arrives on the control stream, perhaps later.
          await new Promise((resolve) => {
            settle = () => resolve(null);
            setTimeout(settle, REASON_TIME);
          });
          fail(`the stream was reset: ${error.message ?? error}`);
        });
        if (isOver || !next) return;
        if (next.value) return controller.enqueue(next.value);
        isOver = true;
        ended();
        controller.close();
      },
      cancel(reason) {
        isOver = true;
        ended();
        return reader.cancel(reason);
      },
    });
    return { stream, fail };
  }
}

/** Fails a stream that does not have exactly `size` bytes. @param {number} size */
function exactly(size) {
  let done = 0;
  return new TransformStream({
    transform(piece, controller) {
      done += piece.length;
      controller.enqueue(piece);
    },
    flush() {
      if (done !== size) throw new LostError(`the stream ended after ${done} of ${size} bytes`);
    },
  });
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
      reject(new ConnectError("WebTransport timed out"));
      giveUp();
    }, limit);
  });
  try {
    return await Promise.race([promise, /** @type {Promise<any>} */ (late)]);
  } finally {
    clearTimeout(clock);
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

/** Notifications sent as datagrams, by channel. @type {Record<number, string>} */
const CHANNELS = { 1: "notifications/progress", 3: "notifications/message" };

/** Timeout for the arrival of a stream that a result names, in milliseconds. */
const ARRIVAL = 10_000;

/** Time to wait for the reason of a reset, in milliseconds. */
const REASON_TIME = 1000;

/** Maximum length of a reason, in characters, and maximum number of stored reasons. */
const LONGEST_REASON = 4096;
const MAX_FAILED = 64;

/** Time for which an unrequested stream is kept, in milliseconds. */
const KEPT = 60_000;

/** Connect timeout before the next transport is tried, in milliseconds: UDP may be blocked. */
const CONNECT_TIMEOUT = 2500;

/** Time for the server to close the session, in milliseconds. */
const CLOSE_TIMEOUT = 1000;

/** Connect timeout for a server that was reached before. */
const RECONNECT_TIMEOUT = 15_000;
