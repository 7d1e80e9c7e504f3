// Confirmation, select-all, copy, submit on change, open a dialog, show a password: all by data- attributes, all optional.
import { keepForms } from "./kept.js";

const dialog = document.getElementById("confirm-dialog");

// <form data-confirm="Cancel train-1?"> or the same on one of its buttons. Without scripts the form just posts.
document.addEventListener("submit", (event) => {
  const form = event.target, button = event.submitter;
  const asked = [button, form].find((element) => element?.dataset.confirm);
  if (!asked || !dialog) return;
  if (form.dataset.confirmed) {
    delete form.dataset.confirmed;
    return;
  }
  event.preventDefault();
  event.stopImmediatePropagation();
  dialog.querySelector("#confirm-title").textContent = asked.dataset.confirm;
  dialog.querySelector("#confirm-text").textContent = asked.dataset.confirmText ?? "";
  dialog.querySelector("#confirm-ok").textContent = asked.dataset.confirmButton ?? (button?.textContent.trim() || "Go on");
  dialog.returnValue = "";
  dialog.showModal();
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "ok" || !form.isConnected) return;
    form.dataset.confirmed = "1";
    form.requestSubmit(button?.isConnected ? button : undefined);
  }, { once: true });
}, true);

// Parts that were fetched again hold no token against forgery, for they are the same for many: it is the page's own.
document.addEventListener("submit", ({ target: form }) => {
  const known = JSON.parse(document.body.getAttribute("hx-headers") ?? "{}")["X-CSRFToken"];
  if (!known || form.method !== "post" || form.elements.csrfmiddlewaretoken) return;
  const token = document.createElement("input");
  token.type = "hidden";
  token.name = "csrfmiddlewaretoken";
  token.value = known;
  form.append(token);
});

// A form that was kept while its person showed that it is them is sent by itself.
addEventListener("DOMContentLoaded", () => document.querySelector("form[data-go-on]")?.requestSubmit());

// A page that answered a form is fetched by a reload, not sent again: a token or a link is made once. One that refused a
// form is sent again, for else what was filled in is gone.
const [arrival] = performance.getEntriesByType("navigation");
if (arrival?.responseStatus === 200) history.replaceState(history.state, "");

let submitted = false;
addEventListener("submit", (event) => { submitted ||= !event.defaultPrevented; });
addEventListener("pageshow", () => { submitted = false; });

/** Load the page again, which then is the one to sign in; not while a form is on its way: its answer comes next, and may
 * hold the cookie of a new session, as that of a changed password does. */
export function reloadSignedOut() {
  if (submitted) return;
  keepForms();
  location.reload();
}

document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-answer], [data-open], [data-copy]");
  if (!target) return;
  if ("answer" in target.dataset) target.closest("dialog").close(target.value);
  if (target.dataset.open) {
    target.closest("[popover]")?.hidePopover();
    document.getElementById(target.dataset.open)?.showModal();
  }
  if (target.dataset.copy) {
    const before = target.innerHTML;
    await navigator.clipboard.writeText(document.getElementById(target.dataset.copy).textContent.trim());
    target.textContent = "Copied";
    setTimeout(() => { target.innerHTML = before; }, 2000);
  }
});

// <button data-show="id_password">: what was typed is readable while it is pressed, and hidden again as it is sent.
function show(button, readable) {
  document.getElementById(button.dataset.show).type = readable ? "text" : "password";
  button.setAttribute("aria-pressed", readable);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-show]");
  if (button) show(button, button.getAttribute("aria-pressed") !== "true");
});
document.addEventListener("submit", ({ target: form }) => {
  form.querySelectorAll("[data-show][aria-pressed=true]").forEach((button) => show(button, false));
});

// A click beside an open dialog closes it.
document.addEventListener("click", (event) => {
  if (event.target instanceof HTMLDialogElement && event.target.open) event.target.close();
});

const boxes = (all) => all.closest("[data-selection]")?.querySelectorAll("[data-select]") ?? [];

function showSelection(region) {
  const chosen = region.querySelectorAll("[data-select]:checked").length;
  const total = region.querySelectorAll("[data-select]").length;
  region.querySelectorAll("[data-selected-count]").forEach((element) => { element.textContent = chosen; });
  region.querySelectorAll("[data-if-selected]").forEach((element) => { element.hidden = chosen === 0; });
  region.querySelectorAll("[data-select-all]").forEach((all) => {
    all.checked = chosen > 0 && chosen === total;
    all.indeterminate = chosen > 0 && chosen < total;
  });
}

document.addEventListener("change", (event) => {
  const { target } = event;
  if ("selectAll" in target.dataset) boxes(target).forEach((box) => { box.checked = target.checked; });
  const region = target.closest("[data-selection]");
  if (region && ("selectAll" in target.dataset || "select" in target.dataset)) showSelection(region);
  if (target.closest("[data-submit-on-change]")) target.form?.requestSubmit();
});

/** Make `root` ready: reveal what needs scripts, hide what is for pages without them, count what is selected. */
export function prepare(root) {
  if (navigator.clipboard) root.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
  root.querySelectorAll("[data-open], [data-show]").forEach((button) => { button.hidden = false; });
  root.querySelectorAll("[data-without-scripts]").forEach((element) => { element.hidden = true; });
  root.querySelectorAll("[data-selection]").forEach(showSelection);
  if (root.matches?.("[data-selection]")) showSelection(root);
}

function arrive(root) {
  prepare(root);
  root.querySelector("[data-focus]")?.focus();
}

arrive(document);
document.addEventListener("htmx:load", (event) => event.detail.elt === document.body || arrive(event.detail.elt));
