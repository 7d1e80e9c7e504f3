// Short messages in the corner: from the server's messages, from `HX-Trigger: {"toast": ...}`, and from failures.
import { reloadSignedOut } from "./forms.js";

const LIFETIME_MS = 6000;
const FAILURES = {
  403: "Your role does not allow this.",
  404: "It is gone, or not visible to you.",
  409: "Somebody or something was quicker. Reload and try again.",
  412: "It was changed meanwhile. Reload to see by whom.",
  413: "That is larger than the server accepts.",
  429: "Too many requests. Try again in a moment.",
};

const box = document.getElementById("toasts");

/** Show `message`; errors stay until they are dismissed. `level` is info, success, warning or error. */
export function toast(message, level = "info") {
  if (!box || !message) return;
  const item = document.createElement("div");
  item.className = `toast toast-${level}`;
  const text = document.createElement("p");
  text.textContent = message;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "btn btn-quiet btn-small";
  close.dataset.dismiss = "";
  close.setAttribute("aria-label", "Dismiss");
  close.textContent = "✕";
  item.append(text, close);
  box.append(item);
  expire(item, level);
}

function expire(item, level) {
  if (level === "error") return;
  const timer = setInterval(() => {
    if (item.matches(":hover, :focus-within")) return;
    clearInterval(timer);
    item.remove();
  }, LIFETIME_MS);
}

box?.querySelectorAll("[data-toast]").forEach((item) =>
  expire(item, item.classList.contains("toast-error") ? "error" : "info"));

document.addEventListener("click", (event) => event.target.closest("[data-dismiss]")?.parentElement.remove());

document.addEventListener("toast", (event) => toast(event.detail.message, event.detail.level));

document.addEventListener("htmx:responseError", ({ detail: { xhr } }) => {
  if (xhr.getResponseHeader("HX-Trigger")?.includes('"toast"')) return;
  toast(FAILURES[xhr.status] ?? "The server could not answer. Try again in a moment.", "error");
});
document.addEventListener("htmx:sendError", () => toast("The server cannot be reached. Nothing was sent.", "error"));
document.addEventListener("htmx:timeout", () => toast("The server took too long to answer.", "error"));

// A session that ended answers with the sign-in page: go there instead of swapping it into a corner of this one.
document.addEventListener("htmx:beforeSwap", (event) => {
  const landed = new URL(event.detail.xhr.responseURL || location.href, location.href);
  if (landed.pathname === document.body.dataset.signIn && location.pathname !== landed.pathname) {
    event.detail.shouldSwap = false;
    reloadSignedOut();
  }
});
