// Makes one element like another by the fewest changes, so that rows keep their place, focus and scroll.
// Children with an id or a data-key are found again wherever they have moved; others are matched in order.

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "");

const sameKind = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function isEdited(control) {
  if (control === document.activeElement) return true;
  if (control.type === "checkbox" || control.type === "radio") return control.checked !== control.defaultChecked;
  if (control.nodeName === "SELECT") {
    return [...control.options].some((option) => option.selected !== option.defaultSelected)
      && [...control.options].some((option) => option.defaultSelected);
  }
  return control.value !== control.defaultValue;
}

// What belongs to the reader, not to the server: an opened disclosure, and what scripts have revealed.
const isKept = (element, name) =>
  (name === "open" && ["DETAILS", "DIALOG"].includes(element.nodeName))
  || (name === "hidden" && ("ifSelected" in element.dataset || "copy" in element.dataset || "open" in element.dataset));

function morphAttributes(from, to) {
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !isKept(from, name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !isKept(from, name)) from.setAttribute(name, value);
  }
}

function morphNode(from, to, asked = false) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (("liveKeep" in from.dataset && !asked) || from.isEqualNode(to)) return;
  if (from.matches("input, textarea, select") && isEdited(from)) return;
  morphAttributes(from, to);
  morphChildren(from, to);
  if (from.matches("input:not([type=checkbox], [type=radio]), textarea")) from.value = from.defaultValue;
}

function morphChildren(from, to) {
  const keyed = new Map([...from.children].filter(keyOf).map((child) => [keyOf(child), child]));
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const key = keyOf(wanted);
    let match = key ? keyed.get(key) : place;
    if (!match || !sameKind(match, wanted)) match = null;
    keyed.delete(key);
    if (!match) {
      from.insertBefore(wanted, place);
    } else {
      if (match === place) place = place.nextSibling;
      else from.insertBefore(match, place);
      morphNode(match, wanted);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** Make `from` like `to`; what is being edited, opened or focused stays so. */
export function morph(from, to) {
  const focused = from.contains(document.activeElement) ? document.activeElement : null;
  morphNode(from, to, true);
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
}
