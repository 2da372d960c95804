// Ten thousand sessions of ten users, a hundred of which change every second: the list shows all of
// them, and the page stays responsive. The measurements are printed.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { blank, browse, folder, go, main, open, post, serve, until } from "./harness.mjs";

const PEOPLE = 10;
const EACH = 1000;
const UPDATES = 400;

await main(async () => {
  const names = Array.from({ length: PEOPLE }, (_, number) => `person-${number}`);
  const token = (name) => `token-of-${name}-0123456789`;
  const file = join(folder(), "tokens");
  writeFileSync(file, [...names, "keeper"].map((name) => `${name}:${token(name)}`).join("\n"));
  const server = await serve({ args: ["--store", "memory:", "--token-file", file, "--admin", "keeper"] });
  const sessions = (await Promise.all(names.map((name) => start(server, token(name))))).flat();
  const browser = await browse();

  const asked = await blank(browser);
  await asked.goto(server.url);
  await asked.getByLabel("Token").fill("this is not a token");
  await asked.getByRole("button", { name: "Connect" }).click();
  await asked.getByText("Invalid token.").waitFor();
  await asked.getByLabel("Token").fill(token(names[0]));
  await asked.getByRole("button", { name: "Connect" }).click();
  await asked.getByRole("link", { name: "Traffic" }).click();
  await asked.getByText("Permission required").waitFor();
  await counted(asked, EACH);
  await asked.context().close();

  const page = await open(browser, server, { path: "sessions", token: token("keeper") });
  await counted(page, sessions.length);
  await page.locator(".virtual-row").first().waitFor();
  assert.ok((await page.locator(".virtual-row").count()) < 60, "only what can be seen is there");
  await page.evaluate(() => {
    globalThis.longTasks = [];
    new PerformanceObserver((list) => globalThis.longTasks.push(...list.getEntries().map((one) => Math.round(one.duration)))).observe({ type: "longtask" });
  });
  const begun = Date.now();
  const moving = move(server, sessions.slice(0, UPDATES));
  await scroll(page, moving);
  const took = Date.now() - begun;
  await page.getByRole("button", { name: /Ended/ }).click();
  await until(page, `${UPDATES} sessions to be over`, (count) => document.querySelector('.segments [aria-pressed="true"] .badge')?.textContent === String(count), UPDATES);
  const longTasks = await page.evaluate(() => globalThis.longTasks);
  console.log(JSON.stringify({ sessions: sessions.length, updatesPerSecond: Math.round(UPDATES / (took / 1000)), longTasks, longest: Math.max(0, ...longTasks) }));

  // Sessions of others are listed without their content.
  await page.getByRole("button", { name: /All/ }).click();
  await go(page, `sessions/${sessions.at(-1).sessionId}`);
  await page.getByText(/Owned by person-/).waitFor();
  assert.deepEqual(page.complaints, []);
});

async function counted(page, count) {
  await go(page, "sessions");
  const text = count.toLocaleString("en-US");
  await until(page, `${text} sessions to be listed`, (wanted) => document.querySelector(".segments .badge")?.textContent === wanted, text);
}

/** Scrolls through the list, a step each frame, until something else is done. */
async function scroll(page, other) {
  let isDone = false;
  const done = other.finally(() => (isDone = true));
  const list = page.locator(".virtual");
  for (let step = 0; !isDone; step = (step + 1) % 20) {
    await list.evaluate((list, top) => new Promise((drawn) => {
      list.scrollTop = top;
      requestAnimationFrame(drawn);
    }), step * 30_000);
  }
  await done;
}

/** Starts sessions of one user, several concurrently. */
async function start(server, token) {
  const found = [];
  const one = async () => {
    while (found.length < EACH) {
      const place = found.push(null) - 1;
      const { sessionId } = await post(server, "interaction.start", { toolName: "register" }, { token });
      found[place] = { sessionId, token };
    }
  };
  await Promise.all(Array.from({ length: 8 }, one));
  return found;
}

/** Cancels a session every ten milliseconds. */
async function move(server, sessions) {
  const running = [];
  const begun = Date.now();
  for (const [number, { sessionId, token }] of sessions.entries()) {
    const due = begun + number * 10;
    while (Date.now() < due) await new Promise((resolve) => setTimeout(resolve, due - Date.now()));
    running.push(post(server, "interaction.cancel", { sessionId }, { token }));
  }
  await Promise.all(running);
}
