// Opening a host, its event stream, and the buttons.
// The built-in panels' short titles, which a page has room to write out; a user's own titles stay as they are.
const NAMES = {
  "rd/s": "reads/s", "wr/s": "writes/s", "rd B/s": "bytes read/s", "wr B/s": "bytes written/s", "rd lat": "read latency", "wr lat": "write latency", "fl lat": "flush latency",
  inflt: "requests in flight", util: "time with a request", size: "request size",
};
let stream = null, pollTimer = null, retryTimer = null, failures = 0;
const SPANS = [[60, "1 m"], [300, "5 m"], [900, "15 m"], [3600, "1 h"], [21600, "6 h"], [86400, "1 d"], [604800, "7 d"]];
const toggleFollow = () => {
  if (!S.info?.live) return;
  if (S.follow) { S.follow = false; setCursor(S.last); } else followEnd();
};
const followEnd = () => { S.time = S.chosen = S.anchor = S.head = null; setWindow(S.last - S.span, S.last, true); loadView(); };
function toggleAll() {
  S.all = !S.all;
  $("built").setAttribute("aria-pressed", String(S.all));
  if (S.range) loadView();
}
function askMark() {
  if (!S.info?.can_mark) return;
  const time = S.time ?? S.chosen?.[0] ?? S.last;
  $("asktime").textContent = `at ${when(time)}`;
  $("asktext").value = "";
  $("ask").showModal();
  $("askset").onclick = safely(async () => {
    const text = $("asktext").value.trim();
    if (!text) return;
    $("ask").close();
    await getJson("mark", "api/mark", {}, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ time_ms: time, text }) });
    S.marks.push({ time_ns: time * 1e6, kind: "bookmark", text });
    drawAll(); showLists();
  });
}
function appendFrame(frame) {
  const isOther = frame.series !== S.info.series.length;
  if (isOther) loadHost();
  // other series, or ticks were missed: more than the server could send again, or a new stream
  if (isOther || S.frameEnd && (frame.before_ms || S.last) > S.frameEnd + 1) { queueRange(); return; }
  S.recent.push(...frame.ticks);
  addTicks(frame.ticks);
}
function addTicks(ticks) {
  for (const line of S.lines) {
    const index = S.info.series.findIndex(one => one.counter === line.counter && one.instance === line.instance);
    if (index < 0) continue;
    for (const [t, values] of ticks) {
      if (t <= (line.x.length ? line.x[line.x.length - 1] : 0) + S.info.interval_ms * 0.75) continue;
      line.x.push(t - S.info.interval_ms / 2); line.least.push(values[index]); line.mean.push(values[index]); line.most.push(values[index]);
    }
    const old = S.follow ? line.x.findIndex(t => t >= S.from - S.span * 0.1) : 0;
    if (old > 200) for (const list of [line.x, line.least, line.mean, line.most]) list.splice(0, old);
  }
}
let frames = 0;
function onFrame(frame) {
  // a new stream begins with the newest frame, which the page may have: it shows no life of the host
  if (frame.range_ms[1] === S.frameEnd) { S.lost = false; warn(""); controls(); return; }
  if (!S.frameAt || frame.range_ms[1] > S.last) { S.frameAt = Date.now(); failures = 0; }
  // the clock was set back: the charts hold other data for the times that come again
  const isBack = frame.range_ms[1] < S.last;
  S.live = frame; S.range = frame.range_ms; S.last = S.range[1]; S.lost = false;
  if (S.follow) { S.to = S.last; S.from = S.to - S.span; }
  appendFrame(frame);
  S.frameEnd = S.last;
  const isLong = S.lines.some(line => line.x.length > 4000);
  if (isBack) loadHost();
  // marks and alerts come with the range; the map is reloaded now and then
  if (++frames % 30 === 0 || isLong || isBack) { queueRange(); loadNav(); }
  if (frames % 10 === 0 && S.follow) queueHeat();
  for (const alert of frame.view.alerts || []) {
    const known = S.alerts.findIndex(one => one.id === alert.id && one.instance === alert.instance && one.begin_ns === alert.begin_ns);
    if (known < 0) S.alerts.push(alert); else S.alerts[known] = alert;
  }
  for (const mark of frame.view.marks) if (!S.marks.some(one => one.time_ns === mark.time_ns && one.text === mark.text)) S.marks.push(mark);
  // a button that is replaced while it is pressed gets no click
  if (S.follow && S.time === null && !S.chosen && !document.querySelector("button:active")) {
    // one event serves all viewers, without these; values are means of as many seconds
    if (!S.all) { S.view = frame.view; showPanels(); } else if (frames % 5 === 0) loadView();
  }
  document.documentElement.dataset.frames = frames;
  warn(""); drawAll(); controls();
}
// A browser reconnects when the connection ends, but not after an answer that is no stream (an overloaded server or
// proxy), nor if the end goes unnoticed (this machine slept, or the network vanished).
function listen() {
  stream?.close(); clearTimeout(retryTimer);
  const mine = stream = new EventSource(`events?host=${S.host}`);
  mine.addEventListener("frame", event => onFrame(JSON.parse(event.data)));
  mine.onerror = () => {
    if (mine !== stream) return;
    S.lost = mine.readyState !== EventSource.OPEN;
    if (S.lost && S.info) { warn(NO_SERVER); controls(); }
    if (mine.readyState === EventSource.CLOSED) retryTimer = setTimeout(listenAgain, retryPause(failures++, 1000, 30000));
  };
  mine.onopen = () => { if (S.lost || S.frameAt) { S.lost = false; warn(""); queueRange(); } };
}
async function listenAgain() {
  const host = S.host;
  await loadHost();
  if (S.host === host && host !== null && S.info?.live) listen();
}
const isSilent = minMs => S.info?.live && S.frameAt > 0 && Date.now() - S.frameAt > Math.max(minMs, S.info.interval_ms * 5);
// Reconnects after a silence; a recorder may be silent itself, so each pause is longer.
function retryIfSilent() {
  if (stream?.readyState !== EventSource.OPEN || !isSilent(10000) || Date.now() < S.nextRetry) return;
  S.nextRetry = Date.now() + retryPause(failures++, 14000, 60000);
  listen();
}
// The tab is visible again, or the machine or its network is back.
function onWake() {
  const isClosed = stream?.readyState === EventSource.CLOSED;
  if (document.hidden || !stream || !(isClosed || isSilent(5000))) return;
  failures = 0;
  if (isClosed) listenAgain(); else listen();
}
const loadHost = safely(async () => {
  const before = S.info;
  S.info = await getJson("host", "api/host", {});
  // for a live host, the stream clears it
  if (S.lost && !S.info.live) { S.lost = false; warn(""); }
  // styles follow the order of the machine's series
  S.info.series.forEach(styleIndex);
  if (S.info.fault) warn(`This host cannot be read: ${S.info.fault}`);
  if (S.info.range_ms) { S.range = S.info.range_ms; S.last = S.range[1]; }
  if (!before || before.name !== S.info.name) showHostInfo();
  controls();
  if (before && !before.live && S.info.live) restartHost();
});
// The recorder has started again.
function restartHost() {
  if (S.time === null && !S.chosen) history.replaceState(null, "", S.hosts.length > 1 ? `#host=${S.host}` : location.pathname);
  openHost(S.host);
}
let pollCount = 0;
function showHostInfo() {
  $("host").textContent = S.info.name || "this machine";
  document.title = `${S.info.name || "Diskwright"} – Diskwright`;
  fill($("quantity"), ...S.info.columns.map(one => el("option", { value: one.counter }, `Devices: ${NAMES[one.title] || one.title}`)));
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "", ahead = -new Date().getTimezoneOffset();
  const from = `UTC${ahead < 0 ? "−" : "+"}${two(Math.floor(Math.abs(ahead) / 60))}:${two(Math.abs(ahead) % 60)}`;
  $("foot").textContent = `Times are this browser's: ${[zone, ahead || !zone ? from : ""].filter(Boolean).join(", ")}. One tick: ${period(S.info.interval_ms)}.`;
  explain();
}
function explain() {
  $("quantity").value = S.quantity ?? "";
  fill($("explain"), ...marked(S.info.columns.find(one => one.counter === S.quantity)?.explain || ""));
}
const openHost = safely(async id => {
  closeHost(); showWait();
  const place = readLink();
  S.host = id;
  $("fleet").hidden = true; $("one").hidden = false; $("all").hidden = S.hosts.length < 2; for (const id of ["spans", "link", "state"]) $(id).hidden = false;
  await loadHost();
  // what failed is told already, and tried again
  if (!S.info) return;
  const columns = S.info.columns.map(one => one.counter), usual = ["physical_disk.avg_queue_length"].find(one => columns.includes(one)) || columns[0];
  S.quantity = columns.includes(place.of) ? place.of : usual;
  explain();
  const begin = () => {
    const [first, last] = S.range, mine = place.host === null || place.host === id;
    S.follow = false;
    if (mine && place.from !== null && place.to > place.from) setWindow(place.from, place.to, false);
    else if (S.info.live) setWindow(last - (mine && place.last || (last - first > 60000 ? 300000 : 60000)), last, true);
    else setWindow(first, last, false);
    if (mine && place.part) choose(...place.part); else if (mine && place.at !== null) setCursor(place.at);
    loadRange(); loadView(); loadNav(); loadHeat();
    if (S.info.live) listen();
  };
  let isBegun = false;
  const poll = async () => {
    if (S.host !== id) return;
    if (S.range && !isBegun) { isBegun = true; begin(); }
    if (S.info.read < 1 || !S.info.alerts_ready) {
      const wasRead = S.info.read >= 1;
      pollTimer = setTimeout(async () => { await loadHost(); if (S.host !== id || !S.info) return; if (isBegun) { loadRange(); if (!wasRead) { loadNav(); if (S.info.read >= 1) { loadView(); loadHeat(); } } } poll(); }, 700);
    }
  };
  await poll();
});
function closeHost() {
  // answers for the old host must not reach the new one
  for (const one of Object.values(pending)) one.abort();
  stream?.close(); stream = null; clearTimeout(pollTimer); clearTimeout(retryTimer); failures = 0;
  Object.assign(S, hostState());
  noted = shownBar = ""; listed = ["", ""];
  warn(""); $("compared").hidden = true; $("heat").hidden = true;
}
const showHosts = safely(async () => {
  closeHost();
  $("fleet").hidden = false; $("one").hidden = $("wait").hidden = true; $("all").hidden = true; $("host").textContent = "Diskwright"; $("state").textContent = ""; $("state").className = "chip"; document.title = "Hosts – Diskwright";
  for (const id of ["pause", "mark", "spans", "link", "state"]) $(id).hidden = true;
  history.replaceState(null, "", location.pathname);
  const poll = async () => {
    if (S.host !== null) return;
    try {
      S.hosts = (await getJson("hosts", "api/hosts", {})).hosts;
      warn(""); fleet();
    } finally {
      // after a failed request too: the server may come back
      if (S.host === null) pollTimer = setTimeout(safely(poll), S.hosts.some(one => !one.verdict && !one.fault) ? 1500 : 5000);
    }
  };
  await poll();
});
const start = safely(async () => {
  readInks();
  for (const [s, name] of SPANS) $("spans").append(button(name, () => { if (S.range) { const end = S.follow ? S.last : S.time !== null ? Math.min(S.time + s * 500, S.last) : S.to; setWindow(end - s * 1000, end, S.follow); } }, { value: String(s * 1000) }));
  fill($("keylist"), ...KEYS.flatMap(([key, text]) => [el("dt", {}, key), el("dd", {}, text)]));
  $("pause").onclick = toggleFollow;
  $("mark").onclick = askMark;
  $("built").onclick = toggleAll;
  $("asknot").onclick = () => $("ask").close();
  $("asktext").addEventListener("keydown", event => { if (event.key === "Enter") $("askset").click(); });
  $("help").onclick = () => $("keys").showModal();
  $("keysend").onclick = () => $("keys").close();
  $("all").onclick = showHosts;
  $("find").addEventListener("input", fleet);
  $("in").onclick = () => S.range && zoom(0.5);
  $("out").onclick = () => S.range && zoom(2);
  $("whole").onclick = () => S.range && setWindow(S.range[0], S.range[1], S.info.live);
  $("quantity").onchange = event => { S.quantity = event.target.value; explain(); loadRange(); updateLink(); };
  $("map").onchange = event => { S.map = +event.target.value; drawHeat(); };
  $("link").onclick = async () => {
    // fixed times: a link does not follow the live end
    const params = new URLSearchParams(location.hash.slice(1));
    if (S.range) { params.delete("last"); params.set("from", Math.round(S.from)); params.set("to", Math.round(S.to)); }
    const text = `${location.origin}${location.pathname}#${params}`;
    try { await navigator.clipboard.writeText(text); $("link").textContent = "Copied"; } catch { prompt("Link to this moment", text); }
    setTimeout(() => { $("link").textContent = "Copy link"; }, 1500);
  };
  addPointers();
  // a key that presses a button (which has a type) is not a shortcut
  document.addEventListener("keydown", event => { if (!document.querySelector("dialog[open]") && !(event.target.type && /^( |Enter)$/.test(event.key))) onKey(event); });
  new ResizeObserver(() => { drawAll(); if (S.view) showDevices(); }).observe($("one"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readInks(); listed = ["", ""]; drawAll(); if (S.view) showPanels(); });
  addEventListener("hashchange", begin);
  for (const name of ["visibilitychange", "resume", "online", "pageshow", "focus"]) addEventListener(name, onWake);
  setInterval(() => {
    if (!S.info) {
      showWait();
      if (S.lost && $("fleet").hidden && Date.now() >= S.nextRetry) {
        begin();
        S.nextRetry = Date.now() + retryPause(beginnings++, 2000, 30000);
      }
      return;
    }
    controls(); retryIfSilent();
    if (++pollCount % 4 || document.hidden) return;
    if (!S.info.live && S.info.read >= 1) loadHost();
    // a silent recorder sends no frame: the alert on that comes with the range, or the log has ended
    else if (S.range && isSilent(5000)) { queueRange(); loadHost(); }
  }, 2000);
  await begin();
});
let beginnings = 0;
const begin = safely(async () => {
  showWait();
  S.hosts = (await getJson("hosts", "api/hosts", {})).hosts;
  const { host } = readLink();
  if (S.hosts.length > 1 && host === null) await showHosts(); else await openHost(host !== null && S.hosts[host] ? host : 0);
  if (S.info) { beginnings = 0; warn(""); }
});
start();
