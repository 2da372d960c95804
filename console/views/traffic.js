// @ts-check
// Traffic: the last exchanges as they happen, and one of them in full.

import { eachFrame, fill, h } from "../lib/dom.js";
import { downloads } from "../lib/downloads.js";
import { bytes, clock, duration, plural } from "../lib/format.js";
import { code } from "../lib/json.js";
import { button, copyButton, empty, fact, head, search, segments, toast } from "../lib/parts.js";
import { VirtualList } from "../lib/virtual.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function trafficView(app) {
  if (!app.watched.all) {
    return { element: h("div", { class: "view" }, head("Traffic", "Recent requests of all clients."), empty("Permission required", "Only admins can see traffic. Start the server with --admin NAME.")) };
  }
  /** @type {any[] | null} */ let held = null;
  /** @type {"all" | "failed"} */ let kind = "all";
  let wanted = "";
  let upstream = "";
  const detail = h("section", { class: "detail", "aria-label": "Exchange" }, empty("Select an exchange", "Its request and response are shown here."));
  const count = h("p", { class: "muted small numbers" });
  const list = new VirtualList({
    label: "Exchanges, newest first",
    height: 52,
    row,
    key: (/** @type {any} */ item) => String(item.number),
    onopen: (item) => {
      list.choose(String(item.number));
      split.classList.add("opened");
      fill(detail, ...exchange(item, () => split.classList.remove("opened")));
    },
  });
  const show = eachFrame(() => {
    const all = held ?? app.watched.exchanges;
    const isWanted = (/** @type {any} */ item) =>
      (kind === "all" || item.error || item.failed) &&
      (upstream === "" || item.upstream === upstream) &&
      (wanted === "" || `${item.method} ${item.params} ${item.client ?? ""} ${item.principal} ${item.transport}`.toLowerCase().includes(wanted));
    const items = all.filter(isWanted).reverse();
    list.set(items);
    fill(count, `${plural(items.length, "exchange")}${held ? ", held" : ""}`);
  });
  const pause = button("Pause", () => {
    held = held ? null : app.watched.exchanges;
    pause.textContent = held ? "Resume" : "Pause";
    pause.setAttribute("aria-pressed", String(held !== null));
    show();
  });
  const save = button("Save as cassette", async () => {
    try {
      const { cassette } = await app.client.request("admin/cassette", {});
      downloads.save("traffic.jsonl", new Blob([cassette], { type: "application/jsonl" }));
    } catch (error) {
      toast(String(/** @type {any} */ (error)?.message ?? error));
    }
  });
  const kinds = segments(
    "Filter by outcome",
    [
      { value: "all", label: "All" },
      { value: "failed", label: "Failed" },
    ],
    kind,
    (value) => {
      kind = /** @type {any} */ (value);
      show();
    },
  );
  const finder = search("Filter by method, name, client", (text) => {
    wanted = text;
    show();
  });
  const from = upstreamFilter(app.about.upstreams ?? [], app.path[0] ?? "", (name) => {
    upstream = name;
    show();
  });
  upstream = from?.value ?? "";
  app.watched.want(app.client, "traffic", app.signal);
  app.watched.addEventListener("traffic", show, { signal: app.signal });
  app.signal.addEventListener("abort", () => list.dispose());
  const split = h(
    "div",
    { class: "split even" },
    h("div", { class: "pick" }, finder, h("div", { class: "pick-tools" }, kinds.element, from, count), h("div", { class: "virtual-box" }, list.element)),
    detail,
  );
  show();
  return { element: h("div", { class: "view fixed" }, head("Traffic", "Recent requests of all clients, live.", save, pause), split) };
}

/** A choice of one upstream of a gateway. @param {any[]} upstreams @param {string} chosen @param {(name: string) => void} onchoose */
function upstreamFilter(upstreams, chosen, onchoose) {
  if (upstreams.length === 0) return null;
  const options = ["", ...upstreams.map(({ name }) => String(name))];
  const select = h("select", { "aria-label": "Filter by upstream", onchange: () => onchoose(select.value) }, ...options.map((name) => h("option", { value: name }, name || "All upstreams")));
  select.value = options.includes(chosen) ? chosen : "";
  return select;
}

/** Subject of an exchange: the tool, the prompt, the address, the session. @param {any} item */
export function subject(item) {
  try {
    const params = JSON.parse(item.params);
    return String(params.name ?? params.uri ?? params.toolName ?? params.sessionId ?? "");
  } catch {
    return "";
  }
}

function row() {
  const name = h("span", { class: "row-name mono" });
  const about = h("span", { class: "row-about muted small" });
  const time = h("span", { class: "numbers small" });
  const size = h("span", { class: "numbers small muted" });
  const dot = h("i", { class: "dot" });
  const element = h("div", { class: "row traffic-row" }, dot, h("div", { class: "row-text" }, name, about), h("div", { class: "row-side" }, time, size));
  /** @type {any} */ let last = null;
  return {
    element,
    /** @param {any} item */
    show(item) {
      if (item === last) return;
      last = item;
      element.dataset.phase = item.error || item.failed ? "failed" : "fine";
      const what = subject(item);
      name.textContent = item.method;
      about.textContent = [what, clock(item.at), item.client ?? item.principal].filter(Boolean).join(" · ");
      time.textContent = duration(item.time);
      size.textContent = bytes(item.responseBytes);
    },
  };
}

/** @param {any} item @param {() => void} back */
function exchange(item, back) {
  return [
    h("button", { type: "button", class: "back", onclick: back }, "All exchanges"),
    h("header", { class: "detail-head" }, h("h2", { class: "mono" }, item.method), h("p", { class: "muted" }, subject(item))),
    h(
      "dl",
      { class: "facts" },
      fact("Latency", duration(item.time)),
      fact("Request", bytes(item.requestBytes)),
      fact("Response", bytes(item.responseBytes)),
      fact("Transport", item.transport),
      fact("Client", item.client),
      fact("Principal", item.principal),
      fact("Revision", item.revision),
      fact("Time", clock(item.at)),
    ),
    h("div", { class: "actions" }, copyButton("Copy as curl", () => asCurl(item)), item.method === "tools/call" && copyButton("Copy as mcp-flow call", () => asCall(item))),
    h("h3", null, "Params"),
    code(item.params, "Params"),
    h("h3", null, item.error ? "Error" : "Result"),
    code(item.error ? JSON.stringify(item.error) : (item.result ?? ""), item.error ? "Error" : "Result"),
  ];
}

/** A command that sends the same again, in the revision that needs no session. @param {any} item */
export function asCurl(item) {
  const params = parsed(item.params);
  const stateless = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const body = { jsonrpc: "2.0", id: 1, method: item.method, params: { ...params, _meta: stateless } };
  const named = params.name ?? params.uri;
  return [
    `curl -s ${location.origin}/mcp`,
    "-H 'Content-Type: application/json'",
    "-H 'Accept: application/json, text/event-stream'",
    "-H 'MCP-Protocol-Version: 2026-07-28'",
    `-H ${quoted(`Mcp-Method: ${item.method}`)}`,
    ...(named === undefined ? [] : [`-H ${quoted(`Mcp-Name: ${named}`)}`]),
    `-d ${quoted(JSON.stringify(body))}`,
  ].join(" \\\n  ");
}

/** @param {any} item */
export function asCall(item) {
  const { name, arguments: args = {} } = parsed(item.params);
  return `mcp-flow call ${location.origin}/mcp ${quoted(String(name))} --json ${quoted(JSON.stringify(args))}`;
}

/** A word for a shell. @param {string} text */
function quoted(text) {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** @param {string} text @returns {any} */
function parsed(text) {
  try {
    const { _meta, ...params } = JSON.parse(text);
    return params;
  } catch {
    return {};
  }
}
