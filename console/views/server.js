// @ts-check
// Server: addresses, connections, limits and metrics.

import { chart } from "../lib/chart.js";
import { eachFrame, fill, h } from "../lib/dom.js";
import { bytes, count, duration } from "../lib/format.js";
import { empty, fact, head, problem } from "../lib/parts.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function serverView(app) {
  const title = head("Server", "Addresses, limits and metrics.");
  if (!app.watched.all) {
    return { element: h("div", { class: "view" }, title, empty("Permission required", "Only admins can see this. Start the server with --admin NAME.")) };
  }
  const tiles = h("div", { class: "tiles" });
  const facts = h("div", { class: "cards" });
  const calls = chart("Calls per second", [{ label: "calls", kind: "first", value: (one) => one.calls }, { label: "failed", kind: "bad", value: (one) => one.errors }], (value) => count(Math.round(value)));
  const latency = chart(
    "Latency",
    [
      { label: "p99", kind: "third", value: (one) => one.p99 },
      { label: "p90", kind: "second", value: (one) => one.p90 },
      { label: "p50", kind: "first", value: (one) => one.p50 },
    ],
    duration,
  );
  const traffic = chart(
    "Bytes per second",
    [
      { label: "out", kind: "first", value: (one) => one.bytesOut },
      { label: "in", kind: "third", value: (one) => one.bytesIn },
    ],
    bytes,
  );
  /** @type {any} */ let about = app.about;
  const showTiles = eachFrame(() => {
    const { seconds } = app.watched;
    for (const one of [calls, latency, traffic]) one.set(seconds);
    const recent = seconds.slice(-10);
    const rate = recent.reduce((sum, one) => sum + one.calls, 0) / Math.max(1, recent.length);
    const last = seconds.at(-1);
    fill(
      tiles,
      tile("Calls per second", rate < 10 ? rate.toFixed(1) : count(Math.round(rate))),
      tile("p99", duration(Math.max(0, ...recent.map((one) => one.p99)))),
      tile("Connections", count(last?.connections ?? 0)),
      tile("Memory", last?.memory ? bytes(last.memory) : "–"),
      tile("Waiting", count(app.sessions.counts.waiting)),
      tile("Uptime", duration(Date.now() - (about.startedAt ?? Date.now()))),
    );
  });
  const load = async () => {
    try {
      about = await app.client.request("admin/server");
      fill(facts, ...toolFiles(about.toolFiles), ...cards(about));
    } catch (error) {
      fill(facts, problem(error));
    }
  };
  app.watched.want(app.client, "stats", app.signal);
  app.watched.addEventListener("stats", showTiles, { signal: app.signal });
  const clock = setInterval(load, 10_000);
  app.signal.addEventListener("abort", () => clearInterval(clock));
  showTiles();
  load();
  return { element: h("div", { class: "view" }, title, tiles, h("div", { class: "charts" }, calls.element, latency.element, traffic.element), facts) };
}

/** @param {string} name @param {string} value */
function tile(name, value) {
  return h("div", { class: "tile" }, h("span", { class: "muted small" }, name), h("strong", { class: "numbers" }, value));
}

/** @param {any} about */
function cards(about) {
  const { places = {}, store } = about.about ?? {};
  const names = { mcp: "Streamable HTTP", webtransport: "WebTransport", websocket: "WebSocket", sse: "HTTP+SSE", tcp: "TCP", unix: "Unix socket", certificateHash: "Certificate" };
  const listed = Object.entries(names).filter(([name]) => places[name]);
  const connections = Object.entries(about.connections ?? {});
  const limits = about.limits ?? {};
  return [
    card("Transports", ...listed.map(([name, label]) => fact(label, h("span", { class: "mono small" }, places[name])))),
    card("Connections", ...connections.map(([name, one]) => fact(name, `${count(/** @type {any} */ (one).open)} open, ${count(/** @type {any} */ (one).total)} total`))),
    card(
      "Sessions",
      fact("Store", h("span", { class: "mono small" }, store ?? "–")),
      fact("Flows", (about.flows ?? []).join(", ")),
      fact("In memory", count(about.sessionsInMemory ?? 0)),
      fact("Maximum per owner", count(limits.sessionsPerOwner ?? 0)),
      fact("Inactivity timeout", limits.inactivitySeconds ? duration(limits.inactivitySeconds * 1000) : "–"),
    ),
    ...(about.nodes ? [card("Nodes", ...about.nodes.map(node))] : []),
    card(
      "Limits",
      fact("Message size", bytes(limits.frame)),
      fact("Concurrent calls", count(limits.concurrency ?? 0)),
      fact("Queued calls", bytes(limits.parkedBytes)),
      fact("Unsent responses", bytes(limits.outboundBytes)),
      fact("Inline result", bytes(limits.inlineBytes)),
      fact("Call timeout", duration((limits.callSeconds ?? 0) * 1000)),
    ),
  ];
}

/** @param {any} one a server that shares the session store */
function node({ epoch, name, url, version, isThis }) {
  return fact(`${epoch}${isThis ? " (this)" : ""}`, h("span", { class: "mono small" }, [name, url, version].filter(Boolean).join(" ")));
}

/** The files that declare tools, with their problems. @param {any[] | undefined} files */
function toolFiles(files) {
  if (!files) return [];
  const rows = files.map((file) => {
    const tools = file.tools.map((/** @type {any} */ tool) => h("a", { class: "chip", href: `#/tools/${encodeURIComponent(tool.name)}` }, tool.name));
    const problems = file.problems.map((/** @type {any} */ one) =>
      h("p", { class: one.severity === "error" ? "bad small" : "muted small" }, `${one.line}:${one.column}: ${one.severity}: ${one.message}`),
    );
    const outdated = file.isOutdated ? [h("p", { class: "muted small" }, "The tools of its last valid version are served.")] : [];
    return fact(h("span", { class: "mono small" }, file.path), h("div", null, ...tools, ...problems, ...outdated));
  });
  return [card("Tool files", ...rows)];
}

/** @param {string} title @param {...HTMLElement} facts */
function card(title, ...facts) {
  return h("section", { class: "card" }, h("h2", null, title), h("dl", { class: "facts column" }, ...facts));
}
