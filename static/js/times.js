// Keeps relative times and running durations true while a page stays open. Same words as chamber_ui.py.

const MINUTE = 60, HOUR = 3600, DAY = 86400, MONTH = 30 * DAY;
const REFRESH_MS = 1000;

const two = (number) => String(number).padStart(2, "0");

export function relative(seconds, date) {
  const distance = Math.abs(seconds);
  if (distance < MINUTE) return seconds <= 0 ? "just now" : "in a moment";
  if (distance >= MONTH) {
    return `${date.getUTCDate()} ${date.toLocaleString("en-GB", { month: "short", timeZone: "UTC" })} ${date.getUTCFullYear()}`;
  }
  const [unit, size] = distance >= DAY ? ["d", DAY] : distance >= HOUR ? ["h", HOUR] : ["min", MINUTE];
  const amount = `${Math.floor(distance / size)} ${unit}`;
  return seconds < 0 ? `${amount} ago` : `in ${amount}`;
}

export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < MINUTE) return `${whole} s`;
  const inTwo = (size, unit, part, smaller, write) => {
    const rest = Math.floor((whole % size) / part);
    return `${Math.floor(whole / size)} ${unit}${rest ? ` ${write(rest)} ${smaller}` : ""}`;
  };
  if (whole < HOUR) return inTwo(MINUTE, "min", 1, "s", two);
  if (whole < DAY) return inTwo(HOUR, "h", MINUTE, "min", two);
  return inTwo(DAY, "d", HOUR, "h", String);
}

/** Rewrite the times inside `root` that read differently by now. */
export function freshen(root = document) {
  const now = Date.now();
  for (const element of root.querySelectorAll("time[data-relative], time[data-elapsed]")) {
    const at = new Date(element.dateTime);
    const seconds = (at - now) / 1000;
    const words = "elapsed" in element.dataset ? duration(-seconds) : relative(seconds, at);
    if (element.textContent !== words) element.textContent = words;
  }
}

setInterval(() => document.hidden || freshen(), REFRESH_MS);
document.addEventListener("visibilitychange", () => document.hidden || freshen());
