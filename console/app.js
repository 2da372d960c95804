// @ts-check
// The console: connects, holds the state shared by the views, and routes by the URL hash.

import { ConnectError, connect } from "./client.js";
import { fill, h, icon } from "./lib/dom.js";
import { downloads } from "./lib/downloads.js";
import { elicit } from "./lib/elicit.js";
import { ICONS } from "./lib/icons.js";
import { Sessions } from "./lib/sessions.js";
import { Watched } from "./lib/watched.js";
import { button, problem } from "./lib/parts.js";
import { picture } from "./lib/picture.js";

/**
 * @typedef {object} App State and functions for views.
 * @property {import("./client.js").Client} client
 * @property {Sessions} sessions
 * @property {Watched} watched
 * @property {any} about Result of `admin/server`, and the `upstreams` of a gateway.
 * @property {AbortSignal} signal Aborted when the view is removed.
 * @property {string[]} path Path after the view's name.
 * @property {(path: string) => void} go
 *
 * @typedef {object} View
 * @property {HTMLElement} element
 * @property {(path: string[]) => void} [open] Shows another path without rebuilding the view.
 */

/** Views, loaded on first use. @type {{name: string, title: string, load: () => Promise<(app: App) => View>}[]} */
const VIEWS = [
  { name: "tools", title: "Tools", load: async () => (await import("./views/tools.js")).toolsView },
  { name: "sessions", title: "Sessions", load: async () => (await import("./views/sessions.js")).sessionsView },
  { name: "workflows", title: "Workflows", load: async () => (await import("./views/workflows.js")).workflowsView },
  { name: "resources", title: "Resources", load: async () => (await import("./views/resources.js")).resourcesView },
  { name: "prompts", title: "Prompts", load: async () => (await import("./views/prompts.js")).promptsView },
  { name: "upstreams", title: "Upstreams", load: async () => (await import("./views/upstreams.js")).upstreamsView },
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
  const link = h("a", { href: `#/${name}`, "data-view": name }, drawing, h("span", null, title), badge);
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
    h("span", null, h("strong", null, words), h("span", { class: "muted small" }, picture(info), info ? `${info.name} ${info.version}` : ""), website(info)),
  );
}

/** A link to the server's website. @param {any} info */
function website(info) {
  const address = typeof info?.websiteUrl === "string" ? URL.parse(info.websiteUrl) : null;
  if (!address || !/^https?:$/.test(address.protocol)) return null;
  return h("a", { class: "small", href: address.href, target: "_blank", rel: "noopener noreferrer" }, address.host);
}

/** Shows the view of the current URL hash. */
async function route() {
  // A fragment of the page, such as the skip link's, is not a view.
  if (shown && !location.hash.startsWith("#/")) return;
  const [name = "", ...path] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const found = VIEWS.find((view) => view.name === name) ?? VIEWS[0];
  if (!found || !client) return;
  const route = ++routes;
  if (shown?.name === found.name && shown.view.open) return shown.view.open(path);
  const make = await found.load();
  // The hash may have changed meanwhile.
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

/** Decodes a path segment; a malformed one is returned as is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Loads the server's description and starts its pushes, after every connect. */
async function settle() {
  about = await client.request("admin/server", {}, { repeat: true }).catch(() => ({}));
  const upstreams = await client.request("admin/upstreams", {}, { repeat: true }).catch(() => null);
  about.upstreams = upstreams?.upstreams ?? null;
  const link = links.get("upstreams")?.link;
  if (link) link.hidden = about.upstreams === null;
  // The console works without pushes.
  await watched.begin(client, about).catch(() => {});
  showStatus();
}

/** @param {string} [token] */
async function begin(token) {
  client = await connect(location.origin, {
    ...(token ? { token } : {}),
    interaction: "inline",
    capabilities: { elicitation: {}, extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } } },
    name: "mcp-flow-console",
    transports: transports(),
  });
  client.answer("elicitation/create", elicit);
  client.addEventListener("refused", () => askForToken("The token is no longer valid."));
  client.addEventListener("state", () => {
    showStatus();
    if (client.state === "open") settle().catch(() => {});
  });
  showStatus();
  await settle();
  route();
}

function showWaiting() {
  const badge = links.get("sessions")?.badge;
  if (!badge) return;
  badge.hidden = sessions.counts.waiting === 0;
  badge.textContent = sessions.counts.waiting.toLocaleString("en-US");
}

/** Transports to try; `?transport=http` disables WebTransport. @returns {("webtransport" | "http")[]} */
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
    h("h1", null, "Sign in"),
    h("p", { class: "muted" }, why),
    h("div", { class: "field" }, h("label", { htmlFor: "token" }, "Token"), input),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Connect")),
  );
  leave();
  fill(main, form);
  input.focus();
}

/** Removes the current view, before another connection is opened. */
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
      return askForToken(known ? "Invalid token." : "This server requires a token.");
    }
    fill(main, problem(error), button("Try again", start));
  }
}

build();
showStatus();
sessions.addEventListener("change", showWaiting);
addEventListener("hashchange", route);
// A hidden page needs no pushes; one restored from the back/forward cache is reloaded.
addEventListener("pagehide", () => client?.close());
addEventListener("pageshow", (event) => event.persisted && location.reload());
start();
