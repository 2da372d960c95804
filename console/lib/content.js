// @ts-check
// Renders content blocks of tools, prompts and resources by type.

import { h } from "./dom.js";
import { bytes } from "./format.js";
import { tree } from "./json.js";
import { isMarkdown, link, markdown } from "./markdown.js";
import { downloads } from "./downloads.js";
import { button } from "./parts.js";

/**
 * @typedef {import("../client.js").Client} Client
 * @typedef {{name?: string, size?: Promise<number | undefined>}} Hint
 */

/**
 * Renders the result of a tool.
 *
 * @param {Client} client
 * @param {any} result
 * @param {Hint} [hint] Name and size of a stream, if known.
 */
export function toolResult(client, result, hint = {}) {
  const structured = result.structuredContent;
  // Structured content is repeated as text for older clients.
  const isSaid = (/** @type {any} */ one) => structured !== undefined && one.type === "text" && JSON.stringify(asData(one.text)) === JSON.stringify(structured);
  const said = (result.content ?? []).filter((/** @type {any} */ one) => !isSaid(one));
  const pieces = said.map((/** @type {any} */ one) => content(client, result, one, hint));
  return h(
    "div",
    { class: result.isError ? "result failed" : "result" },
    result.isError && h("p", { class: "chip error" }, "The tool failed"),
    ...pieces,
    structured !== undefined && h("div", { class: "structured" }, h("h3", null, "Structured content"), data(structured)),
    pieces.length === 0 && structured === undefined && h("p", { class: "muted" }, "Empty result."),
  );
}

/**
 * Renders one content block.
 *
 * @param {Client} client
 * @param {any} result The result that has it.
 * @param {any} one
 * @param {Hint} [hint]
 * @returns {HTMLElement}
 */
export function content(client, result, one, hint = {}) {
  switch (one?.type) {
    case "text":
      return text(String(one.text));
    case "image":
      // An external image is not fetched, since that would reveal the user to its server.
      if (!one.data) return link(String(one.url ?? "An image without data"), String(one.url ?? ""));
      return h("img", { class: "picture", src: dataUrl(one), alt: one.alt ?? "An image from the tool" });
    case "audio":
      return h("audio", { controls: true, src: dataUrl(one) });
    case "resource":
      return resource(one.resource ?? {});
    case "resource_link":
    case "ref/stream":
      return large(client, result, one, hint);
    default:
      return tree(one);
  }
}

/** Renders the contents of a resource. @param {any} one */
export function resource(one) {
  const name = String(one.uri ?? "").split("/").pop() || "resource";
  const kind = String(one.mimeType ?? "");
  if (typeof one.text === "string") {
    const body = kind === "text/markdown" ? markdown(one.text) : text(one.text);
    return h("div", { class: "embedded" }, h("p", { class: "mono small muted" }, String(one.uri ?? "")), body);
  }
  if (typeof one.blob !== "string") return tree(one);
  if (kind.startsWith("image/")) return h("img", { class: "picture", src: dataUrl({ data: one.blob, mimeType: kind }), alt: name });
  if (kind.startsWith("audio/")) return h("audio", { controls: true, src: dataUrl({ data: one.blob, mimeType: kind }) });
  const save = () => {
    const raw = Uint8Array.from(atob(one.blob), (letter) => letter.charCodeAt(0));
    downloads.save(name, new Blob([raw], { type: "application/octet-stream" }));
  };
  return h("div", { class: "attachment" }, h("span", null, name), h("span", { class: "muted" }, bytes(one.blob.length * 0.75)), button("Save", save));
}

/** Renders large content, which is downloaded separately. @param {Client} client @param {any} result @param {any} one @param {Hint} hint */
function large(client, result, one, hint) {
  const told = one._meta?.["mcp-flow/download"] ?? {};
  const name = one.name ?? told.name ?? hint.name ?? (String(one.uri ?? "").split("/").pop() || "stream");
  const size = one.size ?? told.size;
  const card = h("div", { class: "attachment" }, h("span", null, name), h("span", { class: "muted" }, size ? bytes(size) : (one.mimeType ?? "")));
  if (isOwn(one)) {
    downloads.start({ name, size: size ?? hint.size, open: () => client.stream(result, one) });
    card.append(h("span", { class: "chip" }, "downloading"));
  } else {
    card.append(link(String(one.uri), String(one.uri)));
  }
  return card;
}

/** @param {any} one */
function isOwn(one) {
  return one.type === "ref/stream" || (URL.canParse(one.uri) && new URL(one.uri).origin === location.origin);
}

/** Renders text: JSON as a tree, Markdown formatted, everything else verbatim. @param {string} said */
export function text(said) {
  const value = asData(said);
  if (value !== undefined) return data(value);
  if (isMarkdown(said)) return markdown(said);
  const shown = said.length > LONGEST ? `${said.slice(0, LONGEST)}…` : said;
  return h("pre", { class: "plain", tabIndex: 0 }, shown);
}

/** Renders data: an array of flat objects as a table, everything else as a tree. @param {any} value */
export function data(value) {
  return isTable(value) ? table(value) : h("div", { class: "json-root" }, tree(value));
}

/** @param {string} said @returns {any} */
function asData(said) {
  if (!/^\s*[[{]/.test(said) || said.length > LONGEST) return undefined;
  try {
    return JSON.parse(said);
  } catch {
    return undefined;
  }
}

/** @param {any} value */
function isTable(value) {
  const isRow = (/** @type {any} */ row) => row && typeof row === "object" && !Array.isArray(row);
  const isPlain = (/** @type {any} */ cell) => cell === null || typeof cell !== "object";
  return Array.isArray(value) && value.length > 1 && value.length <= 1000 && value.every((row) => isRow(row) && Object.values(row).every(isPlain));
}

/** @param {Record<string, any>[]} rows */
function table(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const head = h("tr", null, ...names.map((name) => h("th", { scope: "col" }, name)));
  const body = rows.map((row) => h("tr", null, ...names.map((name) => h("td", null, String(row[name] ?? "")))));
  return h(
    "div",
    { class: "table-wrap", tabIndex: 0, role: "region", "aria-label": "Table" },
    h("table", null, h("thead", null, head), h("tbody", null, ...body)),
  );
}

/** A data URL; only for types that cannot contain scripts. @param {any} one */
function dataUrl(one) {
  const kind = /^(image|audio)\/[\w.+-]+$/.test(one.mimeType ?? "") ? one.mimeType : "application/octet-stream";
  return `data:${kind};base64,${one.data ?? ""}`;
}

/** Maximum number of characters shown. */
const LONGEST = 500_000;
