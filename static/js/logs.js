// Follows a pod's log. <section data-logs="address of the API"> has [data-logs-lines], [data-logs-state],
// [data-logs-pause], [data-logs-end]. Text is only ever put in as text. A hidden tab does not listen.

const FIRST_LINES = 1000;
const MOST_LINES = 5000;
const NEAR_PX = 40;
const AGAIN_MS = 5000;

const followed = new Map();
const pods = new Map(); // the pod that was chosen last, by the address of its workload's logs

class Log {
  constructor(section) {
    const find = (name) => section.querySelector(`[data-logs-${name}]`);
    [this.section, this.box, this.state, this.pause, this.end] = [section, find("lines"), find("state"), find("pause"), find("end")];
    this.where = this.state.textContent.trim();
    this.place = "";
    this.waiting = [];
    this.kept = 0;
    this.unseen = 0;
    this.over = false;
    this.box.textContent = "";
    this.pause.hidden = false;
    this.pause.addEventListener("click", () => this.setPaused(!this.paused));
    this.end.addEventListener("click", () => this.toEnd());
    this.box.addEventListener("scroll", () => this.isAtEnd() && this.showUnseen(0), { passive: true });
    this.open();
  }

  get paused() {
    return this.pause.getAttribute("aria-pressed") === "true";
  }

  open() {
    if (this.source || this.over || document.hidden) return;
    const query = new URLSearchParams({ follow: "true", ...(this.place ? { after: this.place } : { tail: FIRST_LINES }) });
    const source = new EventSource(`${this.section.dataset.logs}&${query}`);
    this.source = source;
    this.say("connecting");
    source.addEventListener("open", () => this.say("logsSilent" in this.section.dataset ? "agent away" : "live"));
    source.addEventListener("lines", (event) => this.take(event));
    source.addEventListener("note", (event) => this.note(JSON.parse(event.data)));
    source.addEventListener("end", (event) => this.finish(JSON.parse(event.data)));
    // What is opened again here goes on from the place that is known here, and begins anew where none is.
    source.addEventListener("error", () => {
      this.close();
      if (!this.place) this.clear();
      this.say("not connected");
      setTimeout(() => this.section.isConnected && this.open(), AGAIN_MS);
    });
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  take(event) {
    if (!this.section.isConnected) return this.close();
    const { text, dropped } = JSON.parse(event.data);
    this.place = event.lastEventId || this.place;
    if (dropped) this.put(dropped, true);
    if (text) this.put(text, false);
    if (text) this.heardAgain();
  }

  note({ code, message }) {
    this.say(code === "away" ? "agent away" : "live");
    if (code === "back") this.heardAgain();
    if (message) this.put(message, true);
  }

  // What was said of the cluster's silence holds no more.
  heardAgain() {
    if (!("logsSilent" in this.section.dataset)) return;
    delete this.section.dataset.logsSilent;
    this.section.querySelector("[data-logs-silence]")?.remove();
    this.say("live");
  }

  finish({ code, message }) {
    this.over = true;
    this.close();
    if (message) this.put(message, true);
    this.say(code === "ended" ? "ended" : "");
    this.setPaused(false);
    this.pause.hidden = true;
  }

  put(text, isNote) {
    this.waiting.push([text, isNote]);
    if (this.paused) return this.trimWaiting();
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  // What was not looked at is as bounded as what is shown.
  trimWaiting() {
    let weight = this.waiting.reduce((sum, [text]) => sum + weigh(text), 0);
    while (weight > MOST_LINES && this.waiting.length > 1) weight -= weigh(this.waiting.shift()[0]);
    this.pause.textContent = `Go on (${this.waiting.reduce((sum, [text]) => sum + countLines(text), 0)} new)`;
  }

  draw() {
    this.frame = null;
    const stays = !this.isAtEnd();
    const top = this.box.scrollTop;
    let added = 0;
    for (const [text, isNote] of this.waiting.splice(0)) {
      const part = document.createElement("span");
      part.textContent = isNote ? `… ${text}` : text;
      if (isNote) part.className = "logs-note";
      part.dataset.weight = weigh(text);
      this.kept += weigh(text);
      added += countLines(text);
      this.box.append(part);
    }
    const before = this.box.scrollHeight;
    while (this.kept > MOST_LINES && this.box.childElementCount > 1) {
      this.kept -= Number(this.box.firstElementChild.dataset.weight);
      this.box.firstElementChild.remove();
    }
    if (stays) this.box.scrollTop = top - (before - this.box.scrollHeight);
    else this.toEnd();
    this.showUnseen(stays ? this.unseen + added : 0);
  }

  clear() {
    this.box.textContent = "";
    this.waiting = [];
    this.kept = 0;
  }

  setPaused(paused) {
    this.pause.setAttribute("aria-pressed", paused);
    this.pause.textContent = paused ? "Go on" : "Pause";
    if (!paused && this.waiting.length) this.draw();
  }

  isAtEnd() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR_PX;
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.showUnseen(0);
  }

  showUnseen(count) {
    this.unseen = count;
    this.end.hidden = count === 0;
    this.end.textContent = `Jump to end (${count} new)`;
  }

  say(word) {
    this.state.textContent = [this.where, word].filter(Boolean).join(", ");
  }
}

const countLines = (text) => text.split("\n").length - 1 || 1;

// Very long lines count for several: what a page holds is bounded in characters, too.
const weigh = (text) => Math.max(countLines(text), Math.ceil(text.length / 400));

function bind(root) {
  for (const [section, log] of followed) {
    if (section.isConnected) continue;
    log.close();
    followed.delete(section);
  }
  const found = root.matches?.("[data-logs]") ? [root] : root.querySelectorAll("[data-logs]");
  for (const section of found) if (!followed.has(section)) followed.set(section, new Log(section));
}

// The section is fetched anew with each attempt: who looked at a pod looks at the same one then.
document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-logs] [name=pod]")) pods.set(new URL(target.form.action).pathname, target.value);
});
document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (pods.has(detail.path)) detail.parameters.pod ??= pods.get(detail.path);
});

bind(document);
document.addEventListener("htmx:load", (event) => bind(event.detail.elt));
document.addEventListener("visibilitychange", () => {
  for (const log of followed.values()) document.hidden ? log.close() : log.open();
});
addEventListener("pagehide", () => followed.forEach((log) => log.close()));
addEventListener("pageshow", (event) => event.persisted && followed.forEach((log) => log.open()));
