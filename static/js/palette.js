// Ctrl-K or Cmd-K: the links of the navigation and of the menu, those of the page marked data-palette, and a search.

const dialog = document.getElementById("palette-dialog");
const input = dialog?.querySelector("input");
const list = dialog?.querySelector("ul");
let choices = [], chosen = 0;

function entries() {
  const links = document.querySelectorAll("[data-shortcut], #user-menu a, a[data-palette]");
  return [...links].map((link) => ({
    label: link.dataset.palette || link.textContent.trim(),
    keys: link.dataset.shortcut ?? "",
    url: link.href,
  }));
}

function matching(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries().filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)));
  const form = document.querySelector(".site-search");
  if (words.length && form) {
    found.push({ label: `Search workloads for “${text.trim()}”`, keys: "", url: `${form.action}?q=${encodeURIComponent(text.trim())}` });
  }
  return found.slice(0, 50);
}

function option({ label, keys }, index) {
  const item = document.createElement("li");
  item.id = `palette-${index}`;
  item.role = "option";
  item.ariaSelected = String(index === chosen);
  item.append(label);
  if (keys) {
    const hint = document.createElement("kbd");
    hint.textContent = keys;
    item.append(hint);
  }
  item.addEventListener("click", () => go(index));
  return item;
}

function show() {
  list.replaceChildren(...choices.map(option));
  input.setAttribute("aria-activedescendant", choices.length ? `palette-${chosen}` : "");
  list.children[chosen]?.scrollIntoView({ block: "nearest" });
}

function go(index) {
  if (!choices[index]) return;
  dialog.close();
  location.assign(choices[index].url);
}

function filter() {
  choices = matching(input.value);
  chosen = 0;
  show();
}

if (dialog) {
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    if (dialog.open) return dialog.close();
    if (document.querySelector("dialog[open]")) return;
    input.value = "";
    dialog.showModal();
    filter();
    input.focus();
  });
  input.addEventListener("input", filter);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && choices.length) {
      event.preventDefault();
      chosen = (chosen + step + choices.length) % choices.length;
      show();
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(chosen);
    }
  });
}
