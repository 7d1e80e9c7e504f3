// `/` searches, `?` helps, and two keys in a row follow the link that carries them: <a data-shortcut="g w">.

const PATIENCE_MS = 1200;
const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

let first = "", since = 0;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (event.target.matches?.(FIELDS) || document.querySelector("dialog[open]")) return;
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("site-search")?.focus();
  } else if (event.key === "?") {
    document.getElementById("help-dialog")?.showModal();
  } else if (event.key.length === 1) {
    const pair = performance.now() - since < PATIENCE_MS ? `${first} ${event.key}` : "";
    const link = pair && document.querySelector(`[data-shortcut="${CSS.escape(pair)}"]`);
    if (link) link.click();
    first = link ? "" : event.key;
    since = performance.now();
  }
});
