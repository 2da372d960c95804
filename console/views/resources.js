// @ts-check
// Resources: what can be read, what it holds, and large files several at a time.

import { resource } from "../lib/content.js";
import { fill, h } from "../lib/dom.js";
import { downloads } from "../lib/downloads.js";
import { bytes, plural } from "../lib/format.js";
import { picture } from "../lib/picture.js";
import { button, copyButton, empty, fact, head, problem, search, toast } from "../lib/parts.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function resourcesView(app) {
  const list = h("ul", { class: "pick-list" });
  const detail = h("section", { class: "detail", "aria-label": "Resource" });
  const count = h("p", { class: "muted small" });
  /** @type {any[]} */ let all = [];
  /** @type {any[]} */ let templates = [];
  /** @type {Set<string>} */ const chosen = new Set();
  let wanted = "";
  let path = app.path;
  /** Aborted when another resource is shown. */ let leaving = new AbortController();

  const show = () => {
    const found = all.filter((one) => `${one.name} ${one.title ?? ""} ${one.uri}`.toLowerCase().includes(wanted));
    fill(count, plural(found.length, "resource"), found.length > MOST && `, ${MOST} shown`);
    fill(list, ...templates.map(templateEntry), ...found.slice(0, MOST).map(entry));
    fetchAll.disabled = chosen.size === 0;
    fetchAll.textContent = chosen.size > 1 ? `Download ${chosen.size}` : "Download";
  };
  /** @param {any} one */
  const entry = (one) => {
    const box = h("input", {
      type: "checkbox",
      checked: chosen.has(one.uri),
      "aria-label": `Select ${one.name}`,
      onchange: () => {
        if (box.checked) chosen.add(one.uri);
        else chosen.delete(one.uri);
        show();
      },
    });
    const link = h(
      "a",
      { href: `#/resources/${encodeURIComponent(one.uri)}`, "aria-current": path[0] === one.uri ? "true" : undefined },
      h("span", { class: "pick-name" }, picture(one), one.title ?? one.name, one.size !== undefined && h("span", { class: "muted small numbers" }, bytes(one.size))),
      h("span", { class: "pick-about muted" }, one.description ?? one.mimeType ?? one.uri),
    );
    return h("li", { class: "checked" }, box, link);
  };
  /** @param {any} one */
  const templateEntry = (one) =>
    h(
      "li",
      null,
      h(
        "a",
        { href: `#/resources/${encodeURIComponent(one.uriTemplate)}` },
        h("span", { class: "pick-name" }, picture(one), one.title ?? one.name, h("span", { class: "chip" }, "template")),
        h("span", { class: "pick-about muted mono" }, one.uriTemplate),
      ),
    );
  const find = () => ({ template: templates.find((one) => one.uriTemplate === path[0]), known: all.find((one) => one.uri === path[0]) });
  /** @param {string[]} to */
  const open = (to) => {
    path = to;
    leaving.abort();
    leaving = new AbortController();
    split.classList.toggle("opened", path[0] !== undefined);
    show();
    const [uri] = path;
    if (uri === undefined) return fill(detail, empty("Select a resource", "Its contents are shown here."));
    const { template, known } = find();
    fill(detail, h("a", { class: "back", href: "#/resources" }, "All resources"), ...(template ? fillIn(app, template) : read(app, uri, known, AbortSignal.any([app.signal, leaving.signal]))));
  };
  const load = async () => {
    try {
      if (!app.client.server?.capabilities?.resources) {
        return fill(detail, empty("No resources", "Start the server with --root DIR to serve the files of a directory."));
      }
      const before = JSON.stringify(find());
      [all, templates] = await Promise.all([
        app.client.list("resources/list", "resources"),
        app.client.list("resources/templates/list", "resourceTemplates").catch(() => []),
      ]);
      // A resource that has not changed keeps its form and its app.
      if (before !== "{}" && before === JSON.stringify(find())) show();
      else open(path);
    } catch (error) {
      fill(detail, problem(error));
    }
  };
  const download = () => {
    for (const uri of chosen) fetchOne(app, all.find((one) => one.uri === uri) ?? { uri, name: uri });
    chosen.clear();
    show();
  };
  const fetchAll = button("Download", download, { class: "button primary", disabled: true });
  app.client.addEventListener(
    "notification",
    (event) => {
      if (/** @type {CustomEvent} */ (event).detail.method === "notifications/resources/list_changed") load();
    },
    { signal: app.signal },
  );
  const finder = search("Find a resource", (text) => {
    wanted = text;
    show();
  });
  const split = h("div", { class: "split" }, h("div", { class: "pick" }, finder, count, list), detail);
  load();
  return { element: h("div", { class: "view" }, head("Resources", "Resources that clients can read and subscribe to.", fetchAll), split), open };
}

/**
 * Downloads a resource. What is large travels beside its message, several at a time.
 *
 * @param {import("../app.js").App} app
 * @param {any} one
 */
async function fetchOne(app, one) {
  const name = one.name ?? one.uri;
  try {
    const found = await app.client.request("resources/read", { uri: one.uri });
    for (const part of found.contents ?? []) {
      const stream = await app.client.stream(found, part);
      if (stream) downloads.start({ name, size: part._meta?.["mcp-flow/download"]?.size ?? one.size, open: async () => stream });
      else saveInline(name, part);
    }
  } catch (error) {
    toast(String(/** @type {Error} */ (error).message));
  }
}

/** @param {string} name @param {any} part */
function saveInline(name, part) {
  const raw = typeof part.blob === "string" ? Uint8Array.from(atob(part.blob), (letter) => letter.charCodeAt(0)) : String(part.text ?? "");
  downloads.start({ name, size: raw.length, open: async () => new Blob([raw]).stream() });
}

/** @param {import("../app.js").App} app @param {string} uri @param {any} known @param {AbortSignal} shown */
function read(app, uri, known, shown) {
  const body = h("div", { class: "card contents" }, h("p", { class: "muted" }, "Reading…"));
  /** Set once the app is shown: what is read later must not take its place. */ let hasApp = false;
  const load = async () => {
    if ((known?.size ?? 0) > LARGE) {
      return fill(body, empty(bytes(known.size), "Too large to show here; download it."));
    }
    try {
      const found = await app.client.request("resources/read", { uri });
      if (!hasApp) fill(body, ...(found.contents ?? []).map(resource));
    } catch (error) {
      if (!hasApp) fill(body, problem(error));
    }
  };
  load();
  const openApp = async () => {
    hasApp = true;
    const { appPanel } = await import("../lib/app/panel.js");
    if (!shown.aborted) fill(body, appPanel(app, uri, shown));
  };
  const changed = (/** @type {Event} */ event) => {
    const { method, params } = /** @type {CustomEvent} */ (event).detail;
    if (method === "notifications/resources/updated" && params.uri === uri) load();
  };
  app.client.addEventListener("notification", changed, { signal: shown });
  app.client.request("resources/subscribe", { uri }).catch(() => {});
  shown.addEventListener("abort", () => app.client.request("resources/unsubscribe", { uri }).catch(() => {}));
  return [
    h("header", { class: "detail-head" }, h("h2", null, known?.title ?? known?.name ?? uri), h("p", { class: "mono small muted" }, uri)),
    h("dl", { class: "facts" }, fact("Type", known?.mimeType), fact("Size", known?.size === undefined ? "–" : bytes(known.size))),
    h("div", { class: "actions" }, uri.startsWith("ui://") && button("Open app", openApp), button("Download", () => fetchOne(app, known ?? { uri, name: uri }), { class: "button primary" }), copyButton("URI", () => uri)),
    body,
  ];
}

/** A template: its variables as fields, with what the server suggests. @param {import("../app.js").App} app @param {any} template */
function fillIn(app, template) {
  const names = [...template.uriTemplate.matchAll(VARIABLES)].flatMap((found) => namesOf(found[2]));
  const inputs = names.map((name) => {
    const options = h("datalist", { id: `suggest-${name}` });
    const input = h("input", {
      type: "text",
      id: `variable-${name}`,
      list: `suggest-${name}`,
      oninput: async () => {
        const found = await app.client
          .request("completion/complete", { ref: { type: "ref/resource", uri: template.uriTemplate }, argument: { name, value: input.value } })
          .catch(() => null);
        fill(options, ...(found?.completion?.values ?? []).map((/** @type {string} */ value) => h("option", { value })));
      },
    });
    return { name, input, element: h("div", { class: "field" }, h("label", { htmlFor: `variable-${name}` }, name), input, options) };
  });
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    const uri = template.uriTemplate.replace(VARIABLES, (/** @type {string} */ _, /** @type {string} */ kind, /** @type {string} */ list) => {
      // Some variables may hold several parts of an address, others one.
      const write = "+#".includes(kind || " ") ? encodeURI : encodeURIComponent;
      return namesOf(list).map((name) => write(inputs.find((one) => one.name === name)?.input.value ?? "")).join("/");
    });
    app.go(`resources/${encodeURIComponent(uri)}`);
  };
  return [
    h("header", { class: "detail-head" }, h("h2", null, template.title ?? template.name), h("p", { class: "mono small muted" }, template.uriTemplate), h("p", null, template.description ?? "")),
    h("form", { class: "card", onsubmit: go }, ...inputs.map(({ element }) => element), h("div", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Read"))),
  ];
}

/** The variables of a template, and the names in one of them. */
const VARIABLES = /\{([+#./;?&]?)([\w,*]+)\}/g;
const namesOf = (/** @type {string} */ list) => list.replaceAll("*", "").split(",");

/** Number of entries shown; searching finds the rest. */
const MOST = 500;

/** Largest resource that is shown in the page. */
const LARGE = 1024 * 1024;
