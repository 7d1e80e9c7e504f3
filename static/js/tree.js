// The tree of teams: rows that fold, and the cells of figures that come from another room.
// <table data-tree> with rows by data-depth, and a <button data-toggle> in those with rows below them.
// What is folded belongs to the reader: it is kept for the session, and applied again to rows the server renewed.

const KEY = `folded:${location.pathname}`;
const folded = new Set(JSON.parse(sessionStorage.getItem(KEY) ?? "[]"));

function apply(table) {
  let foldedAt = Infinity;
  for (const row of table.tBodies[0].rows) {
    const depth = Number(row.dataset.depth), hide = depth > foldedAt;
    if (!hide) foldedAt = folded.has(row.id) ? depth : Infinity;
    if (row.hidden !== hide) row.hidden = hide;
    const button = row.querySelector("[data-toggle]");
    button?.removeAttribute("hidden");
    button?.setAttribute("aria-expanded", String(!folded.has(row.id)));
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-tree] [data-toggle]");
  if (!button) return;
  const { id } = button.closest("tr");
  if (!folded.delete(id)) folded.add(id);
  sessionStorage.setItem(KEY, JSON.stringify([...folded]));
  apply(button.closest("[data-tree]"));
});

for (const table of document.querySelectorAll("[data-tree]")) {
  apply(table);
  new MutationObserver(() => apply(table)).observe(table, {
    attributeFilter: ["hidden"],
    childList: true,
    subtree: true,
  });
}

// <div data-figures hx-get>: each cell of the answer takes the place of the one with its id; a row that is folded
// away on a page of its own, or being edited, has none.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (!detail.requestConfig.elt.matches("[data-figures]")) return;
  detail.shouldSwap = false;
  const answer = document.createElement("template");
  answer.innerHTML = detail.serverResponse;
  for (const cell of answer.content.querySelectorAll("td[id]")) document.getElementById(cell.id)?.replaceWith(cell);
});
