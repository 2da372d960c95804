// Failing streams, cancelled requests and CBOR messages, with the client library for pages.

import assert from "node:assert/strict";
import { closeSync, ftruncateSync, openSync } from "node:fs";
import { join } from "node:path";
import { decode, encode } from "../../../console/client/cbor.js";
import { blank, browse, folder, main, open, serve, until, within } from "./harness.mjs";

/** A sparse file, too large to be read in time. */
const ENDLESS = 2 ** 40;

await main(async () => {
  codec();
  const files = folder();
  const server = await serve({ args: ["--store", "memory:", "--diagnostics", "--root", files] });
  const browser = await browse();
  const page = await blank(browser);
  await page.goto(server.url);
  for (const [transports, encodings] of [
    [["webtransport"], ["json", "cbor"]],
    [["webtransport"], ["cbor", "json"]],
    [["http"], []],
  ]) {
    const chosen = await page.evaluate(speak, { transports, encodings });
    assert.equal(chosen, transports[0] === "http" ? undefined : encodings[0]);
    const told = await page.evaluate(use);
    assert.equal(told.sum, "5");
    assert.ok(told.progress > 0, "progress is told");
    assert.equal(told.cancelled, transports[0] === "http" ? "notifications/cancelled" : "$/cancel");

    const file = openSync(join(files, "endless.bin"), "w");
    ftruncateSync(file, ENDLESS);
    const first = await within("the first piece", page.evaluate(begin));
    assert.ok(first > 0);
    ftruncateSync(file, 0);
    const failure = await within("the stream to fail", page.evaluate(finish));
    if (transports[0] === "webtransport") assert.match(failure, /truncated: it ended after \d+ of 1099511627776 bytes/);
    assert.notEqual(failure, "", "a part is not taken for the whole");
    closeSync(file);
    const last = await page.evaluate(leave);
    if (transports[0] === "webtransport") assert.match(last, /\$\/shutdown/);
  }

  // The same in the console: the reason is shown, and there is nothing to save.
  const file = openSync(join(files, "endless.bin"), "w");
  ftruncateSync(file, ENDLESS);
  const shown = await open(browser, server, { path: "tools/read_file" });
  await shown.getByLabel(/^path/).fill("endless.bin");
  await shown.getByRole("button", { name: "Call" }).click();
  await shown.locator(".download", { hasText: "endless.bin" }).waitFor();
  await until(shown, "the download to begin", () => / at .*\/s/.test(document.querySelector(".download .numbers")?.textContent ?? ""));
  ftruncateSync(file, 0);
  await shown.locator('.download[data-state="failed"]', { hasText: "truncated" }).waitFor();
  assert.equal(await shown.getByRole("button", { name: /^Save / }).count(), 0);
  closeSync(file);
});

/** WT-036: values are the same in CBOR as in JSON, and invalid bytes are refused. */
function codec() {
  const whole = [0, 23, 24, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER];
  const numbers = [...whole, ...whole.map((number) => -number - 1), 0.1, -1.5, 1e300];
  const texts = ["", "a", "x".repeat(23), "x".repeat(24), "é".repeat(12), "😀".repeat(12), "日本".repeat(40_000)];
  const others = [true, false, null, [], {}, { a: { b: [1, null, "c"] }, "": 1 }, JSON.parse('{"__proto__": {"x": 1}}')];
  for (const value of [...numbers.filter((number) => !Object.is(number, -0)), ...texts, ...others]) {
    assert.deepStrictEqual(decode(encode(value)), JSON.parse(JSON.stringify(value)));
  }
  const said = { c: [undefined, NaN], a: undefined, b: () => 1 };
  assert.deepStrictEqual(decode(encode(said)), JSON.parse(JSON.stringify(said)));
  const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  for (const [hex, value] of [
    ["f93c00", 1],
    ["f90001", 2 ** -24],
    ["fa47c35000", 100_000],
    ["9f0102ff", [1, 2]],
    ["bf616101ff", { a: 1 }],
    ["7f657374726561646d696e67ff", "streaming"],
    ["f7", null],
  ]) {
    assert.deepStrictEqual(decode(bytes(hex)), value, hex);
  }
  const bad = ["", "ff", "18", "61", "62c3", "61ff", "9f01", "4101", "c001", "a10101", "1c", "7f7f6161ffff", "f8ff", "0000"];
  const huge = ["9bffffffffffffffff", "bbffffffffffffffff", "7bffffffffffffffff", "81".repeat(200) + "00", "9f".repeat(200)];
  for (const hex of [...bad, ...huge]) assert.throws(() => decode(bytes(hex)), Error, hex);
}

/** Connects, and returns the negotiated encoding. */
async function speak(options) {
  const { connect } = await import("/client.js");
  globalThis.client?.close();
  globalThis.client = await connect(location.origin, options);
  return client.server.transport?.encoding;
}

/** Calls a tool, and cancels another; returns the result and the cancel message. */
async function use() {
  const { content } = await client.call("calculator.add", { a: 2, b: 3 });
  const ending = new AbortController();
  let progress = 0;
  const sent = new Promise((resolve) => {
    client.addEventListener("message", ({ detail: { sent, message } }) => {
      if (sent && message.params?.requestId !== undefined) resolve(message.method);
    });
  });
  const onProgress = (told) => {
    progress = told.progress;
    ending.abort();
  };
  await client.call("sleep", { ms: 60_000 }, { signal: ending.signal, onProgress }).catch(() => {});
  return { sum: content[0].text, progress, cancelled: await sent };
}

/** Starts reading a large file. */
async function begin() {
  const result = await client.call("read_file", { path: "endless.bin" });
  const stream = await client.stream(result, result.content[0]);
  globalThis.reader = stream.getReader();
  return (await reader.read()).value.length;
}

/** Closes the client, and returns what it writes then. */
async function leave() {
  const texts = [];
  const write = WritableStreamDefaultWriter.prototype.write;
  WritableStreamDefaultWriter.prototype.write = function (bytes) {
    texts.push(new TextDecoder().decode(bytes));
    return write.call(this, bytes);
  };
  client.close();
  WritableStreamDefaultWriter.prototype.write = write;
  return texts.join();
}

/** Reads to the end, and returns why it was truncated; nothing if it looks complete. */
async function finish() {
  try {
    for (;;) if ((await reader.read()).done) return "";
  } catch (error) {
    return String(error.message);
  }
}
