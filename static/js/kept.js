// Keeps what was filled into a form whose session ended, until its person is back on that page: in this tab alone, for an
// hour at most. Passwords, codes, files, hidden fields and those of secrets (data-secret) are not kept.

const KEY = "chamber:filled-in";
const LONGEST_MS = 60 * 60 * 1000;
const NEVER = ["password", "file", "hidden", "submit", "button", "reset", "image"];

const here = () => location.pathname + location.search;
// A password that is shown is of type text.
const isSecret = (field) => /password|one-time-code/.test(field.autocomplete) || "secret" in field.dataset
  || (field.id && document.querySelector(`[data-show="${CSS.escape(field.id)}"]`));
const isKept = (field) => field.name && !field.hidden && !NEVER.includes(field.type) && !isSecret(field);
const fieldsOf = (form) => [...form.elements].filter(isKept);
const postForms = () => [...document.forms].filter((form) => form.method === "post");

// Many forms of a page have neither an address nor an id.
function formKey(form) {
  const own = [form.getAttribute("action"), form.getAttribute("id"), ...fieldsOf(form).map((field) => field.name)];
  return JSON.stringify(own);
}

const isToggle = (field) => field.type === "checkbox" || field.type === "radio";

function valueOf(field) {
  if (isToggle(field)) return field.checked;
  return field.options ? [...field.options].map((option) => option.selected) : field.value;
}

function valueAtFirst(field) {
  if (isToggle(field)) return field.defaultChecked;
  return field.options ? [...field.options].map((option) => option.defaultSelected) : field.defaultValue;
}

/** Whether a form holds what its page would not show if it were fetched again. A select without a default shows its
 * first option, which no option calls its default. */
function isFilledIn(form) {
  if (touched.has(named(form)) || "filled" in form.dataset) return true;
  if (form.querySelector("[aria-invalid=true]")) return true;
  return fieldsOf(form).some((field) => {
    const [first, now] = [valueAtFirst(field), valueOf(field)];
    if (!field.options || first.includes(true) || field.multiple) return String(first) !== String(now);
    return field.selectedIndex > 0;
  });
}

// What is typed becomes a form's default where the server renders it again, as another team's or job class's does.
const touched = new Set();
const named = (form) => form.getAttribute("id") || form.getAttribute("action") || formKey(form);
document.addEventListener("input", ({ target, isTrusted }) => isTrusted && target.form && touched.add(named(target.form)));

function write(entry) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(entry));
  } catch {
    // No storage, or it is full: the form is lost, as it is without scripts.
  }
}

function forget() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // There was none.
  }
}

/** What is kept; null where there is nothing, or it was too old and is forgotten. */
function read() {
  let entry = null;
  try {
    entry = JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
  if (!entry || Date.now() - entry.at <= LONGEST_MS) return entry;
  forget();
  return null;
}

function keep(forms) {
  const { person } = document.body.dataset;
  const kept = [...forms].map((form) => [formKey(form), fieldsOf(form).map((field) => [field.name, valueOf(field)])]);
  const filled = kept.filter(([, fields]) => fields.length);
  if (person && filled.length) write({ path: here(), person, at: Date.now(), forms: filled });
}

/** Keep the forms of this page that hold something, before the page is left for the one to sign in. */
export function keepForms() {
  keep(postForms().filter(isFilledIn));
}

// A form that is sent after its session ended is answered by the page to sign in. One that htmx sends stays in its page.
addEventListener("submit", (event) => {
  const { target: form } = event;
  if (!event.defaultPrevented && form.method === "post") keep([form]);
});

function set(field, value) {
  if (isToggle(field)) field.checked = value;
  else if (field.options) [...field.options].forEach((option, index) => { option.selected = value[index] === true; });
  else field.value = value;
}

function fill(form, kept) {
  const fields = fieldsOf(form);
  for (const [name, value] of kept) {
    const index = fields.findIndex((field) => field.name === name);
    if (index >= 0) set(fields.splice(index, 1)[0], value);
  }
  form.closest("details")?.setAttribute("open", "");
  const dialog = form.closest("dialog");
  if (dialog && !dialog.open) dialog.showModal();
  form.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Fill in again what was kept, where this is its page and its person. */
export function bringBack() {
  const entry = read();
  if (!entry) return;
  setTimeout(read, entry.at + LONGEST_MS + 1 - Date.now()); // also where nobody comes back
  const { person, signIn } = document.body.dataset;
  if (location.pathname === signIn) write({ ...entry, awaited: true });
  else if (!person) return; // on the way in: a second factor, a new password
  else if (!entry.awaited || entry.person !== person) forget();
  else if (entry.path === here()) {
    forget();
    const forms = postForms();
    const found = entry.forms.map(([key, fields]) => [forms.find((form) => formKey(form) === key), fields]);
    const there = found.filter(([form]) => form);
    there.forEach(([form, fields]) => fill(form, fields));
    if (!there.length) return;
    const message = "What you had filled in is here again. It was not sent.";
    document.dispatchEvent(new CustomEvent("toast", { detail: { message, level: "info" } }));
  }
}
