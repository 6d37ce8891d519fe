// Keys 1 to 4 answer, u goes back; the time spent on an item is kept with its answer.
import { onKey } from "./app.js";

const form = document.getElementById("rate");
const began = performance.now();
if (form) {
  form.addEventListener("submit", () => { form.elements.seconds.value = ((performance.now() - began) / 1000).toFixed(1); });
  for (const button of form.querySelectorAll("[data-key]")) onKey(button.dataset.key, () => button.click());
}
onKey("u", () => document.getElementById("undo")?.click());
