// System, light or dark. The choice is a cookie, so the server already renders the page in it: no flash.

const LABELS = { system: "as the system", light: "light", dark: "dark" };
const NEXT = { system: "light", light: "dark", dark: "system" };
const YEAR_SECONDS = 31536000;

const button = document.getElementById("theme-toggle");
const current = () => document.documentElement.dataset.theme ?? "system";

function describe() {
  button.title = `Theme: ${LABELS[current()]}`;
  button.setAttribute("aria-label", button.title);
}

if (button) {
  button.hidden = false;
  describe();
  button.addEventListener("click", () => {
    const chosen = NEXT[current()];
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    const age = chosen === "system" ? 0 : YEAR_SECONDS;
    document.cookie = `theme=${chosen}; path=/; max-age=${age}; samesite=lax`;
    describe();
  });
}
