// @ts-check
// Tools that an app may call.

/** Returns whether a tool is visible to these callers, which is the default. @param {any} tool @param {"app" | "model"} callers */
export function isVisibleTo(tool, callers) {
  const visibility = tool?._meta?.ui?.visibility;
  return !Array.isArray(visibility) || visibility.includes(callers);
}

/** The app that shows the results of a tool. @param {any} tool @returns {string | null} */
export function appOf(tool) {
  const uri = tool?._meta?.ui?.resourceUri ?? tool?._meta?.["ui/resourceUri"];
  return typeof uri === "string" && uri.startsWith("ui://") ? uri : null;
}

/**
 * Finds the tool that an app means. Behind a gateway its server knows the tool without the prefix, and
 * only tools with the prefix of the tool that opened the app are of the same server.
 *
 * @param {any[]} tools
 * @param {string} name
 * @param {string} opener Name of the tool that opened the app.
 */
export function resolve(tools, name, opener) {
  const prefix = prefixOf(opener);
  const find = (/** @type {string} */ wanted) => tools.find((one) => one.name === wanted);
  const tool = (prefix && find(prefix + name)) || find(name);
  return tool && prefixOf(tool.name) === prefix ? { tool } : null;
}

/** @param {string} name */
function prefixOf(name) {
  return name.slice(0, name.indexOf(".") + 1);
}
