// @ts-check
// Workflows: steps, runs and exports.

import { fill, h } from "../lib/dom.js";
import { downloads } from "../lib/downloads.js";
import { plural } from "../lib/format.js";
import { markdown } from "../lib/markdown.js";
import { button, empty, fold, head, problem, search, toast } from "../lib/parts.js";
import { ask, item, runList, runTrack } from "./run.js";

/** @param {import("../app.js").App} app @returns {import("../app.js").View} */
export function workflowsView(app) {
  const list = h("ul", { class: "pick-list" });
  const detail = h("section", { class: "detail", "aria-label": "Workflow" });
  const count = h("p", { class: "muted small" });
  /** @type {any[]} */ let workflows = [];
  let wanted = "";
  let path = app.path;
  let hasRuns = false;
  /** Aborted when another workflow is shown. */ let leaving = new AbortController();

  const show = () => {
    const found = workflows.filter((one) => `${one.id} ${one.name} ${one.description} ${one.category}`.toLowerCase().includes(wanted));
    fill(count, plural(found.length, "workflow"));
    fill(list, ...found.map((one) => entry(one, path[0] === one.id)));
  };
  /** @param {string[]} to */
  const open = async (to) => {
    path = to;
    leaving.abort();
    leaving = new AbortController();
    split.classList.toggle("opened", path[0] !== undefined);
    show();
    const [id, run] = path;
    if (id === undefined) return fill(detail, empty("Select a workflow", "Its steps and runs are shown here."));
    const shown = AbortSignal.any([app.signal, leaving.signal]);
    try {
      const workflow = await ask(app, "workflow_get", { id });
      if (shown.aborted) return;
      const steps = run ? [runTrack(app, workflow, run, shown)] : hasRuns ? [outline(workflow)] : walk(app, workflow);
      const start = async () => {
        const started = await ask(app, "workflow_start", { workflowId: id });
        app.go(`workflows/${encodeURIComponent(id)}/${started.runId}`);
      };
      const begin = hasRuns && button("Start a run", () => start().catch((error) => toast(error.message)), { class: "button primary" });
      fill(detail, ...about(workflow, begin), hasRuns && runList(app, workflow, run, shown), ...steps);
    } catch (error) {
      fill(detail, problem(error));
    }
  };
  const load = async () => {
    try {
      const tools = await app.client.list("tools/list", "tools");
      hasRuns = tools.some((tool) => tool.name === "workflow_start");
      if (!tools.some((tool) => tool.name === "workflow_list")) {
        return fill(detail, empty("No workflows", "This server has none."));
      }
      ({ workflows } = await ask(app, "workflow_list", {}));
      open(path);
    } catch (error) {
      fill(detail, problem(error));
    }
  };
  const finder = search("Find a workflow", (text) => {
    wanted = text;
    show();
  });
  const split = h("div", { class: "split" }, h("div", { class: "pick" }, finder, count, list), detail);
  load();
  return { element: h("div", { class: "view" }, head("Workflows", "Workflows and their runs."), split), open };
}

/** @param {any} one @param {boolean} isOpen */
function entry(one, isOpen) {
  return h(
    "li",
    null,
    h(
      "a",
      { href: `#/workflows/${encodeURIComponent(one.id)}`, "aria-current": isOpen ? "true" : undefined },
      h("span", { class: "pick-name" }, one.name, h("span", { class: "muted small numbers" }, one.version)),
      h("span", { class: "pick-about muted" }, one.description),
    ),
  );
}

/** Renders the description of a workflow. @param {any} workflow @param {import("../lib/dom.js").Child} begin */
function about(workflow, begin) {
  const save = () => downloads.save(`${workflow.id}.json`, new Blob([JSON.stringify(workflow, null, 2)], { type: "application/json" }));
  return [
    h("a", { class: "back", href: "#/workflows" }, "All workflows"),
    h(
      "header",
      { class: "detail-head row-head" },
      h("div", null, h("div", { class: "chips" }, h("h2", null, workflow.name), workflow.version && h("span", { class: "chip" }, workflow.version)), h("p", null, workflow.description)),
      h("div", { class: "actions" }, begin, button("Export", save)),
    ),
    (workflow.preconditions ?? []).length > 0 && fold("Preconditions", h("ul", { class: "plain-list" }, ...workflow.preconditions.map((/** @type {string} */ one) => h("li", null, one)))),
  ];
}

/** All steps of a workflow without a run. @param {any} workflow */
function outline(workflow) {
  return h("ol", { class: "track" }, ...workflow.steps.map((/** @type {any} */ step, /** @type {number} */ place) => item(place + 1, "open", step.title ?? step.id, traits(step), prompt(step))));
}

/** Steps tracked in the browser, for servers without runs. @param {import("../app.js").App} app @param {any} workflow */
function walk(app, workflow) {
  /** @type {Set<string>} */ const done = new Set();
  const status = h("p", { class: "muted", role: "status" });
  const steps = h("ol", { class: "track" });
  let next = "";
  let guidance = "";
  const draw = () => {
    const of = workflow.steps.length;
    fill(status, done.size === of ? `All ${of} steps are done.` : `${done.size} of ${plural(of, "step")} done.`);
    fill(steps, ...workflow.steps.map((/** @type {any} */ step, /** @type {number} */ place) => stepAt(step, place + 1)));
  };
  const stepAt = (/** @type {any} */ step, /** @type {number} */ number) => {
    if (done.has(step.id)) return item(number, "done", step.title ?? step.id, ["done"], prompt(step));
    if (step.id !== next) return item(number, "open", step.title ?? step.id, traits(step), prompt(step));
    const finish = () => {
      done.add(step.id);
      advance();
    };
    const card = h("div", { class: "card" }, markdown(guidance || String(step.prompt ?? "")), h("div", { class: "actions" }, button("Done", finish, { class: "button primary" })));
    return item(number, "next", step.title ?? step.id, ["next", ...traits(step)], card);
  };
  const advance = async () => {
    try {
      const found = await ask(app, "workflow_next", { workflowId: workflow.id, completedSteps: [...done] });
      next = found.isComplete ? "" : (found.step?.id ?? "");
      guidance = found.guidance?.prompt ?? "";
    } catch (error) {
      toast(String(/** @type {Error} */ (error).message));
    }
    draw();
  };
  draw();
  advance();
  return [status, steps];
}

/** @param {any} step */
function traits(step) {
  return [step.requireConfirmation === true && "needs confirmation", step.type === "loop" && "loop"];
}

/** @param {any} step */
function prompt(step) {
  return h("p", { class: "muted small step-prompt" }, String(step.prompt ?? ""));
}
