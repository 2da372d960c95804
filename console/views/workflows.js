// @ts-check
// Workflows: their steps as a track, and how far a run has come.

import { fill, h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { empty, head, search } from "../lib/parts.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function workflowsView(app) {
  const list = h("ul", { class: "pick-list" });
  const detail = h("section", { class: "detail", "aria-label": "Workflow" });
  fill(detail, empty("No workflows", "This server has no workflow tools."));
  const split = h("div", { class: "split" }, h("div", { class: "pick" }, search("Find a workflow", () => {}), h("p", { class: "muted small" }, plural(0, "workflow")), list), detail);
  return { element: h("div", { class: "view" }, head("Workflows", "Work in steps, and how far it has come."), split) };
}
