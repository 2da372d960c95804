// Shared by the scripts: the program, a browser, and helpers for the console.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

/** The program under test, and the directory of screenshots. */
export const [program, shots] = process.argv.slice(2);

/** Time limit for one step, in milliseconds: enough for a busy machine, less than that of a script. */
export const LIMIT = 60_000;

const ends = [];

/** Runs a script to its end, and stops everything it has started. */
export async function main(run) {
  try {
    await run();
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
  } finally {
    for (const end of ends.reverse()) await end().catch?.(() => {});
  }
}

/** A directory that is removed with the script. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "mcp-flow-console-"));
  ends.push(async () => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Starts the program, on a free port unless one is named. */
export async function serve({ port = 0, args = [] } = {}) {
  const child = spawn(program, ["serve", "--listen", `127.0.0.1:${port}`, "--json", ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const started = new Promise((resolve, reject) => {
    createInterface(child.stdout).once("line", resolve);
    child.once("error", reject);
    ended.then((code) => reject(new Error(`${program} ended with ${code} before it listened on port ${port}`)));
  });
  const stop = async (signal = "SIGKILL") => {
    child.kill(signal);
    await ended;
  };
  ends.push(stop);
  const places = JSON.parse(await within(`${program} to listen`, started));
  return { ...places, url: places.http, port: Number(new URL(places.http).port), stop };
}

/** Waits for a promise, up to the time limit of a step; `what` describes it. */
export async function within(what, promise) {
  let clock;
  const late = new Promise((_, reject) => {
    clock = setTimeout(() => reject(new Error(`waited ${LIMIT} ms for ${what}`)), LIMIT);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(clock));
}

/** Waits until a function returns true in the page; `what` describes it. */
export async function until(page, what, holds, argument) {
  await page.waitForFunction(holds, argument).catch((cause) => {
    throw new Error(`waited in vain for ${what}`, { cause });
  });
}

export async function browse(options = {}) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", timeout: LIMIT, ...options }).catch((cause) => {
    throw new Error("Chromium does not start; run interop/install first", { cause });
  });
  ends.push(() => browser.close());
  return browser;
}

/** An empty page. */
export async function blank(browser, options = {}) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(LIMIT);
  return context.newPage();
}

/** A connected page of the console that shows a view. Any error of the page fails the script. */
export async function open(browser, server, { path = "tools", query = "", token, before, ...options } = {}) {
  const page = await blank(browser, { viewport: { width: 1280, height: 800 }, ...options });
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (said) => {
    // The browser logs when a host is unreachable, which some scripts cause.
    if (said.type() === "error" && !/Failed to load resource|net::ERR|WebTransport/.test(said.text())) {
      page.complaints.push(said.text());
    }
  });
  if (token) await page.addInitScript((text) => sessionStorage.setItem("token", text), token);
  await before?.(page);
  await page.goto(`${server.url}${query}#/${path}`);
  await connected(page);
  // Once connected, the page renders the view again: earlier input would be lost.
  await shows(page, path);
  return page;
}

export function connected(page) {
  return page.waitForSelector('.status[data-state="open"]');
}

/** Navigates, and waits until the page has left the previous view. */
export async function go(page, path) {
  const went = page.evaluate(async (hash) => {
    if (location.hash === hash) return;
    // The listener of the page was added first, so it has run by then.
    const changed = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
    location.hash = hash;
    await changed;
  }, `#/${path}`);
  await within(`the page to go to ${path}`, went);
  await shows(page, path);
}

/** Waits until the view of a URL is shown. */
function shows(page, path) {
  return page.locator(`[data-view="${path.split("/")[0]}"][aria-current="page"]`).waitFor();
}

/** Fills in a field by its label, and submits. */
export async function answer(page, label, value) {
  await page.getByLabel(label).fill(value);
  await page.getByRole("button", { name: "Answer" }).click();
}

/** Fails if axe finds an accessibility problem. */
export async function accessible(page, what) {
  await page.evaluate(axe);
  // Contrast is checked after animations have ended, except for endless ones.
  await until(page, `${what} to stand still`, () =>
    document.getAnimations().every((one) => one.playState !== "running" || one.effect?.getTiming().iterations !== 1),
  );
  const judged = page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const found = await within(`axe to judge ${what}`, judged);
  const told = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target + " " + (node.any[0]?.message ?? "")).join("; ")}`);
  assert.deepEqual(told, [], what);
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A stateless request outside the console. */
export async function post(server, method, params, { token, name, capabilities = {} } = {}) {
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": method,
  };
  if (name) headers["Mcp-Name"] = name;
  if (token) headers.Authorization = `Bearer ${token}`;
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } });
  const answered = fetch(server.mcp, { method: "POST", headers, body }).then((response) => response.json());
  const { result, error } = await within(`the answer to ${method}`, answered);
  if (error) throw new Error(`${method}: ${JSON.stringify(error)}`);
  return result;
}
