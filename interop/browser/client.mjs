// Opens a WebTransport session in Chromium and prints a report of the page as one line of JSON.
//
// usage: client.mjs HTTP-URL WEBTRANSPORT-URL CERTIFICATE-HASH FILE
//
// The page is one of the server's own origin, so that nothing has to be allowed for it. FILE is one
// in the directory that the server reads, and too large for a message.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { chromium } from "playwright-core";

const [page_url, url, certificate, file] = process.argv.slice(2);

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium" }).catch((cause) => {
  throw new Error("Chromium does not start; run interop/install first", { cause });
});
try {
  const page = await browser.newPage();
  // It has to come from the server: a page made up here would be of no address, and Chromium lets
  // such a page reach none of this machine's.
  await page.goto(new URL("healthz", page_url).href);
  const report = await page.evaluate(visit, { url, certificate, file: basename(file) });
  const whole = createHash("sha256").update(await readFile(file)).digest("hex");
  report.download.isWhole = report.download.sha256 === whole;
  console.log(JSON.stringify(report));
} finally {
  await browser.close();
}

// Runs in the page, so it can use nothing of this file.
async function visit({ url, certificate, file }) {
  const value = Uint8Array.from(certificate.match(/../g), (byte) => parseInt(byte, 16));
  const hash = (algorithm, value) => ({ serverCertificateHashes: [{ algorithm, value }] });
  const report = { progress: [] };

  const other = new WebTransport(url, hash("sha-256", value.map((byte) => byte ^ 1)));
  const judged = other.ready.then(
    () => "accepted",
    () => "refused",
  );
  report.otherCertificate = await within("another certificate to be judged", judged);
  other.closed.catch(() => {});

  const session = new WebTransport(url, hash("sha-256", value));
  // One that is not read in time is dropped when there are more, and a busy machine reads late.
  session.datagrams.incomingHighWaterMark = 100;
  await within("the session", session.ready);
  const control = await within("a stream", session.createBidirectionalStream());
  const writer = control.writable.getWriter();
  const replies = new Map();
  const notices = [];
  const received = receive(control.readable);

  const transport = { type: "mcp-flow", version: "0.1", encodings: ["json"] };
  const clientInfo = { name: "chromium", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo, transport };
  report.transport = (await ask("initialize", params)).result.transport;
  send({ method: "notifications/initialized" });
  report.tools = (await ask("tools/list", {})).result.tools.map((tool) => tool.name);

  const streams = session.incomingUnidirectionalStreams.getReader();
  const call = ask("tools/call", { name: "read_file", arguments: { path: file } });
  const { value: incoming } = await within("a stream of the server", streams.read());
  const stream = await within("all of the file", download(incoming));
  const [item] = (await call).result.content;
  report.download = { ...stream, item, answered: (await call).id };

  const datagrams = session.datagrams.readable.getReader();
  const values = collect(datagrams);
  const token = { _meta: { progressToken: "t" } };
  const slept = await ask("tools/call", { name: "sleep", arguments: { ms: 500 }, ...token });
  report.slept = { id: slept.id, text: slept.result.content[0].text };
  report.lastProgress = notices.map(({ method, params }) => [method, params?.progress]);

  send({ method: "$/shutdown" });
  // A busy browser may see the connection end before it has read why.
  const closed = session.closed.then(
    ({ closeCode, reason }) => ({ closeCode, reason }),
    ({ message }) => ({ lost: message }),
  );
  report.closed = await within("the end of the session", closed);
  await within("the end of what is received", Promise.all([values, received]));
  return report;

  // Fails if something takes longer than it could on any machine that is still of use.
  function within(what, promise) {
    const late = new Promise((_, reject) => {
      setTimeout(() => reject(new Error(`waited a minute for ${what}`)), 60_000);
    });
    return Promise.race([promise, late]);
  }

  function send(message) {
    const body = new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", ...message }));
    const frame = new Uint8Array(4 + body.length);
    new DataView(frame.buffer).setUint32(0, body.length);
    frame.set(body, 4);
    writer.write(frame).catch(() => {});
  }

  function ask(method, params) {
    const id = (ask.number = (ask.number ?? 0) + 1);
    const reply = new Promise((resolve) => replies.set(id, resolve));
    send({ id, method, params });
    return within(`the answer to ${method}`, reply);
  }

  async function receive(readable) {
    let rest = new Uint8Array();
    for await (const chunk of ended(readable)) {
      rest = joined(rest, chunk);
      while (rest.length >= 4) {
        const length = new DataView(rest.buffer).getUint32(0);
        if (rest.length < 4 + length) break;
        const message = JSON.parse(new TextDecoder().decode(rest.subarray(4, 4 + length)));
        rest = rest.slice(4 + length);
        if (message.method) notices.push(message);
        else replies.get(message.id)(message);
      }
    }
  }

  async function download(readable) {
    let all = new Uint8Array();
    for await (const chunk of readable) all = joined(all, chunk);
    const header = new DataView(all.buffer);
    const payload = all.slice(8);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", payload));
    const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const [request, tag] = [header.getUint32(0), header.getUint32(4)];
    return { request, tag, bytes: payload.length, sha256 };
  }

  async function collect(reader) {
    for (;;) {
      const { value, done } = await reader.read().catch(() => ({ done: true }));
      if (done) return;
      const [channel, flags] = value;
      const request = new DataView(value.buffer, value.byteOffset).getUint32(2);
      const { progress } = JSON.parse(new TextDecoder().decode(value.subarray(6)));
      // The server may also log how the path is.
      if (channel === 1) report.progress.push({ flags, request, progress });
    }
  }

  // When the session closes, a stream ends with an error, and that is an end like another.
  async function* ended(readable) {
    const reader = readable.getReader();
    for (;;) {
      const { value, done } = await reader.read().catch(() => ({ done: true }));
      if (done) return;
      yield value;
    }
  }

  function joined(first, second) {
    const both = new Uint8Array(first.length + second.length);
    both.set(first);
    both.set(second, first.length);
    return both;
  }
}
