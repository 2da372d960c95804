// @ts-check
// The console: connects, keeps what several views need, and shows the view that the address names.

import { ConnectError, connect } from "./client.js";
import { fill, h, icon } from "./lib/dom.js";
import { downloads } from "./lib/downloads.js";
import { elicit } from "./lib/elicit.js";
import { ICONS } from "./lib/icons.js";
import { Sessions } from "./lib/sessions.js";
import { Watched } from "./lib/watched.js";
import { button, problem } from "./lib/parts.js";

/**
 * @typedef {object} App What views are given.
 * @property {import("./client.js").Client} client
 * @property {Sessions} sessions
 * @property {Watched} watched
 * @property {any} about What `admin/server` says.
 * @property {AbortSignal} signal Aborted when the view goes away.
 * @property {string[]} path The rest of the address, after the view.
 * @property {(path: string) => void} go
 *
 * @typedef {object} View
 * @property {HTMLElement} element
 * @property {(path: string[]) => void} [open] Shows something else without building all again.
 */

/** Views are loaded when they are first shown. @type {{name: string, title: string, load: () => Promise<(app: App) => View>}[]} */
const VIEWS = [
  { name: "tools", title: "Tools", load: async () => (await import("./views/tools.js")).toolsView },
  { name: "conversations", title: "Conversations", load: async () => (await import("./views/conversations.js")).conversationsView },
  { name: "workflows", title: "Workflows", load: async () => (await import("./views/workflows.js")).workflowsView },
  { name: "resources", title: "Resources", load: async () => (await import("./views/resources.js")).resourcesView },
  { name: "prompts", title: "Prompts", load: async () => (await import("./views/prompts.js")).promptsView },
  { name: "traffic", title: "Traffic", load: async () => (await import("./views/traffic.js")).trafficView },
  { name: "server", title: "Server", load: async () => (await import("./views/server.js")).serverView },
];

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
const main = h("main", { id: "main", tabIndex: 0 });
const links = new Map(VIEWS.map(({ name, title }) => [name, navLink(name, title)]));
const status = h("div", { class: "status", role: "status" });
const sessions = new Sessions();
const watched = new Watched(sessions);

/** @type {{name: string, view: View, ended: AbortController} | null} */ let shown = null;
/** @type {import("./client.js").Client} */ let client;
/** @type {any} */ let about = {};
let routes = 0;

/** @param {string} name @param {string} title */
function navLink(name, title) {
  const badge = h("span", { class: "badge", hidden: true });
  const drawing = icon(/** @type {any} */ (ICONS)[name]);
  // The longest name does not fit beneath a drawing on a phone.
  const label = title.length > 9 ? [h("span", { class: "long" }, title), h("span", { class: "short", "aria-hidden": "true" }, "Talks")] : [h("span", null, title)];
  const link = h("a", { href: `#/${name}`, "data-view": name }, drawing, ...label, badge);
  return { link, badge };
}

function build() {
  const brand = h(
    "a",
    { class: "brand", href: "#/tools", "aria-label": "MCP Flow console" },
    h("img", { src: "/icon.svg", alt: "", width: 28, height: 28 }),
    h("span", null, "MCP Flow"),
  );
  const nav = h("nav", { "aria-label": "Views" }, ...[...links.values()].map(({ link }) => link));
  fill(root, h("header", { class: "side" }, brand, nav, h("div", { class: "side-foot" }, status, themeButton())), main, downloads.element);
  root.removeAttribute("aria-busy");
}

function themeButton() {
  const names = ["auto", "light", "dark"];
  let chosen = localStorage.getItem("theme") ?? "auto";
  const label = h("span", null, "");
  const apply = () => {
    if (chosen === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    label.textContent = `Theme: ${chosen}`;
  };
  const next = () => {
    chosen = names[(names.indexOf(chosen) + 1) % names.length] ?? "auto";
    localStorage.setItem("theme", chosen);
    apply();
  };
  apply();
  return h("button", { type: "button", class: "theme", onclick: next }, icon(ICONS.sun), label);
}

function showStatus() {
  const open = client?.state === "open";
  const how = { webtransport: "WebTransport", http: "Streamable HTTP" }[client?.transport ?? "http"];
  const words = open ? how : client?.state === "lost" ? "Reconnecting…" : "Not connected";
  const info = client?.server?.serverInfo;
  status.dataset.state = client?.state ?? "connecting";
  status.dataset.transport = client?.transport ?? "";
  fill(
    status,
    h("i", { class: "dot" }),
    h("span", null, h("strong", null, words), h("span", { class: "muted small" }, info ? `${info.name} ${info.version}` : "")),
  );
}

/** Shows what the address names. */
async function route() {
  // A place within the page, such as the one to skip to, is no view.
  if (shown && !location.hash.startsWith("#/")) return;
  const [name = "", ...path] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const found = VIEWS.find((view) => view.name === name) ?? VIEWS[0];
  if (!found || !client) return;
  const route = ++routes;
  if (shown?.name === found.name && shown.view.open) return shown.view.open(path);
  const make = await found.load();
  // Another address may have been called up meanwhile.
  if (route !== routes) return;
  shown?.ended.abort();
  const ended = new AbortController();
  const go = (/** @type {string} */ to) => (location.hash = `#/${to}`);
  const view = make({ client, sessions, watched, about, signal: ended.signal, path, go });
  shown = { name: found.name, view, ended };
  document.title = `${found.title} · MCP Flow`;
  for (const [key, { link }] of links) {
    if (key === found.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(main, view.element);
  main.scrollTop = 0;
}

/** A part of the address as it was meant, or as it stands if somebody mistyped it. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Learns what the server offers, and has what happens pushed. Done again after every reconnect. */
async function settle() {
  about = await client.request("admin/server", {}, { repeat: true }).catch(() => ({}));
  // Without what is pushed the rest works all the same.
  await watched.begin(client, about).catch(() => {});
  showStatus();
}

/** @param {string} [token] */
async function begin(token) {
  client = await connect(location.origin, {
    ...(token ? { token } : {}),
    interaction: "inline",
    capabilities: { elicitation: {} },
    name: "mcp-flow-console",
    transports: transports(),
  });
  client.answer("elicitation/create", elicit);
  client.addEventListener("refused", () => askForToken("The token is not known any more."));
  client.addEventListener("state", () => {
    showStatus();
    if (client.state === "open") settle().catch(() => {});
  });
  showStatus();
  await settle();
  route();
}

function showWaiting() {
  const badge = links.get("conversations")?.badge;
  if (!badge) return;
  badge.hidden = sessions.counts.waiting === 0;
  badge.textContent = sessions.counts.waiting.toLocaleString("en-US");
}

/** `?transport=http` does without WebTransport. @returns {("webtransport" | "http")[]} */
function transports() {
  const only = new URLSearchParams(location.search).get("transport");
  return only === "http" ? ["http"] : ["webtransport", "http"];
}

/** @param {string} why */
function askForToken(why) {
  const input = h("input", { type: "password", id: "token", autocomplete: "current-password" });
  const form = h(
    "form",
    {
      class: "card token",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        sessionStorage.setItem("token", input.value.trim());
        start();
      },
    },
    h("h1", null, "Come in"),
    h("p", { class: "muted" }, why),
    h("div", { class: "field" }, h("label", { htmlFor: "token" }, "Token"), input),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Connect")),
  );
  leave();
  fill(main, form);
  input.focus();
}

/** Ends the view that is shown: what comes next has another connection. */
function leave() {
  shown?.ended.abort();
  shown = null;
}

async function start() {
  leave();
  fill(main, h("p", { class: "muted starting" }, "Connecting…"));
  try {
    await begin(sessionStorage.getItem("token") ?? undefined);
  } catch (error) {
    if (error instanceof ConnectError && error.status === 401) {
      const known = sessionStorage.getItem("token");
      return askForToken(known ? "This token is not known here." : "This server lets only those in who have a token.");
    }
    fill(main, problem(error), button("Try again", start));
  }
}

build();
showStatus();
sessions.addEventListener("change", showWaiting);
addEventListener("hashchange", route);
// What nobody looks at any more need not be pushed; a page that is kept is loaded again.
addEventListener("pagehide", () => client?.close());
addEventListener("pageshow", (event) => event.persisted && location.reload());
start();
