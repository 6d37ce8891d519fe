// What every page shares: words, keyboard, the polite region. No framework; text enters the page only as text.
const wordsElement = document.getElementById("words");
export const words = JSON.parse(wordsElement ? wordsElement.textContent : "{}");
export const lang = words.lang || "en";
export const up = document.body.dataset.up || "./";

export function say(key, values = {}) {
  return (words[key] || key).replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) made.append(child);
  return made;
}

let lastSpoken = 0;
export function announce(text, minimumGap = 30000) {
  const now = Date.now();
  const place = document.getElementById("polite");
  if (now - lastSpoken < minimumGap || place.textContent === text) return;
  lastSpoken = now;
  place.textContent = text;
}

const plain = new Intl.NumberFormat(lang, { maximumFractionDigits: 4 });
export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return powers(value);
  const digits = size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 ? 3 : 5;
  return new Intl.NumberFormat(lang, { maximumFractionDigits: Number.isInteger(value) ? 0 : digits }).format(value);
}
function powers(value) {
  const [mantissa, exponent] = value.toExponential(1).split("e");
  const raised = String(Number(exponent)).replace(/[-0-9]/g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
  return `${plain.format(Number(mantissa))}×10${raised}`;
}
const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
export function compact(value) {
  if (value === null || !Number.isFinite(value)) return figure(value);
  if (Math.abs(value) < 10000) return new Intl.NumberFormat(lang, { maximumFractionDigits: 2 }).format(value);
  const [size, prefix] = PREFIXES.find(([limit]) => Math.abs(value) >= limit);
  return new Intl.NumberFormat(lang, { maximumSignificantDigits: 4 }).format(value / size) + "\u202f" + prefix;
}
export function duration(seconds) {
  const whole = Math.round(seconds);
  const parts = [[Math.floor(whole / 86400), "d"], [Math.floor((whole % 86400) / 3600), "h"], [Math.floor((whole % 3600) / 60), "min"], [whole % 60, "s"]];
  while (parts.length > 1 && !parts[0][0]) parts.shift();
  return parts.slice(0, 2).filter(([n], index) => n || !index).map(([n, unit]) => `${n}\u202f${unit}`).join(" ");
}

export function storage(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`umsicht-${name}`);
    localStorage.setItem(`umsicht-${name}`, value);
  } catch { /* private windows have no storage; nothing depends on it */ }
  return null;
}

// Keys: single letters do nothing while somebody types, and can be switched off altogether.
const handlers = new Map();
export function onKey(key, handler) { handlers.set(key, handler); }
let waitingForGo = 0;
const GO = { r: "", l: "run", d: "run/diagnosis", s: "run/samples", c: "compare" };

function go(letter) {
  if (!(letter in GO)) return;
  const here = document.querySelector("[data-run]");
  const target = GO[letter];
  if (target.startsWith("run")) {
    const link = document.querySelector(`.tabs [data-tab="${{ l: "live", d: "diagnosis", s: "samples" }[letter]}"]`);
    const row = document.querySelector("tr.at a.run-link");
    if (link) location.href = link.href;
    else if (row) location.href = row.href + target.slice(4);
    else if (here && here.dataset.run) location.href = `${up}run/${encodeURIComponent(here.dataset.run)}/`;
  } else location.href = up + target;
}

const typing = (target) => target.closest("input:not([type=checkbox]):not([type=radio]):not([type=range]), textarea, select, [contenteditable]");
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (event.key === "?") { openKeys(); event.preventDefault(); return; }
  if (storage("keys") === "off") return;
  if (Date.now() - waitingForGo < 1200) { waitingForGo = 0; go(event.key); event.preventDefault(); return; }
  if (event.key === "g") { waitingForGo = Date.now(); return; }
  const handler = handlers.get(event.key);
  if (handler && handler(event) !== false) event.preventDefault();
});

const dialog = document.getElementById("keys-dialog");
function openKeys() { if (dialog && !dialog.open) dialog.showModal(); }
const keysButton = document.getElementById("keys");
if (keysButton) { keysButton.hidden = false; keysButton.addEventListener("click", openKeys); }
const keysOff = document.getElementById("keys-off");
if (keysOff) {
  keysOff.checked = storage("keys") === "off";
  keysOff.addEventListener("change", () => storage("keys", keysOff.checked ? "off" : "on"));
}

// Polling: every two seconds, only while the page is visible.
export function poll(task, every = 2000) {
  const live = document.getElementById("live");
  let paused = false, timer = 0, running = false;
  async function tick() {
    clearTimeout(timer);
    if (paused || document.hidden || running) return;
    running = true;
    try { await task(); show("live"); } catch (problem) { show("offline"); if (!(problem instanceof TypeError)) console.error(problem); }
    running = false;
    timer = setTimeout(tick, every);
  }
  function show(state) {
    if (!live) return;
    live.hidden = false;
    live.className = `live ${state === "live" ? "" : state}`;
    live.textContent = say(state);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
  timer = setTimeout(tick, every);
  return {
    toggle() { paused = !paused; if (paused) show("paused"); else tick(); return paused; },
    now: tick,
  };
}

export async function ask(url) {
  const answer = await fetch(url, { credentials: "same-origin", headers: { accept: "application/json" } });
  if (!answer.ok) throw new TypeError(`${answer.status}`);
  return answer;
}

/** Put markup rendered by our own server (already escaped there) in place of an element's content, without losing focus inside it. */
export function replaceMarkup(target, markup) {
  if (target.dataset.markup === markup) return;
  target.dataset.markup = markup;
  const parsed = new DOMParser().parseFromString(`<table><tbody>${markup}</tbody></table>`, "text/html");
  const isRows = target.tagName === "TBODY";
  const source = isRows ? parsed.querySelector("tbody") : new DOMParser().parseFromString(markup, "text/html").body;
  target.replaceChildren(...source.childNodes);
}
