// @ts-check
// Line charts over time, as SVG.

import { h } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {string} kind CSS class of the line.
 * @property {(second: any) => number} value
 */

/**
 * A chart of the last minutes.
 *
 * @param {string} title
 * @param {Line[]} lines
 * @param {(value: number) => string} format
 */
export function chart(title, lines, format) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("class", "chart-drawing");
  drawing.setAttribute("aria-hidden", "true");
  const grid = [0.25, 0.5, 0.75].map((share) => {
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("d", `M0 ${HEIGHT * share}H${WIDTH}`);
    line.setAttribute("class", "chart-grid");
    return line;
  });
  const paths = lines.map(({ kind }) => {
    const area = document.createElementNS(SVG, "path");
    area.setAttribute("class", `chart-area ${kind}`);
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", `chart-line ${kind}`);
    return { area, path };
  });
  drawing.append(...grid, ...paths.flatMap(({ area, path }) => [area, path]));
  const now = lines.map(() => h("span", { class: "numbers" }, "–"));
  const most = h("span", { class: "chart-most muted small numbers" });
  const legend = lines.map(({ label, kind }, place) =>
    h("span", { class: "legend" }, h("i", { class: `swatch ${kind}` }), label, now[place]),
  );
  const since = h("span");
  const element = h(
    "section",
    { class: "card chart" },
    h("header", null, h("h2", null, title), h("div", { class: "legends" }, ...legend)),
    h("div", { class: "chart-box" }, drawing, most),
    h("footer", { class: "muted small" }, since, h("span", null, "now")),
  );
  /** @param {any[]} seconds Oldest first. */
  const set = (seconds) => {
    const values = lines.map(({ value }) => seconds.map(value));
    const top = Math.max(1e-9, ...values.flat());
    // At least one minute, so that the first seconds are not at the very edge.
    const span = Math.max(60, seconds.length);
    since.textContent = span > 90 ? `${Math.round(span / 60)} minutes ago` : "1 minute ago";
    const step = WIDTH / (span - 1);
    most.textContent = seconds.length > 0 ? format(top) : "";
    lines.forEach((_, place) => {
      const row = values[place] ?? [];
      const points = row.map((value, at) => {
        const x = WIDTH - (row.length - 1 - at) * step;
        return `${x.toFixed(1)} ${(HEIGHT - 2 - (value / top) * (HEIGHT - 32)).toFixed(1)}`;
      });
      const first = WIDTH - (row.length - 1) * step;
      const line = points.length > 0 ? `M${points.join("L")}` : "";
      paths[place]?.path.setAttribute("d", line);
      paths[place]?.area.setAttribute("d", line ? `${line}L${WIDTH} ${HEIGHT}L${first.toFixed(1)} ${HEIGHT}Z` : "");
      const last = row.at(-1);
      const shown = now[place];
      if (shown) shown.textContent = last === undefined ? "–" : format(last);
    });
  };
  return { element, set };
}

const WIDTH = 600;
const HEIGHT = 140;

/** Length of the chart in seconds. */
export const SECONDS = 300;
