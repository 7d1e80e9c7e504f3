// Passkeys: <form data-passkey="create" or "get">, whose hidden field `credential` takes what the browser answers.
// What to ask is in data-passkey-asked, or is fetched from data-passkey-url: then nothing is asked before somebody wants it.

const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

const SENTENCES = {
  InvalidStateError: "This device has a passkey for your account already.",
  NotAllowedError: "Nothing was used: it was stopped, took too long, or this device has no passkey that fits.",
  NotSupportedError: "This device makes no such passkey.",
  SecurityError: "The browser uses passkeys over https only, and for the name that they were made for.",
};

// JSON writes bytes as base64url; the browser takes and gives buffers.
function opened({ publicKey: asked }) {
  const listed = (name) => asked[name]?.map((each) => ({ ...each, id: bytes(each.id) }));
  return {
    publicKey: {
      ...asked,
      challenge: bytes(asked.challenge),
      ...(asked.user && { user: { ...asked.user, id: bytes(asked.user.id) } }),
      ...(asked.excludeCredentials && { excludeCredentials: listed("excludeCredentials") }),
      ...(asked.allowCredentials && { allowCredentials: listed("allowCredentials") }),
    },
  };
}

function closed(found) {
  const answer = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (found.response[name]) answer[name] = text(found.response[name]);
  }
  if (found.response.getTransports) answer.transports = found.response.getTransports();
  return JSON.stringify({
    id: found.id,
    rawId: text(found.rawId),
    type: found.type,
    response: answer,
    clientExtensionResults: found.getClientExtensionResults(),
  });
}

async function asked(form) {
  if (form.dataset.passkeyAsked) return JSON.parse(form.dataset.passkeyAsked);
  const response = await fetch(form.dataset.passkeyUrl, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`The server answers ${response.status}. Try again in a moment.`);
  return response.json();
}

async function answered(form) {
  const options = opened(await asked(form));
  if (form.dataset.passkey === "get") return navigator.credentials.get(options);
  const alone = form.elements.alone?.checked;
  options.publicKey.authenticatorSelection = {
    ...options.publicKey.authenticatorSelection,
    residentKey: alone ? "required" : "discouraged",
    requireResidentKey: Boolean(alone),
    userVerification: alone ? "required" : "preferred",
  };
  return navigator.credentials.create(options);
}

function say(form, sentence) {
  const box = form.querySelector("[data-passkey-wrong]");
  box.hidden = !sentence;
  box.querySelector("div").textContent = sentence;
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!("passkey" in form.dataset) || form.elements.credential.value) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const button = form.querySelector("button");
  if (!window.PublicKeyCredential) return say(form, SENTENCES.SecurityError);
  button.disabled = true;
  say(form, "");
  try {
    form.elements.credential.value = closed(await answered(form));
    form.submit();
  } catch (error) {
    say(form, SENTENCES[error.name] ?? error.message);
    button.disabled = false;
  }
}, true);

// Who comes back by the browser's history has an answer in the form that was used already.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("[data-passkey]")) form.elements.credential.value = "";
});
