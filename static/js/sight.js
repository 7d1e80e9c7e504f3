// Takes from an open page what its reader may no longer see. The server tells by a number what that is (teams/sight.py):
// in every page, beside what is polled, and over the socket.
import { prepare } from "./forms.js";
import { morph } from "./morph.js";
import { freshen } from "./times.js";

const AGAIN_MS = 2000;
const GONE = [401, 403, 404, 410];
const PARTS = [".site > header", ".site > main"];

const numberIn = (root) => root.querySelector("[data-sight]")?.dataset.sight;

let shown = numberIn(document), looking = false;

/** Whether the page has a number, and the server is to be asked for its present one. */
export const hasSight = () => shown !== undefined;

/** Look again at the page where `number` is not the one with which it was made. */
export function sightIs(number) {
  if (hasSight() && number !== undefined && String(number) !== shown) lookAgain();
}

/** The same, with what a part of the page says that was fetched. */
export const sightIn = (root) => sightIs(root.dataset.sight ?? numberIn(root));

/** Fetch the whole page: leave it where it may no longer be seen, else show what is left of it. */
export async function lookAgain() {
  if (looking || !hasSight()) return;
  looking = true;
  let again = false;
  try {
    const response = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (GONE.includes(response.status)) leave();
    else if (response.status === 429 || response.status >= 500) again = true;
    else take(response, new DOMParser().parseFromString(await response.text(), "text/html"));
  } catch {
    again = true;
  }
  looking = false;
  if (again) setTimeout(lookAgain, AGAIN_MS);
}

function take(response, page) {
  const number = numberIn(page);
  if (number === shown) return;
  // What answers a form has no page of its own to be looked at again.
  if (!number || !response.ok || response.redirected) return leave();
  shown = number;
  for (const part of PARTS) {
    const [from, to] = [document.querySelector(part), page.querySelector(part)];
    if (!from || !to) continue;
    morph(from, document.adoptNode(to));
    freshen(from);
    prepare(from);
    window.htmx?.process(from);
  }
  document.dispatchEvent(new CustomEvent("chamber:sight"));
}

/** Show nothing of the page any more, and go to what its address answers now. */
function leave() {
  document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  document.querySelector(".site > main")?.replaceChildren();
  // Not reload(): a page that answered a form would have it sent again.
  location.replace(location.pathname + location.search);
}
