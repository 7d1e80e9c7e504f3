// Keeps marked parts of a page true. <section id="..." data-live="topic topic" data-live-url="/part/"> is fetched
// again when the socket announces another version of a topic; without a socket, every 15 s. See docs/look.md.
import { prepare, reloadSignedOut } from "./forms.js";
import { morph } from "./morph.js";
import { hasSight, lookAgain, sightIn, sightIs } from "./sight.js";
import { freshen } from "./times.js";

const FETCH_GAP_MS = 1000;
const POLL_MS = 15000;
const SLOW_POLL_MS = 60000; // with a socket: what was never announced is found, too
const MOST_TRIES = 3;
const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 30000;
const RETURN_MS = 5000; // after a restart of the server its viewers return over so long a time
const SUMMARY_GAP_MS = 15000;
const SIGHT = "sight"; // asked for as a topic: its version is what the reader may see
const RESTARTING = 1012;
const SIGNED_OUT = 4401;
const SIGNED_OUT_MS = 1000; // another tab may just be given the cookie of a new session

const indicator = document.getElementById("live-status");
const summary = document.getElementById("live-summary");
const states = new WeakMap();
let socket = null, watched = "", failures = 0, lostAt = null, staleAt = null; // no socket; parts that cannot be fetched

const sections = () => [...document.querySelectorAll("[data-live][data-live-url]")];
const topicsOf = (section) => section.dataset.live.split(/\s+/).filter(Boolean);
const isLive = () => socket?.readyState === WebSocket.OPEN;

function stateOf(section) {
  if (!states.has(section)) {
    states.set(section, { etag: "", announced: new Map(), shown: versionsIn(section), tries: 0, wanted: false, busy: false, timer: 0, fetchedAt: 0, told: section.dataset.liveSummary });
  }
  return states.get(section);
}

// What the server rendered: data-live-version has a number for each topic, in their order.
function versionsIn(section) {
  const numbers = section.dataset.liveVersion?.split(/\s+/) ?? [];
  return new Map(topicsOf(section).map((topic, place) => [topic, Number(numbers[place])]));
}

function heard({ topic, version }) {
  if (topic === SIGHT) return sightIs(version);
  for (const section of sections()) {
    if (!topicsOf(section).includes(topic)) continue;
    const state = stateOf(section);
    state.announced.set(topic, version);
    state.tries = 0;
    if (state.shown.get(topic) !== version) want(section);
  }
}

// An answer may be older than what was announced while it was on its way, or kept for others: then once more, soon.
const isBehind = (state) => [...state.announced].some(([topic, version]) => state.shown.get(topic) < version);

/** Fetch `section` soon: at most once a second, one request at a time, never in a hidden tab. */
function want(section) {
  const state = stateOf(section);
  state.wanted = true;
  if (state.busy || state.timer || document.hidden) return;
  const wait = Math.max(0, state.fetchedAt + FETCH_GAP_MS - performance.now());
  state.timer = setTimeout(() => {
    state.timer = 0;
    if (section.isConnected && !document.hidden) refresh(section, state);
  }, wait);
}

async function refresh(section, state) {
  state.busy = true;
  state.wanted = false;
  state.fetchedAt = performance.now();
  try {
    const headers = { "X-Chamber-Fragment": "1", Accept: "text/html" };
    if (state.etag) headers["If-None-Match"] = state.etag;
    const known = [...state.announced].filter(([, version]) => version > 0);
    if (known.length && isLive()) headers["X-Chamber-Heard"] = known.map((pair) => pair.join("=")).join(" ");
    const response = await fetch(section.dataset.liveUrl, { headers, cache: "no-store", redirect: "manual" });
    await take(section, state, response);
    staleAt = null;
    show();
  } catch {
    staleAt ??= new Date();
    show();
    setTimeout(() => section.isConnected && want(section), POLL_MS);
  }
  state.busy = false;
  if (state.wanted || (isBehind(state) && ++state.tries < MOST_TRIES)) want(section);
}

async function take(section, state, response) {
  if (response.type === "opaqueredirect" || response.status === 401) return location.reload();
  if (response.status === 403 || response.status === 404) return retire(section, response.status);
  if (response.status === 304) return void state.announced.forEach((version, topic) => state.shown.set(topic, version));
  if (!response.ok) throw new Error(`The fragment answered ${response.status}.`);
  const html = await response.text();
  state.etag = response.headers.get("ETag") ?? "";
  swap(section, html);
  state.shown = versionsIn(section);
  if (section.dataset.liveSummary && section.dataset.liveSummary !== state.told) tell(section, state);
}

/** Put `html` in place: the section itself where the answer holds it by its id, else its content. */
function swap(section, html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const whole = section.id && parsed.getElementById(section.id);
  if (whole) {
    morph(section, document.adoptNode(whole));
  } else {
    const wanted = section.cloneNode(false);
    wanted.append(...parsed.body.childNodes);
    morph(section, wanted);
  }
  freshen(section);
  prepare(section);
  window.htmx?.process(section);
  watch();
  sightIn(section);
}

function retire(section, status) {
  const note = document.createElement("p");
  note.className = "live-note";
  note.textContent = status === 403 ? "You may no longer see this part." : "This is gone, or no longer visible to you.";
  section.removeAttribute("data-live");
  stateOf(section).announced.clear();
  section.replaceChildren(note);
  lookAgain();
}

let tellTimer = 0, toldAt = -SUMMARY_GAP_MS;

// A screen reader hears the latest summary, not every change.
function tell(section, state) {
  clearTimeout(tellTimer);
  tellTimer = setTimeout(() => {
    toldAt = performance.now();
    state.told = section.dataset.liveSummary;
    summary.textContent = state.told;
  }, Math.max(500, toldAt + SUMMARY_GAP_MS - performance.now()));
}

function watch() {
  const topics = [...new Set([...sections().flatMap(topicsOf), ...(hasSight() ? [SIGHT] : [])])].sort();
  if (!isLive() || topics.join(" ") === watched) return;
  watched = topics.join(" ");
  socket.send(JSON.stringify({ watch: topics }));
}

function show() {
  // Once lost, not before something is heard: a server without its database opens sockets, too.
  const since = lostAt ?? staleAt;
  const live = isLive() && !since;
  indicator.hidden = false;
  indicator.dataset.state = live ? "live" : since ? "off" : "opening";
  const clock = since?.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  indicator.textContent = live ? "Live" : since ? `Not live since ${clock}` : "Connecting";
}

function connect() {
  if (socket && socket.readyState <= WebSocket.OPEN) return;
  const path = document.body.dataset.liveSocket;
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const opened = new WebSocket(`${scheme}//${location.host}${path}`);
  socket = opened;
  opened.addEventListener("open", () => {
    watched = "";
    watch();
    show();
  });
  opened.addEventListener("message", ({ data }) => {
    failures = 0;
    if (lostAt) {
      lostAt = null;
      show();
    }
    heard(JSON.parse(data));
  });
  opened.addEventListener("close", ({ code }) => {
    lostAt ??= new Date();
    show();
    if (code === SIGNED_OUT) return setTimeout(reloadSignedOut, SIGNED_OUT_MS);
    // Full jitter: after a restart of the server its viewers do not return in one moment.
    const bound = Math.min(LAST_RETRY_MS, code === RESTARTING ? RETURN_MS : FIRST_RETRY_MS * 2 ** failures++);
    setTimeout(connect, FIRST_RETRY_MS / 2 + Math.random() * bound);
  });
}

function catchUp() {
  if (document.hidden) return;
  if (!isLive()) {
    sections().forEach(want);
    return;
  }
  sections().filter((section) => stateOf(section).wanted).forEach(want);
}

if (document.body.dataset.liveSocket && sections().length) {
  connect();
  show();
  setInterval(() => isLive() || catchUp(), POLL_MS);
  setInterval(() => isLive() && !document.hidden && sections().forEach(want), SLOW_POLL_MS * (0.75 + Math.random() / 2));
  document.addEventListener("visibilitychange", catchUp);
  document.addEventListener("htmx:load", watch);
  document.addEventListener("chamber:sight", watch);
  addEventListener("pagehide", () => socket?.close());
  addEventListener("pageshow", (event) => event.persisted && connect());
}
