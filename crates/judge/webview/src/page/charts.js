// Line charts, latency map, marks and overview, on canvases. Colour is never the only sign: lines also differ in
// dashes, marks in shapes.
const MARGIN = 58;
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
let inks = {};
function readInks() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "dim", "grid", "edge", "soft", "bad", "warn", "link", "good", "s0", "s1", "s2", "s3", "s4", "s5"]) {
    inks[name] = style.getPropertyValue(`--${name}`).trim();
  }
}
const lineStyle = index => ({ ink: inks[`s${index % 6}`], dash: DASHES[Math.floor(index / 6) % 4] });
// A line keeps its style, whichever lines are drawn with it: styles are given in order of first appearance.
const styleIndex = line => {
  const known = S.styleIndexes[line.instance ? 1 : 0], name = line.instance || line.counter;
  if (!known.has(name)) known.set(name, known.size);
  return known.get(name);
};
function canvas(node) {
  const ratio = window.devicePixelRatio || 1, wide = node.clientWidth, high = node.clientHeight;
  if (node.width !== Math.round(wide * ratio) || node.height !== Math.round(high * ratio)) {
    node.width = Math.round(wide * ratio); node.height = Math.round(high * ratio);
  }
  const c = node.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, wide, high);
  c.font = "11px system-ui, sans-serif";
  return [c, wide, high];
}
const toX = (t, wide) => MARGIN + (t - S.from) / (S.to - S.from) * (wide - MARGIN);
const toTime = x => S.from + (x - MARGIN) / Math.max(1, width()) * (S.to - S.from);

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map(s => s * 1000);
function timeAxis(c, wide, high, labels) {
  const room = Math.max(2, Math.floor((wide - MARGIN) / 90));
  // beyond the last, whole weeks
  const minStep = (S.to - S.from) / room, step = STEPS.find(step => step >= minStep) || 6048e5 * Math.ceil(minStep / 6048e5);
  const shift = new Date(S.from).getTimezoneOffset() * 60000;
  c.strokeStyle = inks.grid; c.fillStyle = inks.dim; c.lineWidth = 1; c.textAlign = "center";
  for (let t = Math.ceil((S.from - shift) / step) * step + shift; t <= S.to; t += step) {
    const x = Math.round(toX(t, wide)) + 0.5;
    c.beginPath(); c.moveTo(x, 0); c.lineTo(x, high - (labels ? 14 : 0)); c.stroke();
    if (!labels) continue;
    const midnight = clock(t) === "00:00:00";
    // behind the end of summer time, days begin an hour later than their lines
    const text = midnight || step >= 86400000 ? day(t + 72e5).slice(5) : step >= 60000 ? clock(t).slice(0, 5) : clock(t);
    const half = c.measureText(text).width / 2;
    c.fillText(text, Math.min(x, wide - half), high - 3);
  }
}
function axisLimit(max, unit) {
  if (unit === "fraction") return max <= 0.012 ? 0.012 : max <= 0.06 ? 0.06 : max <= 0.3 ? 0.3 : max <= 1.0001 ? 1 : max;
  if (!(max > 0)) return 1;
  const scale = unit === "bytes" ? 1024 ** Math.max(0, Math.floor(Math.log2(max) / 10)) : 1;
  const power = scale * 10 ** Math.floor(Math.log10(max / scale));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map(by => by * power).find(top => top >= max * 1.0001);
}
const shownLines = which => which === 0
  ? S.lines.filter(line => !line.instance && machine().includes(line.counter))
  : S.lines.filter(line => line.instance && line.counter === S.quantity);
const unitOf = counter => unitShown(counter, [...(S.info?.columns || []), ...(S.info?.timeline || [])].find(one => one.counter === counter)?.unit || "");
const titleOf = line => line.instance || S.info.timeline.find(one => one.counter === line.counter)?.title || line.counter;

function drawLines(which) {
  const node = $(`c${which}`);
  const [c, wide, high] = canvas(node), lines = shownLines(which), foot = 16, top = 4;
  const unit = unitOf(which ? S.quantity : machine()[0]);
  let max = 0;
  for (const line of lines) for (let i = 0; i < line.x.length; i++) if (line.x[i] >= S.from && line.x[i] <= S.to && line.most[i] > max) max = line.most[i];
  const limit = axisLimit(max, unit), toY = v => high - foot - v / limit * (high - foot - top);
  timeAxis(c, wide, high, true);
  c.textAlign = "right"; c.fillStyle = inks.dim; c.strokeStyle = inks.grid;
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const y = Math.round(toY(limit * part)) + 0.5;
    c.beginPath(); c.moveTo(MARGIN, y); c.lineTo(wide, y); c.stroke();
    if (part * 2 % 1 === 0) c.fillText(axisText(limit * part, unit), MARGIN - 6, Math.max(9, y + 3));
  }
  c.save();
  c.beginPath(); c.rect(MARGIN, 0, wide - MARGIN, high - foot + 1); c.clip();
  const order = [...lines].sort((a, b) => (a.instance === S.device) - (b.instance === S.device));
  for (const line of order) drawLine(c, line, lineStyle(styleIndex(line)), wide, toY, which && S.device && line.instance !== S.device, lines.length);
  c.restore();
  if (!lines.length) { c.textAlign = "center"; c.fillText(S.info?.read < 1 ? "reading the log …" : "not recorded", (wide + MARGIN) / 2, high / 2); }
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", `${which ? $("quantity").selectedOptions[0]?.textContent || "" : "Machine"}: ${lines.length} lines, at most ${show(max, unit)}`);
}
function drawLine(c, line, { ink, dash }, wide, toY, faded, count) {
  const { x, least: min, mean, most: max } = line, apart = Math.max(line.step, S.info.interval_ms) * 2.6;
  c.strokeStyle = c.fillStyle = ink;
  c.globalAlpha = faded ? 0.25 : 1;
  if (!faded && count <= 8) {
    c.globalAlpha = 0.16;
    for (let i = 0; i < x.length; i++) {
      if (mean[i] === null || max[i] === min[i]) continue;
      const a = toX(x[i] - line.step / 2, wide), y = toY(max[i]);
      c.fillRect(a, y, Math.max(1, toX(x[i] + line.step / 2, wide) - a), Math.max(1, toY(min[i]) - y));
    }
    c.globalAlpha = 1;
  }
  c.lineWidth = line.instance && line.instance === S.device ? 2.75 : count > 8 ? 1.25 : 1.75;
  c.lineJoin = "round";
  c.setLineDash(dash);
  c.beginPath();
  let before = null;
  const half = Math.max(1.5, (toX(line.step, wide) - toX(0, wide)) / 2);
  for (let i = 0; i < x.length; i++) {
    if (mean[i] === null || x[i] < S.from - apart || x[i] > S.to + apart) { if (mean[i] === null) before = null; continue; }
    const px = toX(x[i], wide), py = toY(mean[i]);
    // a point without neighbours is as long as its time, and can be seen
    if (before === null || x[i] - before > apart) { c.moveTo(px - half, py); c.lineTo(px + half, py); } else c.lineTo(px, py);
    before = x[i];
  }
  c.stroke();
  c.setLineDash([]);
  c.globalAlpha = 1;
}
function drawHeat() {
  if ($("heat").hidden) return;
  const [c, wide, high] = canvas($("c2")), foot = 16, map = S.heat?.maps?.[S.map];
  timeAxis(c, wide, high, true);
  c.fillStyle = inks.dim; c.textAlign = "center";
  if (!map) { c.fillText(S.heat?.because || "no request ended in this time", (wide + MARGIN) / 2, high / 2); $("key2").textContent = ""; return; }
  // rows with requests, and two on each side
  const used = map.labels.map((_, row) => map.columns.some(column => column[row]));
  const low = Math.max(0, used.indexOf(true) - 2), top = Math.min(map.labels.length, used.lastIndexOf(true) + 3);
  const rows = top - low, tall = (high - foot) / rows, maxCount = Math.max(1, ...map.columns.flat());
  const every = (map.to_ms - map.from_ms) / map.columns.length;
  c.fillStyle = inks.s0;
  map.columns.forEach((column, i) => column.forEach((count, row) => {
    if (!count) return;
    c.globalAlpha = 0.15 + 0.85 * Math.log1p(count) / Math.log1p(maxCount);
    const a = toX(map.from_ms + i * every, wide), b = toX(map.from_ms + (i + 1) * every, wide);
    if (b > MARGIN) c.fillRect(Math.max(MARGIN, a), high - foot - (row - low + 1) * tall, Math.max(1, b - Math.max(MARGIN, a)), Math.max(1, tall - 0.5));
  }));
  c.globalAlpha = 1; c.fillStyle = inks.dim; c.textAlign = "right";
  map.labels.slice(low, top).forEach((label, row) => { if (row % Math.ceil(rows / 9) === 0) c.fillText(label.replace("below ", "<"), MARGIN - 6, high - foot - row * tall - 1); });
  const s = value => show(value, "s");
  $("key2").textContent = `${map.requests.toLocaleString()} requests; half took up to ${s(map.median_s)}, 99 % up to ${s(map.p99_s)}, the longest ${s(map.longest_s)}. Darker means more.`;
}
const SHAPES = { bookmark: "◆", alert: "▲", gap: "▬", clock: "◷", warning: "!", event: "✖", change: "↕", capture: "◉" };
// levels that stepped, by the verdict that is shown, beside the marks of the log
const allMarks = () => [...S.marks, ...(S.view?.verdict?.changes || [])];
function drawMarks() {
  const [c, wide] = canvas($("marks"));
  c.textAlign = "center";
  for (const alert of S.alerts) {
    const a = Math.max(MARGIN, toX(alert.begin_ns / 1e6, wide)), b = Math.min(wide, toX(alert.end_ns ? alert.end_ns / 1e6 : S.to, wide));
    c.fillStyle = inks[alert.severity === "critical" ? "bad" : "warn"]; c.globalAlpha = 0.35;
    c.fillRect(a, 15, Math.max(3, b - a), 4);
    c.globalAlpha = 1;
    if (!S.marks.some(mark => mark.kind === "alert" && Math.abs(mark.time_ns - alert.begin_ns) < 1e6)) c.fillText(SHAPES.alert, a, 12);
  }
  c.font = "13px system-ui, sans-serif";
  for (const mark of allMarks()) {
    const x = toX(mark.time_ns / 1e6, wide);
    if (x < MARGIN || x > wide) continue;
    c.fillStyle = inks[{ bookmark: "link", alert: "bad", event: "bad", change: "warn" }[mark.kind] || "dim"];
    c.fillText(SHAPES[mark.kind] || "•", x, 12);
  }
}
function drawNav() {
  const [c, wide, high] = canvas($("nav"));
  c.fillStyle = inks.soft; c.fillRect(0, 0, wide, high);
  if (!S.range) return;
  const [first, last] = navRange(), place = t => (t - first) / Math.max(1, last - first) * wide;
  const line = S.nav?.line;
  if (line) {
    const top = axisLimit(Math.max(...line.most.map(v => v ?? 0)), "fraction"), step = (S.nav.to - S.nav.from) / line.mean.length;
    c.fillStyle = inks.s0;
    line.most.forEach((value, i) => {
      if (value === null) return;
      const tall = Math.max(1, value / top * (high - 4)), a = place(S.nav.from + i * step);
      c.globalAlpha = 0.3; c.fillRect(a, high - tall, Math.max(1, place(S.nav.from + (i + 1) * step) - a), tall);
      const solid = Math.max(1, line.mean[i] / top * (high - 4));
      c.globalAlpha = 0.9; c.fillRect(a, high - solid, Math.max(1, place(S.nav.from + (i + 1) * step) - a), solid);
    });
    c.globalAlpha = 1;
  }
  const a = Math.max(0, place(S.from)), b = Math.min(wide, place(S.to));
  c.fillStyle = inks.ink; c.globalAlpha = 0.08; c.fillRect(a, 0, Math.max(4, b - a), high); c.globalAlpha = 1;
  c.strokeStyle = inks.ink; c.lineWidth = 1.5; c.strokeRect(a + 0.75, 0.75, Math.max(4, b - a) - 1.5, high - 1.5);
  c.fillStyle = inks.dim; c.textAlign = "left"; c.fillText(when(first), 4, 11); c.textAlign = "right"; c.fillText(when(last), wide - 4, 11);
}
const navRange = () => S.range ? [S.range[0], Math.max(S.range[1], S.range[0] + 1000)] : [0, 1];
function drawVeil() {
  const wide = $("charts").clientWidth, place = t => Math.min(Math.max(toX(t, wide), MARGIN), wide);
  const time = S.hover ?? S.time, cursor = $("cursor"), inside = t => t >= S.from && t <= S.to;
  cursor.hidden = time == null || !inside(time);
  if (!cursor.hidden) cursor.style.left = `${place(time)}px`;
  for (const [node, part] of [[$("chosen"), S.drag || S.chosen], [$("kept"), S.kept]]) {
    node.hidden = !part || part[1] < S.from || part[0] > S.to;
    if (!node.hidden) { node.style.left = `${place(part[0])}px`; node.style.width = `${Math.max(2, place(part[1]) - place(part[0]))}px`; }
  }
  showReadout(time);
}
let isQueued = false;
function drawAll() {
  if (isQueued) return;
  isQueued = true;
  requestAnimationFrame(() => {
    isQueued = false;
    if (!S.info || $("one").hidden) return;
    drawLines(0); drawLines(1); drawHeat(); drawMarks(); drawNav(); drawVeil(); drawLegends();
  });
}
function drawSparkline(node, values, ink) {
  const [c, wide, high] = canvas(node), max = Math.max(...values.map(v => v ?? 0)) || 1;
  c.strokeStyle = ink; c.lineWidth = 1.25; c.beginPath();
  let on = false;
  values.forEach((value, i) => {
    if (value === null) { on = false; return; }
    const x = i / Math.max(1, values.length - 1) * (wide - 2) + 1, y = high - 2 - value / max * (high - 4);
    if (on) c.lineTo(x, y); else { c.moveTo(x, y); c.lineTo(x + 0.5, y); }
    on = true;
  });
  c.stroke();
}
