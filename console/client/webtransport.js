// @ts-check
// WebTransport: one control stream for messages, each with its length before it, and a stream of
// its own for everything large.

import * as cbor from "./cbor.js";
import { ConnectError, LostError, UnreachableError } from "./errors.js";

/** @typedef {import("./http.js").LinkEvents} LinkEvents */

export class WebTransportLink {
  kind = /** @type {const} */ ("webtransport");
  cancelMethod = "$/cancel";
  listening = Promise.resolve();
  /** Streams that came before anyone asked for them. @type {Map<string, {stream: ReadableStream<Uint8Array>, clock: any}>} */ #came = new Map();
  /** Whoever waits for a stream. @type {Map<string, Waiting>} */ #wanted = new Map();
  /** How streams that have come are ended early. @type {Map<string, (why: string) => void>} */ #running = new Map();
  /** Why streams will not come that nobody has asked for yet. @type {Map<string, string>} */ #failed = new Map();
  /** How messages are written. @type {"json" | "cbor"} */ #encoding = "json";
  /** The request whose answer says how, from then on. @type {any} */ #agreeing = null;
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
   * @param {("json" | "cbor")[]} encodings How messages may be written, the best first.
   */
  static async open(url, token, events, isReachable, encodings) {
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
    const body = this.#encoding === "cbor" ? cbor.encode(message) : encoder.encode(JSON.stringify(message));
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
    const open = [...this.#wanted.keys(), ...this.#running.keys()];
    for (const key of open) this.#fail(key, "the stream was lost with its connection");
    for (const { clock } of this.#came.values()) clearTimeout(clock);
    this.#came.clear();
    try {
      this.#session.close();
    } catch {
      // It was closed already.
    }
  }

  /**
   * Large content is a stream that the server has opened for the request. One that ends before all
   * of it has come is an error to its reader.
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
      const clock = setTimeout(() => this.#fail(key, "the stream has not come"), ARRIVAL);
      this.#wanted.set(key, { resolve, reject, clock });
    });
  }

  /** A stream will not come, or not go on. @param {string} key @param {string} why */
  #fail(key, why) {
    this.#running.get(key)?.(why);
    const wanted = this.#wanted.get(key);
    if (!wanted) return;
    clearTimeout(wanted.clock);
    this.#wanted.delete(key);
    wanted.reject(new LostError(why));
  }

  /** The server says that a stream has failed. @param {any} params */
  #streamError({ requestId, streamTag, error }) {
    const key = `${requestId}/${streamTag}`;
    const why = `the server gave up the stream: ${String(error).slice(0, LONGEST_REASON)}`;
    if (!this.#running.has(key)) {
      this.#failed.set(key, why);
      // As many as anybody may still ask for.
      for (const oldest of this.#failed.keys()) {
        if (this.#failed.size <= MOST_FAILED) break;
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

  /** What may be lost, such as progress, comes by datagrams: a channel, the request, the params. */
  async #readDatagrams() {
    const datagrams = this.#session.datagrams.readable.getReader();
    for (;;) {
      const { done, value } = await datagrams.read();
      if (done) return;
      const method = CHANNELS[Number(value[0])];
      // Flags are of a version to come.
      if (value.length < 6 || value[1] !== 0 || !method) continue;
      try {
        const params = this.#decode(value.subarray(6));
        if (params && typeof params === "object") this.#events.message({ jsonrpc: "2.0", method, params });
      } catch {
        // It makes no sense, and what may be lost may be dropped.
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
    // The reason may overtake the stream.
    if (this.#failed.has(key)) return void stream.cancel().catch(() => {});
    this.#running.set(key, fail);
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

  /**
   * Everything that is left, as a stream, and how to end it early.
   *
   * @param {() => void} ended Is told when there is no more.
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
          // The reason for a reset comes by the control stream, perhaps a moment later.
          await new Promise((resolve) => {
            settle = () => resolve(null);
            setTimeout(settle, REASON_TIME);
          });
          fail(`the stream was cut off: ${error.message ?? error}`);
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

/** Lets a stream of so many bytes through, and no other. @param {number} size */
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

/** How long the reason for a reset may take to come, in milliseconds. */
const REASON_TIME = 1000;

/** How much of a reason is shown, in characters, and how many are kept. */
const LONGEST_REASON = 4096;
const MOST_FAILED = 64;

/** How long a stream is kept for someone to ask for it, in milliseconds. */
const KEPT = 60_000;

/** Time to connect before another transport is taken, in milliseconds: UDP may be blocked. */
const CONNECT_TIMEOUT = 2500;

/** Time to connect again to a server that was reached before. */
const RECONNECT_TIMEOUT = 15_000;
