// Apps of other servers in the console: the official example, and apps that attack their host.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { resolve as resolveTool } from "../../../console/lib/app/tools.js";
import { accessible, browse, folder, go, LIMIT, main, open, serve, shots, until, within } from "./harness.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const EXAMPLE = join(here, "../../servers/node_modules/@modelcontextprotocol/server-basic-vanillajs/dist/index.js");

/** Runs apps of the attacking server, and reads what they report. */
class Attacks {
  #page;
  #log;
  #read = 0;

  constructor(page, log) {
    this.#page = page;
    this.#log = log;
  }

  /** Opens an app by its tool; returns its report and the tools called since, or until `end`. */
  async run(name, end) {
    await go(this.#page, `tools/attack.${name}`);
    await this.#page.getByRole("button", { name: "Call", exact: true }).click();
    const lines = () => (existsSync(this.#log) ? readFileSync(this.#log, "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line)).slice(this.#read) : []);
    const report = () => lines().find((line) => line.told);
    if (end) await end();
    else await within(`the report of ${name}`, this.#until(report));
    const [told, calls] = [report()?.told, lines().map((line) => line.name)];
    this.#read += lines().length;
    return { told, calls };
  }

  async #until(holds) {
    const late = performance.now() + LIMIT;
    while (!holds() && performance.now() < late) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** The page is where it was, connected, and of use. */
  async unharmed() {
    const page = this.#page;
    assert.match(page.url(), /^http:\/\/127\.0\.0\.1:\d+\/\?transport=http#/);
    assert.equal(await page.evaluate(() => globalThis.harmed), undefined);
    await go(page, "tools/calculator.add");
    await page.getByLabel(/^a/).fill("2");
    await page.getByLabel(/^b/).fill("3");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".result .plain", { hasText: "5" }).waitFor();
  }
}

await main(async () => {
  resolution();
  const files = folder();
  const evil = await listen();
  const log = join(files, "calls");
  const node = process.execPath;
  const attack = { command: node, args: [join(here, "app-server.mjs"), evil.url, log] };
  const servers = { example: { command: node, args: [EXAMPLE, "--stdio"] }, attack, other: attack };
  const gateway = join(files, "servers.json");
  writeFileSync(gateway, JSON.stringify({ mcpServers: servers }));
  const server = await serve({ args: ["--store", "memory:", "--gateway", gateway] });
  const browser = await browse();
  await policies(server);
  const page = await open(browser, server, { query: "?transport=http" });
  await example(page, () => shrink(browser, server));
  // The example does not catch that the link was refused.
  assert.deepEqual(page.complaints.filter((one) => !one.includes("The user refused to open the link")), []);
  // From here on the browser says what it has blocked.
  page.on("dialog", (dialog) => {
    page.complaints.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await icons(page);
  const attacks = new Attacks(page, log);
  await escape(page, attacks);
  await forge(page, attacks);
  await permission(page, attacks);
  await external(page, attacks);
  await flood(page, attacks);
  assert.deepEqual(evil.hits, [], "nothing reached another server");
  assert.deepEqual(page.complaints.filter((one) => one.startsWith("a dialog")), []);
  assert.equal(page.context().pages().length, 1, "no window was opened");
});

/** An app finds the tools of its server, whatever their names, and those of no other. */
function resolution() {
  const of = (upstream, name) => ({ name, ...(upstream ? { _meta: { "mcp-flow/upstream": upstream } } : {}) });
  const tools = [of("", "weather.show"), of("", "refresh"), of("one", "one.show"), of("one", "one.deep.refresh"), of("one", "one.refresh"), of("two", "two.refresh"), of("two", "two.one.show")];
  for (const [opener, name, expected] of [
    ["weather.show", "refresh", "refresh"],
    ["refresh", "weather.show", "weather.show"],
    ["weather.show", "one.refresh", undefined],
    ["one.show", "refresh", "one.refresh"],
    ["one.show", "one.refresh", "one.refresh"],
    ["one.show", "deep.refresh", "one.deep.refresh"],
    ["one.show", "two.refresh", undefined],
    ["one.show", "weather.show", undefined],
    ["two.refresh", "one.show", "two.one.show"],
  ]) {
    const found = resolveTool(tools, name, tools.find((one) => one.name === opener));
    assert.equal(found?.name, expected, `${opener}: ${name}`);
  }
}

/** The frame of apps has a policy of its own, and is nobody's but the console's. */
async function policies(server) {
  const policy = async (path) => (await within(`the page ${path}`, fetch(new URL(path, server.url)))).headers.get("content-security-policy");
  const frame = await policy("app-frame.html");
  for (const part of ["sandbox allow-scripts allow-forms;", "default-src 'none'", "frame-ancestors 'self'", "form-action 'none'"]) assert.ok(frame.includes(part), frame);
  assert.ok(!frame.includes("allow-same-origin") && !frame.includes("eval"), frame);
  const console_ = await policy("");
  assert.ok(console_.includes("frame-src 'self'") && !console_.includes("unsafe"), console_);
}

/** Icons are shown if they are part of the definition; those at other addresses are not fetched. */
async function icons(page) {
  await go(page, "tools/attack.change");
  const icon = page.locator(".detail-head .picked-icon");
  await icon.waitFor();
  assert.match(await icon.getAttribute("src"), /^data:image\/svg\+xml,/);
  await until(page, "the icon to be drawn", () => document.querySelector(".detail-head .picked-icon").naturalWidth > 0);
  await go(page, "tools/attack.secret");
  await page.locator(".detail-head .mono, .detail-head h2", { hasText: "attack.secret" }).first().waitFor();
  assert.equal(await icon.count(), 0);
  assert.equal(await page.evaluate(() => globalThis.harmed), undefined);
}

/** Another user makes the attacking server offer one tool less. */
async function shrink(browser, server) {
  const page = await open(browser, server, { query: "?transport=http" });
  await go(page, "tools/attack.shrink");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.locator(".result").waitFor();
  await page.close();
}

/** The official example: shows the result of its tool, calls it again, logs, sends a message, opens a link. */
async function example(page, change) {
  await go(page, "tools/example.get-time");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  const app = inner(page);
  const time = app.locator("#server-time");
  const shown = async () => (await time.textContent())?.trim() ?? "";
  const result = page.locator(".structured");
  await result.waitFor();
  // The list of tools changes, and what is shown of this one stays.
  const text = await result.textContent();
  await change();
  await page.locator(".pick-list", { hasText: "attack.spare" }).waitFor({ state: "hidden" });
  assert.equal(await result.textContent(), text);
  await app.getByText(/\d{4}-\d\d-\d\dT/).first().waitFor();
  const first = await shown();
  await app.getByRole("button", { name: /get server time/i }).click();
  await within("the app to show another time", (async () => {
    while ((await shown()) === first) await new Promise((resolve) => setTimeout(resolve, 20));
  })());
  await page.locator(".app-activity li", { hasText: "Called example.get-time" }).waitFor();
  await app.getByRole("button", { name: /send message/i }).click();
  await page.locator(".app-activity li.message").waitFor();
  await app.getByRole("button", { name: /send log/i }).click();
  await page.locator(".app-activity li", { hasText: /^info: / }).waitFor();
  await app.getByRole("button", { name: /open link/i }).click();
  await page.getByRole("dialog", { name: "Open this link?" }).waitFor();
  await page.getByRole("button", { name: "Refuse" }).click();
  // It was told its size, and the frame follows it.
  await until(page, "the frame to have the height of the app", () => Number.parseInt(document.querySelector(".app-place").style.blockSize) > 48);
  await accessible(page, "an app");
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, "app.png"), fullPage: true });
  await page.getByRole("button", { name: "Full screen" }).click();
  await page.getByRole("button", { name: "Leave full screen" }).click();
  await page.getByRole("button", { name: "Close app" }).click();
  await page.getByText("The app is closed.").waitFor();
  // Without a call: from the list of resources.
  await go(page, `resources/${encodeURIComponent("ui://get-time/mcp-app.html")}`);
  await page.getByRole("button", { name: "Open app" }).click();
  await inner(page).getByRole("button", { name: /get server time/i }).click();
  await page.getByRole("dialog", { name: /^Let the app call/ }).getByRole("button", { name: "Allow once" }).click();
  await page.locator(".app-activity li", { hasText: "Called example.get-time" }).waitFor();
}

/** Navigation, windows, dialogs, storage, the network. */
async function escape(page, attacks) {
  const { told } = await attacks.run("escape");
  for (const name of ["topNavigation", "topHref", "parentNavigation", "topDocument", "parentDocument", "storage", "cookie"]) assert.match(told[name], /^blocked/, name);
  for (const name of ["fetch", "image", "script", "ownScript"]) assert.equal(told[name], "blocked", name);
  assert.deepEqual([told.popup, told.dialog, told.origin], ["nothing", "nothing", "null"]);
  assert.match(told.eval, /^blocked/);
  await attacks.unharmed();
}

/** Forged and malformed messages, and calls of tools that the app does not see. */
async function forge(page, attacks) {
  const running = attacks.run("forge");
  // Another script of the same window has no say either.
  await page.locator(".app-frame").waitFor();
  await page.evaluate(() => {
    for (const method of ["tools/call", "ui/notifications/sandbox-proxy-ready"]) window.postMessage({ jsonrpc: "2.0", id: 1, method, params: { name: "attack.secret", arguments: {} } }, "*");
  });
  const { told, calls } = await running;
  assert.deepEqual(told, {
    early: -32000,
    modelOnly: -32602,
    otherServer: -32602,
    ownServer: -32602,
    unknown: -32602,
    badArguments: -32602,
    unnamed: -32602,
    admin: -32601,
    list: -32601,
    interaction: -32601,
    sampling: -32601,
    script: -32602,
    file: -32602,
    mode: "inline",
    ping: "allowed",
  });
  assert.deepEqual(calls.filter((name) => name === "secret" || name === "change"), []);
  await page.locator(".app-activity li", { hasText: "Rejected: the tool secret is not visible to the app" }).waitFor();
  await page.locator(".app-activity li", { hasText: "<b>hello</b>" }).waitFor();
  assert.ok(await page.evaluate(() => Number.parseInt(document.querySelector(".app-place").style.blockSize) <= 2000));
  await attacks.unharmed();
}

/** What needs the user's consent is not done without it. */
async function permission(page, attacks) {
  const running = attacks.run("permission");
  for (const name of ["Open this link?", "Let the app read this resource?", /^Let the app call/]) await page.getByRole("dialog", { name }).getByRole("button", { name: "Refuse" }).click();
  const { told, calls } = await running;
  assert.deepEqual(told, { link: -32000, file: -32000, change: -32000 });
  assert.ok(!calls.includes("change"));
  await attacks.unharmed();
}

/** An app with other origins opens after the user has seen them; what is no origin is left out. */
async function external(page, attacks) {
  const running = attacks.run("external");
  const listed = page.locator(".app-place li");
  await listed.first().waitFor();
  assert.deepEqual(await listed.allTextContents(), ["https://api.example"]);
  await page.getByRole("button", { name: "Open app" }).click();
  const { told } = await running;
  assert.deepEqual(told, { fetch: "blocked" });
  await attacks.unharmed();
}

/** A flood is dropped: at most a few calls wait for the user, and the page goes on. */
async function flood(page, attacks) {
  const { calls } = await attacks.run("flood", async () => {
    // Every call asks first; all of them are refused by leaving.
    await page.getByRole("dialog", { name: /^Let the app call/ }).waitFor();
  });
  assert.ok(!calls.includes("change"));
  await attacks.unharmed();
  assert.equal(await page.getByRole("dialog").count(), 0, "the dialogs end with the app");
}

/** The page of the app, within its sandbox. */
function inner(page) {
  return page.frameLocator(".app-frame").frameLocator("iframe");
}

/** A server that no app may reach. */
async function listen() {
  const hits = [];
  const server = createServer((request, response) => {
    hits.push(request.url);
    response.setHeader("Access-Control-Allow-Origin", "*").end("reached");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return { url: `http://127.0.0.1:${server.address().port}`, hits };
}
