// What the scripts here share: the program, a browser, and ways to look at the console.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

/** The program under test, and where screenshots go. */
export const [program, shots] = process.argv.slice(2);

/** How long one step may take, in milliseconds: long for a busy machine, shorter than a script may. */
export const LIMIT = 60_000;

const ends = [];

/** Runs a script to its end, and whatever happens ends all it has started. */
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

/** A folder that is gone when the script is. */
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

/** Waits for a promise, and no longer than a step may take; `what` is waited for. */
export async function within(what, promise) {
  let clock;
  const late = new Promise((_, reject) => {
    clock = setTimeout(() => reject(new Error(`waited ${LIMIT} ms for ${what}`)), LIMIT);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(clock));
}

/** Waits until a function holds in the page; `what` is waited for. */
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

/** A page that has nothing in it yet. */
export async function blank(browser, options = {}) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(LIMIT);
  return context.newPage();
}

/** A page of the console that is connected and shows a view. Whatever a page complains about fails the script. */
export async function open(browser, server, { path = "tools", query = "", token, before, ...options } = {}) {
  const page = await blank(browser, { viewport: { width: 1280, height: 800 }, ...options });
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (said) => {
    // A browser says so itself when an address cannot be reached, which some scripts want.
    if (said.type() === "error" && !/Failed to load resource|net::ERR|WebTransport/.test(said.text())) {
      page.complaints.push(said.text());
    }
  });
  if (token) await page.addInitScript((text) => sessionStorage.setItem("token", text), token);
  await before?.(page);
  await page.goto(`${server.url}${query}#/${path}`);
  await connected(page);
  // Once connected, the page shows the view again: what was typed before that would be lost.
  await shows(page, path);
  return page;
}

export function connected(page) {
  return page.waitForSelector('.status[data-state="open"]');
}

/** Goes to another address, and waits until the page has left the one before. */
export async function go(page, path) {
  const went = page.evaluate(async (hash) => {
    if (location.hash === hash) return;
    // The page itself has listened for longer, so it is done when this is told.
    const changed = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
    location.hash = hash;
    await changed;
  }, `#/${path}`);
  await within(`the page to go to ${path}`, went);
  await shows(page, path);
}

/** Waits until the view that an address names is shown. */
function shows(page, path) {
  return page.locator(`[data-view="${path.split("/")[0]}"][aria-current="page"]`).waitFor();
}

/** Fills in a field by its label, and answers. */
export async function answer(page, label, value) {
  await page.getByLabel(label).fill(value);
  await page.getByRole("button", { name: "Answer" }).click();
}

/** Fails if axe finds anything that keeps people out. */
export async function accessible(page, what) {
  await page.evaluate(axe);
  // Colours are judged when nothing moves any more, but for what never stops.
  await until(page, `${what} to stand still`, () =>
    document.getAnimations().every((one) => one.playState !== "running" || one.effect?.getTiming().iterations !== 1),
  );
  const judged = page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const found = await within(`axe to judge ${what}`, judged);
  const told = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target + " " + (node.any[0]?.message ?? "")).join("; ")}`);
  assert.deepEqual(told, [], what);
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A request that stands alone, for what is not the console's business. */
export async function post(server, method, params, { token, name } = {}) {
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
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } });
  const answered = fetch(server.mcp, { method: "POST", headers, body }).then((response) => response.json());
  const { result, error } = await within(`the answer to ${method}`, answered);
  if (error) throw new Error(`${method}: ${JSON.stringify(error)}`);
  return result;
}
