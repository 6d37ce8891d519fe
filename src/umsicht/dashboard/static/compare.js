// Runs on one grid: six curves that can be told apart, everything else as a shaded envelope.
import { ask, onKey, poll, say, up } from "./app.js";
import { Chart } from "./chart.js";

const data = document.getElementById("chart-data");
const uPlot = await import(`${new URL(`${up}vendor/uPlot.esm.js`, location.href)}`).then((module) => module.default, () => null);

if (data && uPlot) {
  const about = JSON.parse(data.textContent);
  const host = document.querySelector("[data-chart]");
  let view = null, tag = "";
  const chart = new Chart(uPlot, host, about.chart, { axis: about.axis, onZoom: zoom, onEvent() {} });
  function zoom(range) { view = range && range[1] > range[0] ? range : null; chart.window = view; chart.key = ""; chart.render(); }
  async function load() {
    const query = new URLSearchParams({ key: about.key, x: about.axis, px: String(Math.min(1600, chart.drawing.clientWidth || 800)) });
    for (const run of about.runs) query.append("run", run);
    const answer = await ask(`api/compare?${query}`);
    if (answer.headers.get("etag") === tag) return;
    tag = answer.headers.get("etag");
    const read = await answer.json();
    chart.envelope = read.rest; chart.bands = read.bands;
    chart.take(read);
  }
  await load();
  poll(load);
  onKey("0", () => zoom(null));
  host.querySelector("details.behind").addEventListener("toggle", (event) => { if (event.target.open) chart.table(); });
  host.addEventListener("keydown", (event) => {
    if (event.target !== host) return;
    const actions = { ArrowLeft: () => chart.step(-1), ArrowRight: () => chart.step(1), "+": () => chart.zoom(0.5), "-": () => chart.zoom(2), t: () => { const details = host.querySelector("details.behind"); details.open = !details.open; } };
    if (event.key in actions) { actions[event.key](); event.preventDefault(); event.stopPropagation(); }
  });
}
