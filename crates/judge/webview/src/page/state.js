// What is looked at, the data of it, and how it is asked for.
const ofHost = () => ({
  host: null, info: null, range: null, at: null, chosen: null, kept: null, anchor: null, head: null, device: null,
  lines: [], recent: [], marks: [], alerts: [], view: null, live: null, heat: null, nav: null,
  looks: [new Map(), new Map()], heard: 0, heardTo: 0, asksAgain: 0, cut: false,
});
const S = {
  ...ofHost(), hosts: [], from: 0, to: 0, span: 300000, follow: false, last: 0,
  quantity: null, map: 0, order: "bytes", sorted: null, allRows: false, built: false,
};
const asked = {};
// Pauses before the same is asked again: each twice as long as the one before, up to a limit, and no two pages' alike.
const pauseAfter = (tries, least, longest) => Math.min(longest, least * 2 ** tries) * (0.75 + Math.random() / 2);

async function fetched(kind, path, query, options) {
  asked[kind]?.abort();
  const stop = asked[kind] = new AbortController();
  const words = new URLSearchParams({ host: S.host ?? 0, ...query });
  let answer = await fetch(`${path}?${words}`, { signal: stop.signal, ...options });
  // others ask for much at the same time
  for (let tries = 0; answer.status === 503 && tries < 16; tries++) {
    await new Promise(done => setTimeout(done, pauseAfter(tries, 250, 4000)));
    answer = await fetch(`${path}?${words}`, { signal: stop.signal, ...options });
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let value = null;
  try { value = JSON.parse(text); } catch { /* a plain refusal */ }
  throw new Error(value?.because || text.trim() || answer.statusText);
}
const ask = async (...given) => (await fetched(...given)).json();
// An answer that was overtaken by the next question is no fault.
const tried = work => async (...given) => {
  try { await work(...given); } catch (fault) {
    if (fault.name === "AbortError") return;
    S.cut = fault instanceof TypeError;
    tell(S.cut ? LOST : fault.message);
  }
};
const LOST = "No connection to the server. The page shows the last data and tries to reconnect.";
function tell(text) { $("fault").textContent = text || ""; $("fault").hidden = !text; }

const width = () => Math.max(100, $("c0").clientWidth - MARGIN);
const machine = () => (S.info?.timeline || []).map(one => one.counter);

const loadRange = tried(async () => {
  const [from, to] = [S.from, S.to];
  const counters = [...machine(), S.quantity].join(",");
  const points = Math.min(1200, Math.round(width() / 1.5));
  S.recent = [];
  const found = await ask("range", "api/range", { from, to, points, counters });
  const step = count => (found.to_ms - found.from_ms) / count;
  const series = line => {
    const width = step(line.mean.length), middle = line.mean.map((_, i) => found.from_ms + (i + 0.5) * width);
    return { ...line, x: middle, step: width };
  };
  S.lines = found.lines.map(series);
  // ticks that came while the answer was on its way
  addTicks(S.recent);
  S.marks = found.marks;
  S.alerts = found.alerts;
  tell("");
  drawAll();
  panelLists();
});
const loadNav = tried(async () => {
  if (!S.range) return;
  const found = await ask("nav", "api/range", { from: S.range[0], to: S.range[1], points: 400, counters: machine().join(",") });
  // the first of the machine's quantities that was recorded
  const has = line => line.mean.some(v => v !== null), of = counter => found.lines.find(line => line.counter === counter && has(line));
  S.nav = { from: found.from_ms, to: found.to_ms, line: machine().map(of).find(line => line) };
  drawNav();
});
const loadView = tried(async () => {
  if (S.follow && S.at === null && !S.chosen && S.live && !S.built) { S.view = S.live.view; panels(); return; }
  // where nothing is chosen of a log, its visible part is judged, if that takes no time
  const all = !S.info.live && S.at === null && !S.chosen ? [Math.max(S.from, S.range[0]), Math.min(S.to, S.range[1])] : null;
  const isLong = all && (all[1] - all[0]) / S.info.interval_ms > 20000 && !S.isWhole;
  if (isLong && S.view) { S.tooLong = true; stretchBar(); return; }
  S.isWhole = false; S.tooLong = isLong;
  const [from, to] = S.chosen || (isLong ? null : all) || [null, S.at ?? Math.min(S.to, S.range[1])];
  const judged = from === null ? Math.max(60000, S.info.interval_ms * 12) : to - from;
  const shown = from === null ? Math.max(5000, S.info.interval_ms) : to - from;
  $("verdict").classList.add("waits");
  S.view = await ask("view", "api/view", { at: to, judged, shown, ...(S.built ? { all: 1 } : {}) });
  tell("");
  panels();
});
const loadHeat = tried(async () => {
  $("heat").hidden = !S.info.heat;
  if (!S.info.heat) return;
  const [from, to] = [S.from, S.to];
  if ((to - from) / S.info.interval_ms > 20000) { S.heat = { because: "Zoom in: a map shows at most 20,000 ticks." }; drawHeat(); return; }
  const found = await ask("heat", "api/heat", { from: Math.max(from, S.range[0]), to });
  S.heat = found;
  panelMaps();
  drawHeat();
});
const soonView = debounce(120, () => loadView());
const soonerView = debounce(300, () => loadView());
const soonHeat = debounce(350, () => loadHeat());
const soonRange = debounce(60, () => loadRange());

// The window, clamped to what there is.
function setWindow(from, to, follow) {
  const [first, last] = S.range;
  const least = Math.max(S.info.interval_ms * 5, 1000), all = Math.max(last - first, least);
  let span = Math.min(Math.max(to - from, least), S.info.live ? Math.max(all, 300000) : all);
  if (follow) { to = last; from = last - span; }
  if (to > last) { to = last; from = to - span; }
  if (from < first && !S.info.live) { from = first; to = Math.min(Math.max(last, first + least), first + span); }
  S.from = from; S.to = Math.max(to, from + least); S.span = S.to - S.from;
  S.follow = S.info.live && !!follow;
  soonRange(); soonHeat(); drawAll(); controls(); remember();
  if (!S.info.live && S.at === null && !S.chosen) soonerView();
}
const zoom = (by, around) => {
  const middle = around ?? S.at ?? (S.chosen ? (S.chosen[0] + S.chosen[1]) / 2 : S.follow ? S.to : (S.from + S.to) / 2);
  setWindow(middle - (middle - S.from) * by, middle + (S.to - middle) * by, S.follow && middle >= S.to - 1);
};
const pan = by => { const d = (S.to - S.from) * by; setWindow(S.from + d, S.to + d, S.info.live && S.to + d >= S.last - 1 && by > 0); };
function setCursor(at) {
  S.anchor = S.head = null;
  S.at = at === null ? null : Math.min(Math.max(at, S.range[0]), S.range[1]);
  if (S.at !== null) S.follow = false;
  if (S.at !== null && (S.at < S.from || S.at > S.to)) setWindow(S.at - S.span / 2, S.at + S.span / 2, false);
  drawVeil(); controls(); soonView(); remember();
}
function choose(a, b) {
  // whoever goes on with Shift begins where this ends
  S.anchor = S.head = null;
  if (a === null) S.chosen = null;
  else {
    const [from, to] = [Math.min(a, b), Math.max(a, b)].map(t => Math.min(Math.max(t, S.range[0]), S.range[1]));
    S.chosen = to - from >= S.info.interval_ms * 2 ? [from, to] : null;
    if (S.chosen) { S.at = null; S.follow = false; }
  }
  drawVeil(); controls(); soonView(); remember();
}

// A moment as a link.
const remember = debounce(150, () => {
  if (S.host === null) { history.replaceState(null, "", location.pathname); return; }
  const words = new URLSearchParams();
  const put = (name, value) => value != null && words.set(name, value);
  if (S.hosts.length > 1) { put("host", S.host); put("name", S.info?.name); }
  if (S.follow) put("last", Math.round(S.span)); else { put("from", Math.round(S.from)); put("to", Math.round(S.to)); }
  put("at", S.at === null ? null : Math.round(S.at));
  if (S.chosen) put("part", S.chosen.map(Math.round).join("-"));
  if (S.quantity !== S.info?.columns[0]?.counter) put("of", S.quantity);
  // this is no hashchange
  history.replaceState(null, "", `#${words}`);
});
function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  const number = name => words.has(name) && isFinite(+words.get(name)) ? +words.get(name) : null;
  const part = (words.get("part") || "").split("-").map(Number);
  // hosts of a store are numbered anew at each start, the worst first
  const host = number("host"), name = words.get("name"), isNamed = one => one?.name === name;
  return {
    host: name === null || isNamed(S.hosts[host]) ? host : S.hosts.find(isNamed)?.id ?? null, from: number("from"), to: number("to"), last: number("last"), at: number("at"), of: words.get("of"),
    part: part.length === 2 && part.every(isFinite) && part[0] < part[1] ? part : null,
  };
}
