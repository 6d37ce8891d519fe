// A run's page: charts that redraw as rows arrive, zoom that asks the server for finer buckets, marks with their batch.
import { announce, ask, element, onKey, poll, replaceMarkup, say, up } from "./app.js";
import { Chart } from "./chart.js";

const data = document.getElementById("chart-data");
const waiting = document.querySelector("[data-reload]");
const uPlot = await import(`${new URL(`${up}vendor/uPlot.esm.js`, location.href)}`).then((module) => module.default, () => null);

if (waiting) poll(async () => { if (!(await (await ask("status")).json()).preparing) location.reload(); }, 1000);
else if (data) begin(JSON.parse(data.textContent));

function begin(about) {
  const hash = new URLSearchParams(location.hash.slice(1));
  const state = { axis: hash.get("x") || about.axis, window: hash.has("x0") ? [Number(hash.get("x0")), Number(hash.get("x1"))] : null, log: null, tags: new Map() };
  const charts = new Map(), visible = new Set();
  const reset = document.getElementById("reset"), pause = document.getElementById("pause"), logBox = document.getElementById("log-y");

  function remember() {
    const parts = { x: state.axis, ...(state.window ? { x0: state.window[0], x1: state.window[1] } : {}) };
    history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
    reset.hidden = !state.window;
  }

  async function fetchFor(list, whole = true) {
    await Promise.all(list.map(async (chart) => {
      const query = new URLSearchParams({ x: state.axis, px: String(Math.min(1600, Math.max(200, chart.drawing.clientWidth || 600))) });
      for (const curve of chart.about.curves) query.append("key", curve.key);
      if (state.window) { query.set("x0", state.window[0]); query.set("x1", state.window[1]); }
      else if (!whole && chart.lastBucket !== undefined) { query.set("width", chart.width); query.set("from", chart.lastBucket); }
      const answer = await ask(`series?${query}`);
      const tag = answer.headers.get("etag");
      if (!whole && tag && chart.tag === tag) return;
      const read = await answer.json();
      if (read.preparing) return;
      chart.tag = tag; chart.window = state.window; chart.axis = state.axis;
      chart.take(read);
      const ends = Object.values(chart.packs).filter((pack) => pack.i.length).map((pack) => pack.i[pack.i.length - 1]);
      chart.lastBucket = ends.length ? Math.min(...ends) : undefined;
    }));
  }

  const zoom = (window) => { state.window = window && window[1] - window[0] > 1e-9 ? window : null; remember(); fetchFor([...visible]); stale(); };
  const stale = () => { for (const chart of charts.values()) if (!visible.has(chart)) chart.tag = "stale"; };

  async function openEvent(event) {
    const dialog = document.getElementById("event"), body = document.getElementById("event-body");
    document.getElementById("event-title").textContent = say("spike", { step: event.step });
    body.replaceChildren(element("p", { class: "soft" }, say("loading")));
    dialog.showModal();
    try { replaceMarkup(body, (await (await ask(`batch/${event.step}`)).json()).html); } catch { body.replaceChildren(element("p", { class: "soft" }, say("no_batch"))); }
  }

  const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const chart = charts.get(entry.target.dataset.chart);
      if (!chart) continue;
      if (entry.isIntersecting) { visible.add(chart); if (!chart.plot || chart.tag === "stale") fetchFor([chart]); } else visible.delete(chart);
    }
  }, { rootMargin: "200px" });

  if (uPlot) for (const host of document.querySelectorAll("figure[data-chart]")) {
    const chart = new Chart(uPlot, host, about.charts.find((item) => item.id === host.dataset.chart), { axis: state.axis, onZoom: zoom, onEvent: openEvent });
    chart.events = about.events;
    charts.set(host.dataset.chart, chart);
    sight.observe(host);
    host.querySelector("details.behind").addEventListener("toggle", (event) => { if (event.target.open) chart.table(); });
    host.addEventListener("keydown", (event) => {
      if (event.target !== host) return;
      const actions = { ArrowLeft: () => chart.step(-1), ArrowRight: () => chart.step(1), "+": () => chart.zoom(0.5), "-": () => chart.zoom(2), 0: () => zoom(null),
        t: () => { const details = host.querySelector("details.behind"); details.open = !details.open; } };
      if (event.key in actions && !event.ctrlKey && !event.metaKey) { actions[event.key](); event.preventDefault(); event.stopPropagation(); }
    });
  }

  for (const link of document.querySelectorAll("[data-axis]")) link.addEventListener("click", (event) => {
    if (!uPlot) return;
    event.preventDefault();
    state.axis = link.dataset.axis; state.window = null;
    for (const other of document.querySelectorAll("[data-axis]")) other.setAttribute("aria-checked", String(other === link));
    remember(); stale(); fetchFor([...visible]);
  });
  reset.addEventListener("click", () => zoom(null));
  logBox.addEventListener("change", () => { for (const chart of charts.values()) { chart.logWanted = logBox.checked ? true : null; chart.key = ""; if (chart.plot) chart.render(); } });
  for (const query of ["(prefers-color-scheme: dark)"]) matchMedia(query).addEventListener("change", () => charts.forEach((chart) => chart.retheme()));

  const polling = poll(async () => {
    const answer = await (await ask("status")).json();
    if (answer.preparing) return;
    replaceMarkup(document.getElementById("top"), answer.top);
    replaceMarkup(document.getElementById("run-state"), answer.head);
    for (const item of answer.charts) { const chart = charts.get(item.id); if (chart) { chart.about = item; chart.events = answer.events; } }
    if (answer.charts.some((item) => !document.querySelector(`figure[data-chart="${item.id}"]`))) location.reload();
    if (uPlot && !state.window) await fetchFor([...visible], false);
    announce(answer.headline);
  });
  pause.hidden = false;
  const toggle = () => { const paused = polling.toggle(); pause.setAttribute("aria-pressed", String(paused)); pause.textContent = say(paused ? "resume" : "pause"); };
  pause.addEventListener("click", toggle);
  onKey("p", toggle);
  onKey("0", () => zoom(null));
  remember();
}
