// Documents to read: fetched on demand, another handful at every press.
import { ask, element, replaceMarkup, say } from "./app.js";

const place = document.getElementById("documents"), section = document.getElementById("reading");
for (const button of document.querySelectorAll("button.read")) button.addEventListener("click", async () => {
  section.hidden = false;
  place.replaceChildren(element("p", { class: "soft" }, say("loading")));
  section.scrollIntoView({ block: "start" });
  const answer = await (await ask(`documents?${button.dataset.query}&seed=${Math.floor(Math.random() * 1e6)}`)).json();
  place.dataset.markup = "";
  replaceMarkup(place, answer.html);
});
