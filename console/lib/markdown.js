// @ts-check
// Markdown: headings, lists, code, tables, emphasis and links. Rendered as elements and text nodes,
// so that nothing in it becomes markup.

import { h } from "./dom.js";

/** Returns whether a text looks like Markdown. @param {string} text */
export function isMarkdown(text) {
  // Only the beginning is searched; a hostile text could make the search slow.
  return /^#{1,6} \S|^```|^[ \t]*[-*] \S.*\n[ \t]*[-*] \S|^\|.+\|[ \t]*\r?\n\|[ :|-]+\||\*\*\S.*\S\*\*|\[[^[\]]+\]\([^)\s]+\)/m.test(text.slice(0, 10_000));
}

/** @param {string} text @returns {HTMLElement} */
export function markdown(text) {
  const lines = text.slice(0, LONGEST).split(/\r?\n/);
  const out = h("div", { class: "markdown" });
  let at = 0;
  while (at < lines.length) at = block(lines, at, out);
  if (text.length > LONGEST) out.append(h("p", { class: "muted" }, "The rest is left out."));
  return out;
}

/** Renders one block and returns the line of the next. @param {string[]} lines @param {number} at @param {HTMLElement} out */
function block(lines, at, out) {
  const line = lines[at] ?? "";
  const heading = /^(#{1,6}) +(.*)$/.exec(line);
  if (heading) {
    // Below the heading levels of the page.
    const level = Math.min(6, (heading[1] ?? "").length + 2);
    out.append(h(/** @type {"h3"} */ (`h${level}`), null, ...inline(heading[2] ?? "")));
    return at + 1;
  }
  if (line.startsWith("```")) return fence(lines, at, out);
  if (/^\s*([-*_]\s*){3,}$/.test(line)) {
    out.append(h("hr"));
    return at + 1;
  }
  if (/^\s*([-*+]|\d+[.)]) +\S/.test(line)) return list(lines, at, out);
  if (line.startsWith(">")) return quote(lines, at, out);
  if (line.includes("|") && /^[\s|:-]+$/.test(lines[at + 1] ?? "") && (lines[at + 1] ?? "").includes("-")) {
    return table(lines, at, out);
  }
  if (line.trim() === "") return at + 1;
  let end = at + 1;
  while (end < lines.length && !/^\s*$|^#{1,6} |^```|^>|^\s*([-*+]|\d+[.)]) +\S/.test(lines[end] ?? "")) end += 1;
  out.append(h("p", null, ...inline(lines.slice(at, end).join("\n"))));
  return end;
}

/** @param {string[]} lines @param {number} at @param {HTMLElement} out */
function fence(lines, at, out) {
  let end = at + 1;
  while (end < lines.length && !(lines[end] ?? "").startsWith("```")) end += 1;
  const text = lines.slice(at + 1, end).join("\n");
  out.append(h("pre", { class: "code", tabIndex: 0 }, h("code", null, text)));
  return end + 1;
}

/** @param {string[]} lines @param {number} at @param {HTMLElement} out */
function list(lines, at, out) {
  const isNumbered = /^\s*\d/.test(lines[at] ?? "");
  const element = h(isNumbered ? "ol" : "ul");
  let end = at;
  for (; end < lines.length; end += 1) {
    const item = /^\s*(?:[-*+]|\d+[.)]) +(.*)$/.exec(lines[end] ?? "");
    if (!item) break;
    element.append(h("li", null, ...inline(item[1] ?? "")));
  }
  out.append(element);
  return end;
}

/** @param {string[]} lines @param {number} at @param {HTMLElement} out */
function quote(lines, at, out) {
  let end = at;
  while (end < lines.length && (lines[end] ?? "").startsWith(">")) end += 1;
  const text = lines.slice(at, end).map((line) => line.replace(/^> ?/, ""));
  out.append(h("blockquote", null, ...inline(text.join("\n"))));
  return end;
}

/** @param {string[]} lines @param {number} at @param {HTMLElement} out */
function table(lines, at, out) {
  /** @param {string} line */
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|");
  let end = at + 2;
  while (end < lines.length && (lines[end] ?? "").includes("|")) end += 1;
  const head = cells(lines[at] ?? "").map((cell) => h("th", { scope: "col" }, ...inline(cell.trim())));
  const rows = lines.slice(at + 2, end).map((line) =>
    h("tr", null, ...cells(line).map((cell) => h("td", null, ...inline(cell.trim())))),
  );
  const element = h("table", null, h("thead", null, h("tr", null, ...head)), h("tbody", null, ...rows));
  out.append(h("div", { class: "table-wrap", tabIndex: 0, role: "region", "aria-label": "Table" }, element));
  return end;
}

/** @param {string} text @returns {(Node | string)[]} */
function inline(text) {
  /** @type {(Node | string)[]} */ const out = [];
  let place = 0;
  for (const found of text.matchAll(SPANS)) {
    const at = found.index ?? 0;
    if (at > place) out.push(...breakable(text.slice(place, at)));
    place = at + found[0].length;
    const [whole, code, strong, soft, label, target] = found;
    if (code !== undefined) out.push(h("code", null, code));
    else if (strong !== undefined) out.push(h("strong", null, strong));
    else if (soft !== undefined) out.push(h("em", null, soft));
    else out.push(link(label ?? whole, target ?? whole));
  }
  out.push(...breakable(text.slice(place)));
  return out;
}

/** Adds break opportunities to long words, which browsers lay out slowly. @param {string} text @returns {(Node | string)[]} */
function breakable(text) {
  return text.split(/(\S{400})/).flatMap((part) => (part.length === 400 ? [part, h("wbr")] : [part]));
}

/** A link; only http and https URLs. @param {string} label @param {string} target */
export function link(label, target) {
  const isWeb = /^https?:\/\//i.test(target) && URL.canParse(target);
  if (!isWeb) return h("span", null, label);
  return h("a", { href: target, target: "_blank", rel: "noopener noreferrer" }, label);
}

/** Patterns with bounded lookahead, so that hostile texts take linear time. */
const SPANS = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])[*_]([^*_\n]+)[*_](?![\w*])|\[([^[\]\n]+)\]\(([^)\s]{1,500})\)|https?:\/\/[^\s<>"')]+/g;

/** Maximum length of rendered text. */
const LONGEST = 100_000;
