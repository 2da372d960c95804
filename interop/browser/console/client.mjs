// The client of `console/client.js` against a fake WebTransport session, without a browser.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "../../../console/client.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A server that answers `initialize` and hands every other request to `handle`. */
class FakeServer {
  handle = (/** @type {any} */ _message) => {};
  #toClient;
  #streams;

  constructor() {
    const [control, toClient] = pipe();
    const [incoming, streams] = pipe();
    [this.#toClient, this.#streams] = [toClient, streams];
    const server = this;
    globalThis.fetch = async () => ({ json: async () => ({ webtransport: { url: "/mcp" } }) });
    globalThis.WebTransport = class {
      ready = Promise.resolve();
      closed = new Promise(() => {});
      incomingUnidirectionalStreams = incoming;
      datagrams = { readable: new ReadableStream() };
      close() {}
      async createBidirectionalStream() {
        const writable = new WritableStream({ write: (frame) => server.#receive(JSON.parse(decoder.decode(frame.subarray(4)))) });
        return { readable: control, writable };
      }
    };
  }

  #receive(message) {
    if (message.method !== "initialize") return this.handle(message);
    this.send({ id: message.id, result: { protocolVersion: "2025-11-25", capabilities: {} } });
  }

  send(message) {
    const body = encoder.encode(JSON.stringify({ jsonrpc: "2.0", ...message }));
    const frame = new Uint8Array(4 + body.length);
    new DataView(frame.buffer).setUint32(0, body.length);
    frame.set(body, 4);
    this.#toClient.enqueue(frame);
  }

  /** Opens an execution stream, and gives its controller. */
  open(requestId, tag) {
    const [stream, controller] = pipe();
    const head = new Uint8Array(8);
    new DataView(head.buffer).setUint32(0, requestId);
    new DataView(head.buffer).setUint32(4, tag);
    controller.enqueue(head);
    this.#streams.enqueue(stream);
    return controller;
  }
}

function pipe() {
  let controller;
  const stream = new ReadableStream({ start: (given) => void (controller = given) });
  return [stream, controller];
}

async function start() {
  const server = new FakeServer();
  const client = await connect("http://server.example", { transports: ["webtransport"] });
  return { server, client };
}

const event = (client, name) => new Promise((resolve) => client.addEventListener(name, ({ detail }) => resolve(detail), { once: true }));

function prompt(turnId, message) {
  return { sessionId: "s", prompt: { type: "text", message, metadata: turnId === undefined ? {} : { turnId } } };
}

await expiry();
await superseded();
for (const order of ["error first", "reply first", "stream first"]) await streamError(order);
// A connection that is still open would keep the process alive.
process.exit(0);

/** `interaction.expired` is an event with the reason, and ends the wait of whoever answers. */
async function expiry() {
  const { server, client } = await start();
  const asked = event(client, "prompt");
  server.send({ id: "p", method: "interaction.prompt", params: prompt(0, "Name?") });
  const { respond } = await asked;
  const expired = event(client, "expired");
  server.send({ method: "interaction.expired", params: { sessionId: "s", expiredAt: 1000, limit: "inactivity" } });
  assert.deepEqual(await expired, { sessionId: "s", expiredAt: 1000, limit: "inactivity" });
  server.handle = () => assert.fail("nothing is sent for an expired session");
  await assert.rejects(respond("Ada"), ({ code, data }) => code === -32002 && data.limit === "inactivity");
}

/** An answer goes to the prompt it was given for, or nowhere. */
async function superseded() {
  for (const [first, second] of [[0, 1], [undefined, undefined]]) {
    const { server, client } = await start();
    const responses = [];
    server.handle = ({ id, method, params }) => {
      if (method !== "interaction.respond") return;
      responses.push(params.response.turnId);
      server.send({ id, result: { accepted: false, validation: { error: "too short" } } });
    };
    let asked = event(client, "prompt");
    server.send({ id: "a", method: "interaction.prompt", params: prompt(first, "Name?") });
    const name = await asked;
    await name.respond("A");
    // A prompt that repeats the rejected question leaves it open.
    asked = event(client, "prompt");
    server.send({ id: "b", method: "interaction.prompt", params: prompt(first, "Name?") });
    await asked;
    await name.respond("Ada");
    asked = event(client, "prompt");
    server.send({ id: "c", method: "interaction.prompt", params: prompt(second, "Age?") });
    const age = await asked;
    await assert.rejects(name.respond("Ada L."), /superseded/);
    await age.respond("36");
    assert.deepEqual(responses, [first, first, second]);
  }
}

/** WT-049: the reason reaches the reader, whichever comes first: `$/streamError`, the reply, the stream. */
async function streamError(order) {
  const { server, client } = await start();
  server.handle = async ({ id, method }) => {
    if (method !== "tools/call") return;
    const failed = { method: "$/streamError", params: { requestId: id, streamTag: 7, error: "the disk failed" } };
    const reply = { id, result: { content: [{ type: "ref/stream", streamTag: 7 }] } };
    if (order === "stream first") {
      server.open(id, 7);
      await sleep(10);
    }
    server.send(order === "error first" ? failed : reply);
    await sleep(10);
    server.send(order === "error first" ? reply : failed);
  };
  const result = await client.call("read_file");
  const read = async () => (await client.stream(result, result.content[0])).getReader().read();
  await assert.rejects(read(), /the disk failed/, order);
}
