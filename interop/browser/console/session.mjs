// A whole session with an invalid answer, in two windows; every prompt type; and a server that is
// killed in the middle and restarted.

import assert from "node:assert/strict";
import { join } from "node:path";
import { answer, blank, browse, connected, folder, go, main, open, serve } from "./harness.mjs";

await main(async () => {
  const store = `redb:${join(folder(), "journal.redb")}`;
  const server = await serve({ args: ["--store", store, "--diagnostics"] });
  const browser = await browse();
  const page = await open(browser, server, { path: "sessions" });
  await wrongAnswer(browser, server, page);
  await everyKind(page);
  await signalled(page);
  await cancelled(page);
  await recordings(page);
  const again = await killed(server, page, store);
  await withoutWebTransport(browser, again);
  await example(browser, again);
  assert.deepEqual(page.complaints, []);
});

async function begin(page, flow) {
  await go(page, "sessions");
  await page.getByRole("button", { name: "New session" }).click();
  await page.getByRole("menuitem", { name: flow }).click();
  await page.locator(".ask").waitFor();
}

/** An answer in one window is shown in the other without polling. */
async function wrongAnswer(browser, server, page) {
  await begin(page, "register");
  // Over HTTP, so that its requests can be observed.
  const other = await open(browser, server, { path: new URL(page.url()).hash.slice(2), query: "?transport=http" });
  await other.locator(".ask").waitFor();
  const asked = watch(other);
  await answer(page, /name/i, "Ada Lovelace");
  await page.getByLabel(/mail/i).fill("not an address");
  await page.getByRole("button", { name: "Answer" }).click();
  await page.locator(".field-problem", { hasText: /\S/ }).waitFor();
  await other.locator(".said.answered", { hasText: "Ada Lovelace" }).waitFor();
  await stepThrough(page);
  await answer(other, /mail/i, "ada@example.org");
  for (const window of [page, other]) await window.locator(".tomb", { hasText: "ada@example.org" }).waitFor();
  assert.ok(asked().includes("interaction.respond"), "what is sent is seen");
  assert.deepEqual(asked().filter((method) => method === "interaction.list" || method === "admin/sessions"), [], "nothing is polled");
  assert.deepEqual(other.complaints, []);
  await other.context().close();
}

/** The journal is shown event by event, with the data at each. */
async function stepThrough(page) {
  await page.getByRole("button", { name: "Step through" }).click();
  const panel = page.getByRole("region", { name: "History, step by step" });
  await panel.getByRole("heading", { name: /: (asked|rejected) email$/ }).waitFor();
  await panel.getByText("Ada Lovelace").first().waitFor();
  await panel.getByRole("slider", { name: "Step" }).fill("1");
  await panel.getByRole("heading", { name: /^1 of \d+: started register$/ }).waitFor();
  assert.equal(await panel.getByText("Ada Lovelace").count(), 0, "there was no answer then");
  await panel.getByRole("button", { name: "Next" }).click();
  await panel.getByRole("heading", { name: /^2 of \d+: began$/ }).waitFor();
  await page.getByRole("button", { name: "Step through" }).click();
  await panel.waitFor({ state: "hidden" });
}

/** The methods a page sends from now on. */
function watch(page) {
  const methods = [];
  page.on("request", (request) => {
    if (request.method() === "POST") methods.push(request.postDataJSON()?.method);
  });
  return () => methods;
}

/** A flow that waits for a signal gets it from the console; one of the wrong type is rejected. */
async function signalled(page) {
  await begin(page, "order");
  await answer(page, /who/i, "Ada");
  const value = page.getByRole("textbox", { name: "Value" });
  await value.fill('"much"');
  await page.getByRole("button", { name: "Send signal" }).click();
  await page.locator(".field-problem", { hasText: /\S/ }).waitFor();
  await page.getByRole("button", { name: "Revoke links" }).click();
  await page.getByRole("button", { name: "Revoke links" }).waitFor({ state: "hidden" });
  await value.fill("20");
  await page.getByRole("button", { name: "Send signal" }).click();
  await page.locator(".tomb", { hasText: "Shipped to Ada" }).waitFor();
}

async function everyKind(page) {
  await begin(page, "all_prompts");
  await answer(page, /word/i, "UPPER");
  await page.locator(".field-problem", { hasText: /Expected: / }).waitFor();
  await answer(page, /word/i, "lower");
  await page.getByLabel("Option B").check();
  await page.getByRole("button", { name: "Answer" }).click();
  await page.getByRole("button", { name: "Yes" }).click();
  await answer(page, /amount/i, "1001");
  await page.locator(".field-problem", { hasText: "1000" }).waitFor();
  await answer(page, /amount/i, "12.5");
  await answer(page, /date/i, "2031-02-03");
  await page.getByLabel(/file/i).setInputFiles({ name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("hello") });
  await page.getByRole("button", { name: "Answer" }).click();
  await page.getByLabel(/^x/).fill("1.5");
  await page.getByLabel(/^y/).fill("-2");
  await page.getByRole("button", { name: "Answer" }).click();
  await page.locator(".tomb", { hasText: "a.txt: 5 bytes" }).waitFor();
}

async function cancelled(page) {
  await begin(page, "register");
  await page.getByRole("button", { name: "Cancel session" }).click();
  await page.locator(".tomb", { hasText: /cancelled/ }).waitFor();
}

/** Recordings are opened and compared without a session on the server. */
async function recordings(page) {
  const cassette = (name, ...calls) => {
    const lines = calls.flatMap(([tool, result], id) => [
      { at: 10 * id, from: "client", message: { id, method: "tools/call", params: { name: tool } } },
      { at: 10 * id + 5, from: "server", message: { id, result } },
    ]);
    const buffer = Buffer.from([{ cassette: 1 }, ...lines].map((line) => `${JSON.stringify(line)}\n`).join(""));
    return { name, mimeType: "application/jsonl", buffer };
  };
  await go(page, "sessions");
  await page.getByRole("button", { name: "Open a recording" }).click();
  const panel = page.getByRole("region", { name: "History from a file" });
  const opening = panel.getByLabel("Open an exported history or a recording", { exact: true });
  await opening.setInputFiles({ name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("my notes") });
  await panel.getByText("neither an exported history nor a recording").waitFor();
  await opening.setInputFiles(cassette("a.jsonl", ["one", 1], ["two", 2], ["three", 3]));
  await panel.getByRole("heading", { name: "3 of 3: tools/call three" }).waitFor();
  // One step more in the middle is one difference, not all that follow.
  const comparing = panel.getByLabel("Compare with an exported history or a recording");
  await comparing.setInputFiles(cassette("b.jsonl", ["one", 1], ["new", 0], ["two", 9], ["three", 3]));
  await panel.getByRole("row").first().waitFor();
  assert.deepEqual(await panel.getByRole("row").allInnerTexts(), ["+\t2\ttools/call new\t0", "~\t2\ttools/call two\t2 / 9"]);
  await comparing.setInputFiles(cassette("c.jsonl", ["one", 1], ["two", 2], ["three", 3]));
  await panel.getByText("No difference").waitFor();
  assert.deepEqual(await page.evaluate(traffic), ["start", "start", "0", "0", "1", "1"]);
}

/** The exchange that caused each step of a session whose calls follow each other at once. Runs in the page. */
async function traffic() {
  const { causes, stepsOf } = await import("/views/history.js");
  const kinds = ["started", "asked", "rejected", "answered", "answered", "ended"];
  const steps = stepsOf({ entries: kinds.map((kind) => ({ event: { [kind]: { at: 1000 } } })) });
  const respond = (turnId) => ({ method: "interaction.respond", params: JSON.stringify({ response: { turnId } }) });
  const exchanges = [{ method: "interaction.start", params: "{}" }, respond(0), respond(1)];
  const names = ["start", "0", "1"];
  return steps.map((step) => names.filter((_, index) => causes({ ...exchanges[index], at: 1001, time: 2 }, step)).join());
}

/** The prompt stays, and the answer goes to the restarted server. */
async function killed(server, page, store) {
  await begin(page, "book_trip");
  await answer(page, "Where to?", "Oslo");
  await page.getByLabel("Which day?").waitFor();
  await server.stop("SIGKILL");
  await page.waitForSelector('.status[data-state="lost"]');
  const later = new Date(Date.now() + 5 * 86_400_000).toISOString().slice(0, 10);
  await page.getByLabel("Which day?").fill(later);
  await page.getByRole("button", { name: "Answer" }).click();
  const again = await serve({ port: server.port, args: ["--store", store] });
  await connected(page);
  await answer(page, "How many go?", "2");
  await page.getByLabel(/Night train/).check();
  await page.getByRole("button", { name: "Answer" }).click();
  await page.getByRole("button", { name: "Yes" }).click();
  await page.locator(".tomb", { hasText: "Booked as" }).waitFor();
  return again;
}

/** Without WebTransport everything works the same over HTTP. */
async function withoutWebTransport(browser, server) {
  const page = await open(browser, server, { path: "sessions", query: "?transport=http" });
  assert.equal(await page.locator(".status").getAttribute("data-transport"), "http");
  await begin(page, "register");
  await answer(page, /name/i, "Grace Hopper");
  await answer(page, /mail/i, "grace@example.org");
  await page.locator(".tomb", { hasText: "grace@example.org" }).waitFor();
}

/** The example page runs a session with the client library alone. */
async function example(browser, server) {
  const page = await blank(browser);
  const said = [];
  page.on("dialog", (dialog) => {
    said.push(dialog.message());
    dialog.accept(/mail/i.test(dialog.message()) ? "grace@example.org" : "Grace Hopper");
  });
  await page.goto(`${server.url}example.html`);
  await page.getByText("2 + 3 = 5").waitFor();
  await page.getByText("grace@example.org").waitFor();
  assert.equal(said.length, 2, said.join());
}
