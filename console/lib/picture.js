// @ts-check
// Icons that servers give to what they list.

import { h } from "./dom.js";

/** An image within its own address. Images of other servers are not fetched: that would reveal the user to them. */
const DATA = /^data:image\/(png|jpeg|webp|gif|svg\+xml)[;,]/i;

/** Characters of an icon at most. */
const LONGEST = 64 * 1024;

/** The icon of a definition that fits the theme, if there is one to show. @param {any} one */
export function picture(one) {
  const icons = Array.isArray(one?.icons) ? one.icons.filter(isShown) : [];
  const theme = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const fitting = icons.find((/** @type {any} */ icon) => icon.theme === theme) ?? icons.find((/** @type {any} */ icon) => !icon.theme) ?? icons[0];
  return fitting ? h("img", { class: "picked-icon", src: fitting.src, alt: "", width: 20, height: 20 }) : null;
}

/** @param {any} icon */
function isShown(icon) {
  return typeof icon?.src === "string" && icon.src.length <= LONGEST && DATA.test(icon.src);
}
