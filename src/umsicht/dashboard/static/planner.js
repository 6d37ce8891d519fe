// The planner's arithmetic at every movement of a slider; the formulas are those of planning.py.
import { compact, duration, figure } from "./app.js";
import { estimate } from "./planning.js";

const form = document.getElementById("planner");
const value = (name) => Math.max(0, Number(form.elements[name].value) || 0);

function render() {
  const names = ["parameters", "tokens", "tokens_per_s", "price_per_hour", "evaluation_share", "checkpoints", "checkpoint_bytes", "restarts", "usable_tokens"];
  const result = estimate(Object.fromEntries(names.map((name) => [name, value(name)])));
  for (const [name, number] of Object.entries(result)) {
    const place = document.querySelector(`[data-result="${name}"]`);
    place.textContent = name.endsWith("_s") ? duration(number) : name === "flops" ? `${compact(number)}FLOP` : name === "disk_bytes" ? `${compact(number)}B` : number === null ? "–" : figure(Math.round(number * 100) / 100);
    place.dataset.value = String(number);
  }
  const warning = document.getElementById("planner-warning");
  const many = result.epochs !== null && result.epochs > 4, few = result.tokens_per_parameter < 5;
  warning.hidden = !many && !few;
  warning.textContent = many ? warning.dataset.epochs : few ? warning.dataset.few : "";
}

for (const slider of form.querySelectorAll("[data-log-for]")) {
  const box = form.elements[slider.dataset.logFor];
  slider.hidden = false;
  slider.value = Math.log10(Math.max(1, Number(box.value)));
  slider.addEventListener("input", () => { box.value = String(Number((10 ** Number(slider.value)).toPrecision(3))); render(); });
  box.addEventListener("input", () => { slider.value = Math.log10(Math.max(1, Number(box.value))); });
}
form.addEventListener("input", render);
form.addEventListener("submit", (event) => { event.preventDefault(); render(); history.replaceState(null, "", `?${new URLSearchParams(new FormData(form))}`); });
