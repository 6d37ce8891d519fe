// One interactive chart around uPlot: buckets with both extremes, dash patterns, end labels, marks that can be opened.
import { compact, duration, element, figure, lang, say } from "./app.js";

const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [5, 2], [1, 3]];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const axisText = (axis, value) => (axis === "time" ? duration(value) : compact(value));

/** Buckets of several series as one grid: two places a bucket where the extremes differ, one where they agree. */
export function grid(packs, width) {
  const buckets = new Map();
  packs.forEach((pack) => pack && pack.i.forEach((bucket, n) => {
    const wide = pack.b !== undefined && pack.a[n] !== pack.b[n];
    buckets.set(bucket, (buckets.get(bucket) || false) || wide);
  }));
  const order = [...buckets.keys()].sort((a, b) => a - b);
  const xs = [], place = new Map();
  for (const bucket of order) {
    place.set(bucket, xs.length);
    if (buckets.get(bucket)) xs.push(bucket * width + width * 0.25, bucket * width + width * 0.75);
    else xs.push(bucket * width);
  }
  const columns = packs.map((pack) => {
    const column = new Array(xs.length).fill(null);
    pack?.i.forEach((bucket, n) => {
      const at = place.get(bucket);
      column[at] = pack.a[n];
      if (buckets.get(bucket) && pack.b !== undefined && pack.b[n] !== pack.a[n]) column[at + 1] = pack.b[n];
    });
    return column;
  });
  return [xs, ...columns];
}

/** An earlier answer with its newest buckets replaced; everything before `from` is known never to change. */
export function merge(known, news) {
  if (!known) return news;
  const from = news.i.length ? news.i[0] : Infinity;
  const keep = known.i.findIndex((bucket) => bucket >= from);
  const cut = keep < 0 ? known.i.length : keep;
  const wide = known.b !== undefined || news.b !== undefined;
  const joined = { i: known.i.slice(0, cut).concat(news.i), a: known.a.slice(0, cut).concat(news.a), n: news.n };
  if (wide) {
    joined.b = (known.b || known.a).slice(0, cut).concat(news.b || news.a);
    joined.l = (known.l || known.a).slice(0, cut).concat(news.l || news.a);
  }
  return joined;
}

function legendSwatch(slot) {
  const name = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(name, "svg");
  svg.setAttribute("viewBox", "0 0 24 8");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(name, "path");
  line.setAttribute("d", "M0 4H24");
  line.setAttribute("class", `curve s${slot}`);
  if (DASHES[slot].length) line.setAttribute("stroke-dasharray", DASHES[slot].join(" "));
  svg.append(line);
  return svg;
}

export class Chart {
  constructor(uPlot, host, about, { axis, onZoom, onEvent }) {
    Object.assign(this, { uPlot, host, about, axis, onZoom, onEvent });
    this.drawing = host.querySelector(".drawing");
    this.count = host.querySelector(".count");
    this.packs = {}; this.old = {}; this.odd = {}; this.restarts = []; this.width = 1; this.hidden = new Set(); this.logWanted = null;
    this.readout = element("span", { class: "readout", "aria-live": "off" });
    host.querySelector("figcaption").append(this.readout);
    this.legend = element("ul", { class: "legend" });
    this.drawing.after(this.legend);
    this.plot = null;
    new ResizeObserver(() => this.resize()).observe(this.drawing);
  }

  take(answer) {
    const fresh = {};
    for (const curve of this.about.curves) {
      const news = answer.series[curve.key];
      if (news) fresh[curve.key] = answer.partial ? merge(this.packs[curve.key], news) : news;
    }
    this.packs = { ...this.packs, ...fresh };
    this.old = answer.old; this.odd = answer.odd; this.restarts = answer.restarts; this.width = answer.width || 1;
    this.range = answer.range;
    this.render();
  }

  shape() {
    const { curves } = this.about;
    const histories = curves.filter((curve) => this.old[curve.key]);
    const data = grid([...curves.map((curve) => this.packs[curve.key]), ...histories.map((curve) => this.old[curve.key])], this.width);
    return { data, histories };
  }

  isLog() {
    if (this.logWanted === true) return this.extent()[0] > 0;
    if (this.about.log !== null && this.about.log !== undefined) return this.about.log;
    const [low, high] = this.extent();
    return low > 0 && high / low > 6;
  }

  extent() {
    let low = Infinity, high = -Infinity;
    for (const curve of this.about.curves) {
      const pack = this.packs[curve.key];
      if (!pack || this.hidden.has(curve.key)) continue;
      for (const part of [pack.a, pack.b || []]) for (const value of part) { if (value < low) low = value; if (value > high) high = value; }
    }
    return [low, high];
  }

  render() {
    const { data, histories } = this.shape();
    if (!data[0].length) return;
    const key = [this.isLog(), histories.map((curve) => curve.key), this.about.curves.map((curve) => curve.key), [...this.hidden], css("--paper")].join("|");
    if (this.plot && this.key === key) this.plot.setData(data, true);
    else {
      this.plot?.destroy();
      this.key = key;
      this.drawing.replaceChildren();
      this.plot = new this.uPlot(this.options(histories), data, this.drawing);
    }
    this.data = data;
    this.legends();
    this.marks();
    const points = this.about.curves.reduce((sum, curve) => sum + (this.packs[curve.key]?.n || 0), 0);
    if (this.count) this.count.textContent = say("points", { n: new Intl.NumberFormat(lang).format(points) });
    this.host.dataset.drawn = String(points);
    if (this.host.querySelector("details.behind")?.open) this.table();
  }

  options(histories) {
    const { about } = this, wide = this.drawing.clientWidth > 520 && about.curves.length > 1;
    const stroke = (slot) => css(`--s${slot}`);
    const series = [{}, ...about.curves.map((curve) => ({
      label: curve.label, stroke: stroke(curve.slot), width: 1.5, dash: DASHES[curve.slot], spanGaps: true, show: !this.hidden.has(curve.key),
      points: { show: (u, index) => curve.dots && u.data[index].filter((v) => v !== null).length <= 40, size: 5, fill: stroke(curve.slot) },
    })), ...histories.map((curve) => ({
      label: say("old", { name: curve.label }), stroke: `${stroke(curve.slot)}88`, width: 1.2, dash: [3, 4], spanGaps: true, points: { show: false },
    }))];
    const ink = css("--faint"), line = css("--line"), font = `11px ${css("--sans")}`;
    return {
      width: Math.max(240, this.drawing.clientWidth), height: Math.max(180, this.drawing.clientHeight || 240), series,
      padding: [16, wide ? this.labelRoom() : 14, 0, 4],
      legend: { show: false },
      cursor: { y: false, sync: { key: "step", setSeries: false }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      select: { show: true },
      scales: {
        x: { time: false, range: (u, low, high) => this.span(low, high) },
        y: { distr: this.isLog() ? 3 : 1, range: this.isLog() ? undefined : (u, low, high) => this.linear(low, high) },
      },
      axes: [
        { stroke: ink, font, grid: { show: false }, ticks: { stroke: line, size: 4 }, space: 80, size: 30, values: (u, ticks) => ticks.map((v) => axisText(this.axis, v)) },
        { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 58, space: 34, values: (u, ticks) => this.yTexts(ticks) },
      ],
      hooks: {
        setSelect: [(u) => this.selected(u)],
        setCursor: [(u) => this.read(u)],
        draw: [(u) => this.decorate(u, wide)],
      },
    };
  }

  /** Room for the names at the curves' ends: as wide as the longest, at most a fifth of the chart. */
  labelRoom() {
    const longest = Math.max(...this.about.curves.map((curve) => Math.min(24, curve.label.length)));
    return Math.min(14 + 6.9 * longest, Math.max(108, this.drawing.clientWidth / 5));
  }

  /** The x axis covers every row, those without a finite value too: a mark at the very end must have a place. */
  span(low, high) {
    if (this.window) return this.window;
    const first = Math.min(low ?? 0, this.range[0]), last = Math.max(high ?? 1, this.range[1]);
    return [first, last === first ? first + 1 : last];
  }

  yTexts(ticks) {
    const shown = ticks.filter((tick) => tick !== null);
    const gap = shown.length > 1 ? Math.min(...shown.slice(1).map((v, n) => Math.abs(v - shown[n]))) : 1;
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(gap) - 1e-9)));
    const [low, high] = this.extent(), few = this.isLog() && high / low > 100;
    return ticks.map((tick) => {
      if (tick === null || (few && !/^[1]/.test(tick.toExponential()))) return "";
      const size = Math.abs(tick);
      if (size >= 10000) return compact(tick);
      if (size > 0 && size < 1e-3) return figure(tick);
      return new Intl.NumberFormat(lang, this.isLog() ? { maximumSignificantDigits: 3 } : { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(tick);
    });
  }

  linear(low, high) {
    if (this.about.limit !== null && this.about.limit !== undefined) { low = Math.min(low, this.about.limit); high = Math.max(high, this.about.limit); }
    const air = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    return [low - air, high + air];
  }

  decorate(u, wide) {
    const { ctx, bbox } = u, ratio = devicePixelRatio || 1;
    ctx.save();
    for (const band of [this.envelope, ...(this.bands || [])]) if (band) this.shade(u, band);
    if (this.about.limit !== null && this.about.limit !== undefined) {
      const y = u.valToPos(this.about.limit, "y", true);
      ctx.strokeStyle = css("--soft"); ctx.lineWidth = ratio; ctx.setLineDash([4 * ratio, 4 * ratio]);
      ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
    }
    if (wide) this.endLabels(u, ratio);
    ctx.restore();
  }

  shade(u, { i, low, high, slot }) {
    const { ctx } = u;
    const at = (bucket) => u.valToPos((bucket + 0.5) * this.width, "x", true);
    ctx.beginPath();
    i.forEach((bucket, n) => ctx[n ? "lineTo" : "moveTo"](at(bucket), u.valToPos(high[n], "y", true)));
    for (let n = i.length - 1; n >= 0; n -= 1) ctx.lineTo(at(i[n]), u.valToPos(low[n], "y", true));
    ctx.closePath();
    ctx.globalAlpha = 0.16; ctx.fillStyle = css(slot === null || slot === undefined ? "--soft" : `--s${slot}`); ctx.fill(); ctx.globalAlpha = 1;
  }

  endLabels(u, ratio) {
    const { ctx, bbox } = u, ends = [];
    this.about.curves.forEach((curve, n) => {
      if (this.hidden.has(curve.key)) return;
      const column = u.data[n + 1];
      let last = column.length - 1;
      while (last >= 0 && (column[last] === null || (this.window && u.data[0][last] > this.window[1]))) last -= 1;
      if (last >= 0) ends.push({ y: u.valToPos(column[last], "y", true), curve });
    });
    ends.sort((a, b) => a.y - b.y);
    const gap = 13 * ratio;
    for (let pass = 0; pass < 40; pass += 1) for (let n = 1; n < ends.length; n += 1) {
      const short = gap - (ends[n].y - ends[n - 1].y);
      if (short > 0.1) { ends[n].y += short / 2; ends[n - 1].y -= short / 2; }
    }
    ctx.font = `550 ${11.5 * ratio}px ${css("--sans")}`; ctx.textBaseline = "middle"; ctx.textAlign = "left"; ctx.setLineDash([]);
    for (const end of ends) {
      ctx.fillStyle = css(`--s${end.curve.slot}`);
      const room = Math.floor((this.labelRoom() - 14) / 6.9);
      const name = end.curve.label.length > room ? `${end.curve.label.slice(0, room - 1)}…` : end.curve.label;
      ctx.fillText(name, bbox.left + bbox.width + 8 * ratio, end.y);
    }
  }

  marks() {
    for (const old of this.drawing.querySelectorAll(".event")) old.remove();
    const over = this.plot.over, put = (x, kind, sign, label, action) => {
      const left = this.plot.valToPos(x, "x");
      if (!(left >= -1 && left <= over.clientWidth + 1)) return;
      const mark = element(action ? "button" : "span", { class: `event ${kind}`, title: label, "aria-label": label, type: action ? "button" : null, role: action ? null : "img" }, sign);
      mark.style.left = `${left}px`;
      mark.style.top = "-16px";
      if (action) mark.addEventListener("click", action);
      over.append(mark);
    };
    for (const x of this.restarts) put(x, "restart", "↻", say("restart"));
    for (const curve of this.about.curves) for (const [x, value] of (this.odd[curve.key] || []).slice(0, 30)) {
      put(x, "nonfinite", "✕", say("nonfinite", { name: curve.label, value, x: axisText(this.axis, x) }));
    }
    if (this.axis === "step") for (const event of this.events || []) put(event.step, "spike", "▲", say("spike", { step: compact(event.step) }), () => this.onEvent(event));
  }

  legends() {
    this.legend.replaceChildren(...this.about.curves.map((curve) => {
      const pack = this.packs[curve.key];
      const last = pack && pack.i.length ? (pack.l || pack.a)[pack.i.length - 1] : null;
      const button = element("button", { type: "button", "aria-pressed": String(!this.hidden.has(curve.key)) }, legendSwatch(curve.slot), curve.label, element("span", { class: "value" }, figure(last)));
      button.addEventListener("click", () => {
        if (this.hidden.has(curve.key)) this.hidden.delete(curve.key); else this.hidden.add(curve.key);
        this.render();
      });
      return element("li", {}, button);
    }));
  }

  read(u) {
    const at = u.cursor.idx;
    if (at === null || at === undefined || u.cursor.left < 0) { this.readout.textContent = ""; return; }
    const bucket = Math.floor(u.data[0][at] / this.width);
    const where = this.width > 1 ? say("bucket", { x0: axisText(this.axis, bucket * this.width), x1: axisText(this.axis, (bucket + 1) * this.width) }) : axisText(this.axis, bucket);
    const texts = [];
    for (const curve of this.about.curves) {
      const pack = this.packs[curve.key];
      const n = pack ? pack.i.indexOf(bucket) : -1;
      if (n < 0) continue;
      const b = pack.b ? pack.b[n] : pack.a[n];
      texts.push(`${curve.label} ${pack.a[n] === b ? figure(b) : `${figure(Math.min(pack.a[n], b))}–${figure(Math.max(pack.a[n], b))}`}`);
    }
    this.readout.textContent = `${say(this.axis)} ${where} · ${texts.join(" · ")}`;
  }

  selected(u) {
    if (u.select.width < 6) return;
    const low = u.posToVal(u.select.left, "x"), high = u.posToVal(u.select.left + u.select.width, "x");
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.onZoom([low, high]);
  }

  step(by) {
    if (!this.plot) return;
    const xs = this.plot.data[0];
    const at = Math.max(0, Math.min(xs.length - 1, (this.plot.cursor.idx ?? xs.length - 1) + by));
    this.plot.setCursor({ left: this.plot.valToPos(xs[at], "x"), top: 10 });
    this.host.setAttribute("aria-description", this.readout.textContent);
  }

  zoom(by) {
    if (!this.plot) return;
    const { min, max } = this.plot.scales.x, cursor = this.plot.cursor.left >= 0 ? this.plot.posToVal(this.plot.cursor.left, "x") : (min + max) / 2;
    const low = cursor - (cursor - min) * by, high = cursor + (max - cursor) * by;
    this.onZoom([Math.max(this.range[0], low), Math.min(this.range[1], high)]);
  }

  table() {
    const here = this.host.querySelector(".table-here");
    const head = element("tr", {}, element("th", { scope: "col" }, say(this.axis)));
    for (const curve of this.about.curves) for (const part of ["lowest", "highest", "last"]) head.append(element("th", { scope: "col", class: "n" }, `${curve.label}, ${say(part)}`));
    const buckets = [...new Set(this.about.curves.flatMap((curve) => this.packs[curve.key]?.i || []))].sort((a, b) => a - b);
    const body = element("tbody");
    for (const bucket of buckets) {
      const row = element("tr", {}, element("th", { scope: "row" }, axisText(this.axis, bucket * this.width)));
      for (const curve of this.about.curves) {
        const pack = this.packs[curve.key], n = pack ? pack.i.indexOf(bucket) : -1;
        const a = n < 0 ? null : pack.a[n], b = n < 0 ? null : pack.b ? pack.b[n] : a;
        const values = n < 0 ? [null, null, null] : [Math.min(a, b), Math.max(a, b), pack.l ? pack.l[n] : a];
        for (const value of values) row.append(element("td", { class: "n" }, figure(value)));
      }
      body.append(row);
    }
    here.replaceChildren(element("table", {}, element("caption", {}, say("table_note")), element("thead", {}, head), body));
  }

  resize() {
    if (!this.plot || !this.drawing.clientWidth) return;
    const width = Math.max(240, this.drawing.clientWidth);
    if (Math.abs(width - this.plot.width) < 2) return;
    this.plot.setSize({ width, height: this.plot.height });
    this.marks();
  }

  retheme() { this.key = ""; if (this.plot) this.render(); }
}
