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
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const line = await new Promise((resolve, reject) => {
    createInterface(child.stdout).once("line", resolve);
    ended.then(() => reject(new Error("the program ended")));
  });
  const stop = async (signal = "SIGKILL") => {
    child.kill(signal);
    await ended;
  };
  ends.push(stop);
  const places = JSON.parse(line);
  return { ...places, url: places.http, port: Number(new URL(places.http).port), stop };
}

export async function browse(options = {}) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", ...options });
  ends.push(() => browser.close());
  return browser;
}

/** A page of the console that is connected. Whatever a page complains about fails the script. */
export async function open(browser, server, { path = "tools", query = "", token, before, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
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
  return page;
}

export function connected(page) {
  return page.waitForSelector('.status[data-state="open"]');
}

export async function go(page, path) {
  await page.evaluate((hash) => (location.hash = hash), `#/${path}`);
}

/** Fills in a field by its label, and answers. */
export async function answer(page, label, value) {
  await page.getByLabel(label).fill(value);
  await page.getByRole("button", { name: "Answer" }).click();
}

/** Fails if axe finds anything that keeps people out. */
export async function accessible(page, what) {
  await page.evaluate(axe);
  // Colours are judged when nothing moves any more.
  await page.evaluate(() => Promise.all(document.getAnimations().map((one) => one.finish?.call && one.playState === "running" && one.effect?.getTiming().iterations === 1 && one.finished)));
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
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
  const response = await fetch(server.mcp, { method: "POST", headers, body });
  const { result, error } = await response.json();
  if (error) throw new Error(`${method}: ${JSON.stringify(error)}`);
  return result;
}
