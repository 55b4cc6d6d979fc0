// The state of the page, and the requests for its data.
const hostState = () => ({
  host: null, info: null, range: null, time: null, chosen: null, kept: null, anchor: null, head: null, device: null,
  lines: [], recent: [], marks: [], alerts: [], view: null, live: null, heat: null, nav: null,
  styleIndexes: [new Map(), new Map()], frameAt: 0, frameEnd: 0, nextRetry: 0, lost: false,
});
const S = {
  ...hostState(), hosts: [], from: 0, to: 0, span: 300000, follow: false, last: 0,
  quantity: null, map: 0, order: "bytes", sort: null, allRows: false, all: false,
};
const pending = {};
// Pause before a request is repeated: twice as long each time, up to a limit, with jitter between pages.
const retryPause = (tries, minMs, maxMs) => Math.min(maxMs, minMs * 2 ** tries) * (0.75 + Math.random() / 2);

async function sendRequest(kind, path, query, options) {
  pending[kind]?.abort();
  const stop = pending[kind] = new AbortController();
  const params = new URLSearchParams({ host: S.host ?? 0, ...query });
  let answer = await fetch(`${path}?${params}`, { signal: stop.signal, ...options });
  // the server is busy with other requests
  for (let tries = 0; answer.status === 503 && tries < 16; tries++) {
    await new Promise(done => setTimeout(done, retryPause(tries, 250, 4000)));
    answer = await fetch(`${path}?${params}`, { signal: stop.signal, ...options });
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let value = null;
  try { value = JSON.parse(text); } catch { /* a plain refusal */ }
  throw new Error(value?.because || text.trim() || answer.statusText);
}
const getJson = async (...args) => (await sendRequest(...args)).json();
// A request that was aborted by a newer one is no fault.
const safely = work => async (...args) => {
  try { await work(...args); } catch (fault) {
    if (fault.name === "AbortError") return;
    S.lost = fault instanceof TypeError;
    warn(S.lost ? NO_SERVER : fault.message);
  }
};
const NO_SERVER = "No connection to the server. The page shows the last data and tries to reconnect.";
// Until there is something to show, says what the page waits for.
function showWait() {
  $("wait").hidden = Boolean(S.view || S.info && !S.info.live) || !$("fleet").hidden;
  $("wait").textContent = `${S.lost ? "No response yet, trying again: connecting" : "Connecting"} to ${location.host} …`;
}
function warn(text) { $("fault").textContent = text || ""; $("fault").hidden = !text; }

const width = () => Math.max(100, $("c0").clientWidth - MARGIN);
const machine = () => (S.info?.timeline || []).map(one => one.counter);

const loadRange = safely(async () => {
  const [from, to] = [S.from, S.to];
  const counters = [...machine(), S.quantity].join(",");
  const points = Math.min(1200, Math.round(width() / 1.5));
  S.recent = [];
  const found = await getJson("range", "api/range", { from, to, points, counters });
  const step = count => (found.to_ms - found.from_ms) / count;
  const series = line => {
    const width = step(line.mean.length), middle = line.mean.map((_, i) => found.from_ms + (i + 0.5) * width);
    return { ...line, x: middle, step: width };
  };
  S.lines = found.lines.map(series);
  // ticks that arrived while the request was in flight
  addTicks(S.recent);
  S.marks = found.marks;
  S.alerts = found.alerts;
  warn("");
  drawAll();
  showLists();
});
const loadNav = safely(async () => {
  if (!S.range) return;
  const found = await getJson("nav", "api/range", { from: S.range[0], to: S.range[1], points: 400, counters: machine().join(",") });
  // the first machine counter that was recorded
  const has = line => line.mean.some(v => v !== null), of = counter => found.lines.find(line => line.counter === counter && has(line));
  S.nav = { from: found.from_ms, to: found.to_ms, line: machine().map(of).find(line => line) };
  drawNav();
});
const loadView = safely(async () => {
  if (S.follow && S.time === null && !S.chosen && S.live && !S.all) { S.view = S.live.view; showPanels(); return; }
  // without a selection in a log, its visible part is judged if it is short
  const all = !S.info.live && S.time === null && !S.chosen ? [Math.max(S.from, S.range[0]), Math.min(S.to, S.range[1])] : null;
  const isLong = all && (all[1] - all[0]) / S.info.interval_ms > 20000 && !S.judgesAll;
  if (isLong && S.view) { S.tooLong = true; showBar(); return; }
  S.judgesAll = false; S.tooLong = isLong;
  const [from, to] = S.chosen || (isLong ? null : all) || [null, S.time ?? Math.min(S.to, S.range[1])];
  const judged = from === null ? Math.max(60000, S.info.interval_ms * 12) : to - from;
  const shown = from === null ? Math.max(5000, S.info.interval_ms) : to - from;
  $("verdict").classList.add("waits");
  S.view = await getJson("view", "api/view", { at: to, judged, shown, ...(S.all ? { all: 1 } : {}) });
  warn("");
  showPanels();
});
const loadHeat = safely(async () => {
  $("heat").hidden = !S.info.heat;
  if (!S.info.heat) return;
  const [from, to] = [S.from, S.to];
  if ((to - from) / S.info.interval_ms > 20000) { S.heat = { because: "Zoom in: a map shows at most 20,000 ticks." }; drawHeat(); return; }
  const found = await getJson("heat", "api/heat", { from: Math.max(from, S.range[0]), to });
  S.heat = found;
  showMapNames();
  drawHeat();
});
const queueView = debounce(120, () => loadView());
const queueWindowView = debounce(300, () => loadView());
const queueHeat = debounce(350, () => loadHeat());
const queueRange = debounce(60, () => loadRange());

// Sets the visible window, clamped to the recorded range.
function setWindow(from, to, follow) {
  const [first, last] = S.range;
  const minSpan = Math.max(S.info.interval_ms * 5, 1000), all = Math.max(last - first, minSpan);
  let span = Math.min(Math.max(to - from, minSpan), S.info.live ? Math.max(all, 300000) : all);
  if (follow) { to = last; from = last - span; }
  if (to > last) { to = last; from = to - span; }
  if (from < first && !S.info.live) { from = first; to = Math.min(Math.max(last, first + minSpan), first + span); }
  S.from = from; S.to = Math.max(to, from + minSpan); S.span = S.to - S.from;
  S.follow = S.info.live && !!follow;
  queueRange(); queueHeat(); drawAll(); controls(); updateLink();
  if (!S.info.live && S.time === null && !S.chosen) queueWindowView();
}
const zoom = (by, around) => {
  const middle = around ?? S.time ?? (S.chosen ? (S.chosen[0] + S.chosen[1]) / 2 : S.follow ? S.to : (S.from + S.to) / 2);
  setWindow(middle - (middle - S.from) * by, middle + (S.to - middle) * by, S.follow && middle >= S.to - 1);
};
const pan = by => { const d = (S.to - S.from) * by; setWindow(S.from + d, S.to + d, S.info.live && S.to + d >= S.last - 1 && by > 0); };
function setCursor(time) {
  S.anchor = S.head = null;
  S.time = time === null ? null : Math.min(Math.max(time, S.range[0]), S.range[1]);
  if (S.time !== null) S.follow = false;
  if (S.time !== null && (S.time < S.from || S.time > S.to)) setWindow(S.time - S.span / 2, S.time + S.span / 2, false);
  drawVeil(); controls(); queueView(); updateLink();
}
function choose(a, b) {
  // a later Shift key extends from the end of this selection
  S.anchor = S.head = null;
  if (a === null) S.chosen = null;
  else {
    const [from, to] = [Math.min(a, b), Math.max(a, b)].map(t => Math.min(Math.max(t, S.range[0]), S.range[1]));
    S.chosen = to - from >= S.info.interval_ms * 2 ? [from, to] : null;
    if (S.chosen) { S.time = null; S.follow = false; }
  }
  drawVeil(); controls(); queueView(); updateLink();
}

// Writes the view into the address, so that it can be shared.
const updateLink = debounce(150, () => {
  if (S.host === null) { history.replaceState(null, "", location.pathname); return; }
  const params = new URLSearchParams();
  const put = (name, value) => value != null && params.set(name, value);
  if (S.hosts.length > 1) { put("host", S.host); put("name", S.info?.name); }
  if (S.follow) put("last", Math.round(S.span)); else { put("from", Math.round(S.from)); put("to", Math.round(S.to)); }
  put("at", S.time === null ? null : Math.round(S.time));
  if (S.chosen) put("part", S.chosen.map(Math.round).join("-"));
  if (S.quantity !== S.info?.columns[0]?.counter) put("of", S.quantity);
  // replaceState fires no hashchange
  history.replaceState(null, "", `#${params}`);
});
function readLink() {
  const params = new URLSearchParams(location.hash.slice(1));
  const number = name => params.has(name) && isFinite(+params.get(name)) ? +params.get(name) : null;
  const part = (params.get("part") || "").split("-").map(Number);
  // a store numbers its hosts anew at each start, the worst first
  const host = number("host"), name = params.get("name"), isNamed = one => one?.name === name;
  return {
    host: name === null || isNamed(S.hosts[host]) ? host : S.hosts.find(isNamed)?.id ?? null, from: number("from"), to: number("to"), last: number("last"), at: number("at"), of: params.get("of"),
    part: part.length === 2 && part.every(isFinite) && part[0] < part[1] ? part : null,
  };
}
