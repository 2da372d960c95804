// Screenshots for the documentation: run by hand when the console has changed, and for a few seconds by a test.
//
//     node interop/browser/console/readme.mjs target/release/mcp-flow docs [SECONDS]

import { join } from "node:path";
import { browse, go, main, open, post, serve, shots } from "./harness.mjs";

/** Time of traffic before the charts are shown. */
const SECONDS = Number(process.argv[4] ?? 100);

await main(async () => {
  const server = await serve({ args: ["--store", "memory:", "--diagnostics"] });
  const browser = await browse();
  const page = await open(browser, server, { path: "server" });
  const dark = await open(browser, server, { path: "traffic", colorScheme: "dark" });
  await busy(server);
  await page.screenshot({ path: join(shots, "console-server.png") });
  await dark.getByRole("button", { name: "Pause" }).click();
  await dark.locator(".row", { hasText: "tools/call" }).first().click();
  await dark.screenshot({ path: join(shots, "console-traffic.png") });
  const sessionId = await talks(server);
  await go(page, `sessions/${sessionId}`);
  await page.getByLabel(/Night train/).check();
  await page.screenshot({ path: join(shots, "console-session.png") });
});

/** Traffic with a varying rate. */
async function busy(server) {
  const call = (name, args) => post(server, "tools/call", { name, arguments: args }, { name }).catch(() => {});
  for (let second = 0; second < SECONDS; second += 1) {
    const wave = 30 + 22 * Math.sin(second / 7) + 12 * Math.sin(second / 2.3);
    const calls = Array.from({ length: Math.round(wave) }, (_, number) => call("calculator.add", { a: second, b: number }));
    calls.push(call("sleep", { ms: 20 + (second % 9) * 6 }), call("wh40k.roll_dice", { sides: 6, count: 3 }));
    if (second % 13 === 0) calls.push(call("fail", {}));
    await Promise.all([...calls, new Promise((resolve) => setTimeout(resolve, 1000))]);
  }
}

async function talks(server) {
  for (const toolName of ["register", "book_trip", "all_prompts", "register", "book_trip", "countdown"]) {
    await post(server, "interaction.start", { toolName });
  }
  await post(server, "interaction.start", { toolName: "register", initialParams: { name: "Grace Hopper", email: "grace@example.org" } });
  const { sessionId } = await post(server, "interaction.start", { toolName: "book_trip" });
  const later = new Date(Date.now() + 9 * 86_400_000).toISOString().slice(0, 10);
  for (const value of ["Reykjavík", later, 2]) await post(server, "interaction.respond", { sessionId, response: { value } });
  return sessionId;
}
