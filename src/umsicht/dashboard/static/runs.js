// The list of runs: refreshed in place, walked by keyboard.
import { ask, onKey, poll, replaceMarkup, say } from "./app.js";

const rows = document.getElementById("rows");
const preparing = document.getElementById("preparing");
let at = -1;

const lines = () => [...rows.querySelectorAll("tr[data-run]")];
function mark(next, scroll = true) {
  const all = lines();
  if (!all.length) return;
  at = Math.max(0, Math.min(all.length - 1, next));
  all.forEach((line, n) => line.classList.toggle("at", n === at));
  if (scroll) {
    all[at].scrollIntoView({ block: "nearest" });
    all[at].querySelector("a.run-link").focus({ preventScroll: true });
  }
}

if (rows) {
  onKey("j", () => mark(at + 1));
  onKey("k", () => mark(at - 1));
  onKey("x", () => { const box = lines()[at]?.querySelector("input[type=checkbox]"); if (box) box.checked = !box.checked; });
  poll(async () => {
    const picked = [...rows.querySelectorAll("input:checked")].map((box) => `run=${encodeURIComponent(box.value)}`);
    const query = new URLSearchParams(location.search).get("q") || "";
    const answer = await (await ask(`api/runs?q=${encodeURIComponent(query)}&${picked.join("&")}`)).json();
    const focused = document.activeElement?.closest("tr[data-run]")?.dataset.run;
    const wasBox = document.activeElement?.type === "checkbox";
    replaceMarkup(rows, answer.html);
    if (at >= 0) mark(at, false);
    if (focused) {
      const line = lines().find((candidate) => candidate.dataset.run === focused);
      line?.querySelector(wasBox ? "input" : "a.run-link")?.focus({ preventScroll: true });
    }
    preparing.hidden = !answer.progress.active;
    if (answer.progress.active) {
      preparing.firstChild.textContent = answer.progress.text + " ";
      const bar = preparing.querySelector("progress");
      bar.max = answer.progress.total || 1;
      bar.value = answer.progress.done;
    }
  });
} else poll(async () => { const answer = await (await ask("api/runs")).json(); if (answer.html.includes("data-run=")) location.reload(); });
