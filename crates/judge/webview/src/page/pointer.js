// Mouse, touch and keyboard input on the charts.
function addPointers() {
  addEventListener("pointerdown", event => { pressed = event.target; }, true);
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, runDeferred, true);
  const charts = $("charts"), down = new Map();
  let press = null, pinch = null;
  const timeOf = event => Math.min(Math.max(toTime(event.clientX - charts.getBoundingClientRect().left), S.from), S.to);
  const isPlot = event => event.target.tagName === "CANVAS";
  charts.addEventListener("pointerdown", event => {
    if (!isPlot(event) || event.button) return;
    down.set(event.pointerId, event.clientX);
    charts.setPointerCapture(event.pointerId);
    if (down.size === 2) { pinch = { apart: spread(), from: S.from, to: S.to }; press = null; S.drag = null; return; }
    press = { x: event.clientX, t: timeOf(event) };
  });
  const spread = () => { const [a, b] = [...down.values()]; return Math.max(20, Math.abs(a - b)); };
  charts.addEventListener("pointermove", event => {
    if (down.has(event.pointerId)) down.set(event.pointerId, event.clientX);
    if (pinch && down.size === 2) {
      const by = pinch.apart / spread(), middle = (pinch.from + pinch.to) / 2, half = (pinch.to - pinch.from) / 2 * by;
      setWindow(middle - half, middle + half, false);
      return;
    }
    if (!S.range) return;
    if (press && Math.abs(event.clientX - press.x) > 4) S.drag = [press.t, timeOf(event)].sort((a, b) => a - b);
    S.hover = isPlot(event) || press ? timeOf(event) : null;
    drawVeil();
  });
  const end = event => {
    down.delete(event.pointerId);
    if (down.size < 2) pinch = null;
    const part = S.drag, start = press;
    press = null; S.drag = null;
    if (event.type === "pointercancel" || !start || !S.range) { drawVeil(); return; }
    if (part) choose(...part); else { S.chosen = null; setCursor(start.t); }
    if (event.pointerType !== "mouse") S.hover = null;
  };
  charts.addEventListener("pointerup", end);
  charts.addEventListener("pointercancel", end);
  charts.addEventListener("pointerleave", () => { S.hover = null; if (S.info) drawVeil(); });
  charts.addEventListener("dblclick", event => { if (isPlot(event)) zoom(0.4, timeOf(event)); });
  charts.addEventListener("wheel", event => {
    // the wheel alone scrolls the page
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, timeOf(event));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
    else return;
    event.preventDefault();
  }, { passive: false });
  charts.addEventListener("keydown", onKey);
  const nav = $("nav");
  let offset = null;
  const navTime = event => { const box = nav.getBoundingClientRect(), [a, b] = navRange(); return a + (event.clientX - box.left) / box.width * (b - a); };
  const slide = event => { const t = navTime(event) + offset; setWindow(t - S.span / 2, t + S.span / 2, false); };
  nav.addEventListener("pointerdown", event => {
    if (!S.range) return;
    nav.setPointerCapture(event.pointerId);
    const t = navTime(event);
    offset = t >= S.from && t <= S.to ? (S.from + S.to) / 2 - t : 0;
    slide(event);
  });
  nav.addEventListener("pointermove", event => { if (offset !== null) slide(event); });
  for (const name of ["pointerup", "pointercancel"]) nav.addEventListener(name, () => { offset = null; });
}
const KEYS = [
  ["click", "Set the cursor: all tables show that moment"], ["drag", "Choose a stretch: its verdict, culprits, report"],
  ["← →", "Move the cursor; with Shift choose a stretch"], ["Page ↑ ↓", "Half a window back or forward"],
  ["+ −", "Zoom; also Ctrl and the wheel, a double click, two fingers"], ["Home End", "Start; end (now, if live)"],
  ["[ ]", "Previous, next bookmark or alert"], ["space", "Pause, go live"], ["m", "Set a bookmark"], ["d", "All block devices, or only disks"], ["k, c", "Keep as first stretch; compare with it"], ["Esc", "Clear cursor and stretch"], ["?", "This help"],
];
function onKey(event) {
  if (!S.range || event.ctrlKey || event.altKey || event.metaKey || /INPUT|SELECT/.test(event.target.tagName)) return;
  const step = Math.max(S.span / 150, S.info.interval_ms), time = S.time ?? S.chosen?.[1] ?? Math.min(S.to, S.range[1]);
  const move = by => {
    if (!event.shiftKey) { S.chosen = null; setCursor(time + by * step); return; }
    const anchor = S.anchor ?? time, head = (S.head ?? time) + by * step;
    choose(anchor, head);
    S.anchor = anchor; S.head = head;
  };
  if (event.key !== "Shift" && !event.shiftKey) { S.anchor = S.head = null; }
  const jump = forward => {
    const times = [...S.marks, ...S.alerts].map(one => (one.time_ns ?? one.begin_ns) / 1e6).filter(t => forward ? t > time + 1 : t < time - 1).sort((a, b) => a - b);
    if (times.length) setCursor(forward ? times[0] : times[times.length - 1]);
  };
  const actions = {
    ArrowLeft: () => move(-1), ArrowRight: () => move(1), PageUp: () => pan(-0.5), PageDown: () => pan(0.5),
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6),
    Home: () => setWindow(S.range[0], S.range[0] + S.span, false), End: followEnd,
    "[": () => jump(false), "]": () => jump(true), " ": () => toggleFollow(), m: () => askMark(), d: () => toggleAll(), "?": () => $("keys").showModal(),
    k: () => { if (S.chosen) { S.kept = S.chosen; choose(null); } }, c: () => { if (S.chosen && S.kept) compare(); },
    Escape: () => { S.chosen = null; setCursor(null); },
  };
  const action = actions[event.key];
  if (action) { action(); event.preventDefault(); event.stopPropagation(); }
}
