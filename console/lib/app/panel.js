// @ts-check
// An app in the page: its frame, what it asked for, and what it did.

import { fill, h } from "../dom.js";
import { downloads } from "../downloads.js";
import { code } from "../json.js";
import { button, problem } from "../parts.js";
import { AppError, Bridge } from "./bridge.js";
import { allOrigins, originsOf, policyFor } from "./policy.js";
import { appOf, isVisibleTo, resolve } from "./tools.js";

/** MIME type of an app's page. */
export const APP_TYPE = "text/html;profile=mcp-app";

/** The longest page, and the heights of its frame. */
const MOST = { page: 8 * 1024 * 1024, height: 2000, entries: 100 };

/**
 * @typedef {object} Call The call whose result an app shows.
 * @property {any} tool
 * @property {object} args
 * @property {Promise<any>} result
 */

/** Returns whether a resource is an app. @param {any} one */
export function isApp(one) {
  return String(one?.uri ?? "").startsWith("ui://") && String(one?.mimeType ?? "").replaceAll(" ", "").toLowerCase() === APP_TYPE;
}

/**
 * Shows an app until `signal` is aborted.
 *
 * @param {import("../../app.js").App} app
 * @param {string} uri
 * @param {AbortSignal} signal
 * @param {Call} [call]
 */
export function appPanel(app, uri, signal, call) {
  const place = h("div", { class: "app-place" }, h("p", { class: "muted" }, "Loading the app…"));
  const activity = h("ul", { class: "app-activity", "aria-label": "Activity of the app" });
  const shared = h("div", { class: "app-shared" });
  const element = h("section", { class: "card app-panel", "aria-label": "App", "data-mode": "inline" }, h("header", null, h("h3", null, "App"), h("span", { class: "chip" }, "sandboxed"), h("span", { class: "mono small muted" }, uri)), place, shared, activity);
  /** @type {Bridge | null} */ let bridge = null;
  /** Tools that the user has allowed the app to call. @type {Set<string>} */ const allowed = new Set(call ? [call.tool.name] : []);
  /** @type {Promise<any[]> | null} */ let tools = null;

  /** @param {string} what @param {string} [kind] */
  const note = (what, kind = "") => {
    activity.append(h("li", { class: kind }, what));
    while (activity.children.length > MOST.entries) activity.firstElementChild?.remove();
  };

  /** @param {string} name */
  const findTool = async (name) => {
    tools ??= app.client.list("tools/list", "tools");
    const all = await tools;
    // An app that was opened by itself belongs to the server of the tools that it shows.
    const opener = call?.tool ?? all.find((one) => appOf(one) === uri);
    const found = resolve(all, name, opener);
    if (!found || !isVisibleTo(found, "app")) {
      note(`Rejected: the tool ${name} is not visible to the app`, "bad");
      throw new AppError(`The tool ${name} is not visible to this app.`, -32602);
    }
    return found;
  };

  /** @type {import("./bridge.js").Host} */
  const host = {
    context: () => context(element, call),
    capabilities: {},
    async callTool(name, args) {
      const tool = await findTool(name);
      const isHarmless = tool.annotations?.readOnlyHint === true;
      if (!allowed.has(tool.name) && !isHarmless) {
        const answer = await confirm(signal, `Let the app call ${tool.title ?? tool.name}?`, [code(JSON.stringify(args), "Arguments")], ["Allow once", "Allow in this app"]);
        if (answer === 0) {
          note(`Refused: ${tool.name}`, "bad");
          throw new AppError("The user refused the call.");
        }
        if (answer === 2) allowed.add(tool.name);
      }
      note(`Called ${tool.name}`);
      return app.client.call(tool.name, args, { signal });
    },
    async readResource(wanted) {
      if (wanted !== uri && (await confirm(signal, "Let the app read this resource?", [h("p", { class: "mono" }, wanted)], ["Allow once"])) === 0) {
        note(`Refused to read ${wanted}`, "bad");
        throw new AppError("The user refused to read the resource.");
      }
      note(`Read ${wanted}`);
      return app.client.request("resources/read", { uri: wanted }, { signal });
    },
    async openLink(url) {
      const open = () => void window.open(url, "_blank", "noopener,noreferrer");
      if ((await confirm(signal, "Open this link?", [h("p", { class: "mono" }, url)], ["Open"], open)) === 0) throw new AppError("The user refused to open the link.");
      note(`Opened ${url}`);
    },
    async message(content) {
      note(`Message: ${textOf(content)}`, "message");
    },
    async updateContext(update) {
      fill(shared, h("h4", null, "Context for the model"), code(JSON.stringify(update), "Context for the model"));
    },
    async download(contents) {
      const files = contents.map((one) => one.resource).filter((one) => typeof one?.text === "string" || typeof one?.blob === "string");
      if (files.length === 0 || files.length !== contents.length) throw new AppError("Only embedded resources can be downloaded.", -32602);
      const names = files.map((one) => String(one.uri ?? "").split("/").pop()?.slice(0, 128) || "download");
      if ((await confirm(signal, "Download these files?", [h("p", { class: "mono" }, names.join(", "))], ["Download"])) === 0) throw new AppError("The user refused the download.");
      files.forEach((one, place) => {
        const raw = typeof one.blob === "string" ? Uint8Array.from(atob(one.blob), (letter) => letter.charCodeAt(0)) : one.text;
        downloads.save(names[place] ?? "download", new Blob([raw], { type: "application/octet-stream" }));
      });
    },
    displayMode(mode) {
      if (["inline", "fullscreen"].includes(mode)) setMode(mode);
      return element.dataset.mode ?? "inline";
    },
    resize({ height }) {
      if (typeof height !== "number" || !(height > 0)) return;
      place.style.setProperty("block-size", `${Math.min(MOST.height, Math.max(48, Math.ceil(height)))}px`);
    },
    log({ level, text }) {
      note(`${level}: ${text}`);
    },
    initialized() {
      if (!call) return;
      bridge?.notify("ui/notifications/tool-input", { arguments: call.args });
      call.result.then(
        (result) => bridge?.notify("ui/notifications/tool-result", result),
        (error) => bridge?.notify("ui/notifications/tool-cancelled", { reason: String(error?.message ?? error).slice(0, 500) }),
      );
    },
    close: () => void close(),
  };

  const closeButton = button("Close app", () => close(), { class: "button quiet small" });
  const modeButton = button("Full screen", () => setMode(element.dataset.mode === "inline" ? "fullscreen" : "inline"), { class: "button quiet small" });
  /** @param {string} mode */
  const setMode = (mode) => {
    element.dataset.mode = mode;
    fill(modeButton, mode === "inline" ? "Full screen" : "Leave full screen");
    bridge?.notify("ui/notifications/host-context-changed", { displayMode: mode });
  };
  const close = async () => {
    const open = bridge;
    bridge = null;
    setMode("inline");
    await open?.end();
    fill(place, h("p", { class: "muted" }, "The app is closed."));
    place.style.removeProperty("block-size");
    closeButton.remove();
    modeButton.remove();
  };

  /** @param {string} html @param {import("./policy.js").Origins} origins */
  const start = (html, origins) => {
    host.capabilities = {
      openLinks: {},
      downloadFile: {},
      serverTools: {},
      serverResources: {},
      logging: {},
      message: { text: {} },
      updateModelContext: { text: {}, structuredContent: {} },
      sandbox: { permissions: {}, csp: origins },
    };
    const frame = h("iframe", { class: "app-frame", title: "App", sandbox: "allow-scripts allow-forms", allow: "", referrerPolicy: "no-referrer", src: "/app-frame.html" });
    const ready = (/** @type {MessageEvent} */ event) => {
      // The sandbox says once that it is ready; every other message arrives by the port.
      if (event.source !== frame.contentWindow || event.origin !== "null" || event.data?.method !== "ui/notifications/sandbox-proxy-ready") return;
      removeEventListener("message", ready);
      const channel = new MessageChannel();
      bridge = new Bridge(channel.port1, host);
      const params = { html, policy: policyFor(origins) };
      frame.contentWindow?.postMessage({ jsonrpc: "2.0", method: "ui/notifications/sandbox-resource-ready", params }, "*", [channel.port2]);
    };
    addEventListener("message", ready, { signal });
    element.firstElementChild?.append(modeButton, closeButton);
    fill(place, frame);
  };

  const load = async () => {
    try {
      const { html, ui } = await page(app, uri, signal);
      const origins = originsOf(ui.csp);
      const external = allOrigins(origins);
      if (external.length === 0) return start(html, origins);
      // The user decides whether the app may reach others.
      fill(
        place,
        h("p", null, "This app may connect to, or load from:"),
        h("ul", { class: "plain-list mono" }, ...external.map((one) => h("li", null, one))),
        h("div", { class: "actions" }, button("Open app", () => start(html, origins), { class: "button primary" })),
      );
    } catch (error) {
      fill(place, problem(error));
    }
  };

  const theme = () => bridge?.notify("ui/notifications/host-context-changed", { theme: themeOf() });
  const themes = new MutationObserver(theme);
  themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme, { signal });
  signal.addEventListener("abort", () => {
    themes.disconnect();
    bridge?.end();
  });
  load();
  return element;
}

/** Reads the page of an app. @param {import("../../app.js").App} app @param {string} uri @param {AbortSignal} signal */
async function page(app, uri, signal) {
  if (!uri.startsWith("ui://")) throw new Error("The address of an app begins with ui://.");
  const found = await app.client.request("resources/read", { uri }, { signal, repeat: true });
  const part = found.contents?.[0] ?? {};
  const stream = await app.client.stream(found, part);
  if (!stream && !isApp({ uri, mimeType: part.mimeType })) throw new Error(`An app is ${APP_TYPE}; this is ${String(part.mimeType ?? "of no type").slice(0, 100)}.`);
  const raw = stream ? await readAll(stream) : typeof part.blob === "string" ? Uint8Array.from(atob(part.blob), (letter) => letter.charCodeAt(0)) : null;
  const html = raw ? new TextDecoder().decode(raw) : String(part.text ?? "");
  if (html.length > MOST.page) throw new Error("The page of the app is too large.");
  let ui = part._meta?.ui;
  if (ui === undefined) {
    const listed = await app.client.list("resources/list", "resources").catch(() => []);
    ui = listed.find((one) => one.uri === uri)?._meta?.ui;
  }
  return { html, ui: ui ?? {} };
}

/** @param {ReadableStream<Uint8Array>} stream */
async function readAll(stream) {
  /** @type {BlobPart[]} */ const pieces = [];
  let size = 0;
  for await (const piece of stream) {
    size += piece.length;
    if (size > MOST.page) throw new Error("The page of the app is too large.");
    pieces.push(/** @type {BlobPart} */ (piece));
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

/** Context that the app gets: theme, styles and size. @param {HTMLElement} element @param {Call} [call] */
function context(element, call) {
  const style = getComputedStyle(document.documentElement);
  const own = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return {
    ...(call ? { toolInfo: { tool: call.tool } } : {}),
    theme: themeOf(),
    styles: {
      variables: {
        "--color-background-primary": own("--surface"),
        "--color-background-secondary": own("--sunken"),
        "--color-text-primary": own("--text"),
        "--color-text-secondary": own("--muted"),
        "--color-border-primary": own("--line"),
        "--font-sans": own("--sans"),
        "--font-mono": own("--mono"),
      },
    },
    displayMode: element.dataset.mode,
    availableDisplayModes: ["inline", "fullscreen"],
    containerDimensions: { width: Math.round(element.clientWidth), maxHeight: MOST.height },
    locale: navigator.language,
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    userAgent: "mcp-flow-console",
    platform: "web",
  };
}

/** @returns {"light" | "dark"} */
function themeOf() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** The text of content blocks. @param {any[]} content */
function textOf(content) {
  return content.map((one) => (one.type === "text" ? String(one.text) : `[${String(one.type)}]`)).join(" ").slice(0, 4000);
}

/**
 * Asks the user; returns the number of the choice, 0 for none.
 *
 * @param {AbortSignal} signal
 * @param {string} question
 * @param {HTMLElement[]} details
 * @param {string[]} choices
 * @param {() => void} [act] Runs within the click, as opening a window has to.
 * @returns {Promise<number>}
 */
async function confirm(signal, question, details, choices, act) {
  // One dialog at a time: an app must not bury one under another.
  while (asking) await asking;
  if (signal.aborted) return 0;
  const answer = new Promise((/** @type {(choice: number) => void} */ resolve) => {
    const end = (/** @type {number} */ choice) => {
      resolve(choice);
      dialog.close();
      dialog.remove();
    };
    const options = choices.map((label, place) => button(label, () => (act?.(), end(place + 1)), place === 0 ? { class: "button primary" } : {}));
    const dialog = h("dialog", { class: "dialog", "aria-label": question }, h("div", { class: "question" }, h("p", { class: "chip accent" }, "App"), h("p", { class: "question-text" }, question), ...details, h("div", { class: "actions" }, ...options, button("Refuse", () => end(0)))));
    dialog.addEventListener("cancel", () => end(0));
    signal.addEventListener("abort", () => end(0), { once: true });
    document.body.append(dialog);
    dialog.showModal();
  });
  asking = answer.then(() => {
    asking = null;
  });
  return answer;
}

/** The dialog that is open. @type {Promise<void> | null} */ let asking = null;
