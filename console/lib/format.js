// @ts-check
// Numbers and times as people read them.

/** @param {number} bytes */
export function bytes(bytes) {
  if (!Number.isFinite(bytes)) return "";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1000;
    unit += 1;
  }
  return `${bytes < 10 && unit > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** Formats the time since something. @param {number} at @param {number} [now] */
export function ago(at, now = Date.now()) {
  const ms = now - at;
  return ms < 5000 ? "now" : ms < 60_000 ? `${Math.floor(ms / 1000)} s ago` : `${duration(ms)} ago`;
}

/** @param {number} at */
export function clock(at) {
  return new Date(at).toLocaleTimeString("en-GB");
}

/** Hours and minutes. @param {number} at */
export function minute(at) {
  return new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** @param {number} count */
export function count(count) {
  return count.toLocaleString("en-US");
}

/** @param {number} many @param {string} one @param {string} [several] */
export function plural(many, one, several = `${one}s`) {
  return `${count(many)} ${many === 1 ? one : several}`;
}

/** The last characters of an id, enough for people to tell two apart. @param {string} id */
export function short(id) {
  return id.slice(-6);
}
