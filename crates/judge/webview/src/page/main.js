// From the first question to the stream, and the buttons.
// The built-in panels' short titles, which a page has room to write out; a user's own titles stay as they are.
const NAMES = {
  "rd/s": "reads/s", "wr/s": "writes/s", "rd B/s": "bytes read/s", "wr B/s": "bytes written/s", "rd lat": "read latency", "wr lat": "write latency", "fl lat": "flush latency",
  inflt: "requests in flight", util: "time with a request", size: "request size",
};
let stream = null, timer = null, again = null, failed = 0;
const SPANS = [[60, "1 m"], [300, "5 m"], [900, "15 m"], [3600, "1 h"], [21600, "6 h"], [86400, "1 d"], [604800, "7 d"]];
const live = () => {
  if (!S.info?.live) return;
  if (S.follow) { S.follow = false; setCursor(S.last); } else toEnd();
};
const toEnd = () => { S.at = S.chosen = S.anchor = S.head = null; setWindow(S.last - S.span, S.last, true); loadView(); };
function allDevices() {
  S.built = !S.built;
  $("built").setAttribute("aria-pressed", String(S.built));
  if (S.range) loadView();
}
function askMark() {
  if (!S.info?.can_mark) return;
  const at = S.at ?? S.chosen?.[0] ?? S.last;
  $("asktime").textContent = `at ${when(at)}`;
  $("asktext").value = "";
  $("ask").showModal();
  $("askset").onclick = tried(async () => {
    const text = $("asktext").value.trim();
    if (!text) return;
    $("ask").close();
    await ask("mark", "api/mark", {}, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ time_ms: at, text }) });
    S.marks.push({ time_ns: at * 1e6, kind: "bookmark", text });
    drawAll(); panelLists();
  });
}
function append(frame) {
  const isOther = frame.series !== S.info.series.length;
  if (isOther) describe();
  // ticks of other lines, or that were missed: more than the server could send again, or a stream that began anew
  if (isOther || S.heardTo && (frame.before_ms || S.last) > S.heardTo + 1) { soonRange(); return; }
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
  // a stream that begins anew repeats the last frame, which is no news
  if (!S.heard || frame.range_ms[1] > S.last) { S.heard = Date.now(); failed = 0; }
  // a clock that was set back: what the charts have of the times that come again is another's
  const isBack = frame.range_ms[1] < S.last;
  S.live = frame; S.range = frame.range_ms; S.last = S.range[1]; S.cut = false;
  if (S.follow) { S.to = S.last; S.from = S.to - S.span; }
  append(frame);
  S.heardTo = S.last;
  const isLong = S.lines.some(line => line.x.length > 4000);
  if (isBack) describe();
  // what was marked and raised comes with the range; the map is made anew now and then
  if (++frames % 30 === 0 || isLong || isBack) { soonRange(); loadNav(); }
  if (frames % 10 === 0 && S.follow) soonHeat();
  for (const alert of frame.view.alerts || []) {
    const known = S.alerts.findIndex(one => one.id === alert.id && one.instance === alert.instance && one.begin_ns === alert.begin_ns);
    if (known < 0) S.alerts.push(alert); else S.alerts[known] = alert;
  }
  for (const mark of frame.view.marks) if (!S.marks.some(one => one.time_ns === mark.time_ns && one.text === mark.text)) S.marks.push(mark);
  // a button that is made anew while it is pressed is not clicked
  if (S.follow && S.at === null && !S.chosen && !document.querySelector("button:active")) {
    // one event serves all viewers, without these; values are means of as many seconds
    if (!S.built) { S.view = frame.view; panels(); } else if (frames % 5 === 0) loadView();
  }
  document.documentElement.dataset.frames = frames;
  tell(""); drawAll(); controls();
}
// A browser connects again where the connection ends, but not after an answer that is no stream (a server or a proxy
// that has too much to do), nor where no end is seen (this machine slept, or a network went away without a word).
function listen() {
  stream?.close(); clearTimeout(again);
  const mine = stream = new EventSource(`events?host=${S.host}`);
  mine.addEventListener("frame", event => onFrame(JSON.parse(event.data)));
  mine.onerror = () => {
    if (mine !== stream) return;
    S.cut = mine.readyState !== EventSource.OPEN;
    if (S.cut && S.info) { tell(LOST); controls(); }
    if (mine.readyState === EventSource.CLOSED) again = setTimeout(listenAgain, pauseAfter(failed++, 1000, 30000));
  };
  mine.onopen = () => { if (S.cut || S.heard) { S.cut = false; tell(""); soonRange(); } };
}
async function listenAgain() {
  const host = S.host;
  await describe();
  if (S.host === host && host !== null && S.info?.live) listen();
}
const isSilent = least => S.info?.live && S.heard > 0 && Date.now() - S.heard > Math.max(least, S.info.interval_ms * 5);
// Asks again where nothing was heard for a while; of a recorder that is silent there is nothing new, and each pause is longer.
function ifSilent() {
  if (stream?.readyState !== EventSource.OPEN || !isSilent(10000) || Date.now() < S.asksAgain) return;
  S.asksAgain = Date.now() + pauseAfter(failed++, 14000, 60000);
  listen();
}
// The tab is seen again, the machine or its network is back.
function wakeUp() {
  const isClosed = stream?.readyState === EventSource.CLOSED;
  if (document.hidden || !stream || !(isClosed || isSilent(5000))) return;
  failed = 0;
  if (isClosed) listenAgain(); else listen();
}
const describe = tried(async () => {
  const before = S.info;
  S.info = await ask("host", "api/host", {});
  // of a live host its stream says so
  if (S.cut && !S.info.live) { S.cut = false; tell(""); }
  // looks in the machine's order, whatever is seen first
  S.info.series.forEach(placeOf);
  if (S.info.fault) tell(`This host cannot be read: ${S.info.fault}`);
  if (S.info.range_ms) { S.range = S.info.range_ms; S.last = S.range[1]; }
  if (!before || before.name !== S.info.name) choices();
  controls();
  if (before && !before.live && S.info.live) wake();
});
// A recorder has begun again.
function wake() {
  if (S.at === null && !S.chosen) history.replaceState(null, "", S.hosts.length > 1 ? `#host=${S.host}` : location.pathname);
  open(S.host);
}
let looks = 0;
function choices() {
  $("host").textContent = S.info.name || "this machine";
  document.title = `${S.info.name || "Diskwright"} – Diskwright`;
  fill($("quantity"), ...S.info.columns.map(one => el("option", { value: one.counter }, `Devices: ${NAMES[one.title] || one.title}`)));
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "", ahead = -new Date().getTimezoneOffset();
  const from = `UTC${ahead < 0 ? "−" : "+"}${two(Math.floor(Math.abs(ahead) / 60))}:${two(Math.abs(ahead) % 60)}`;
  $("foot").textContent = `Times are this browser's: ${[zone, ahead || !zone ? from : ""].filter(Boolean).join(", ")}. One tick: ${long(S.info.interval_ms)}.`;
  explain();
}
function explain() {
  $("quantity").value = S.quantity ?? "";
  $("explain").textContent = S.info.columns.find(one => one.counter === S.quantity)?.explain || "";
}
const open = tried(async id => {
  leave();
  const place = recall();
  S.host = id;
  $("fleet").hidden = true; $("one").hidden = false; $("all").hidden = S.hosts.length < 2; for (const id of ["spans", "link", "state"]) $(id).hidden = false;
  await describe();
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
  const look = async () => {
    if (S.host !== id) return;
    if (S.range && !isBegun) { isBegun = true; begin(); }
    if (S.info.read < 1 || !S.info.alerts_ready) {
      const wasRead = S.info.read >= 1;
      timer = setTimeout(async () => { await describe(); if (S.host !== id || !S.info) return; if (isBegun) { loadRange(); if (!wasRead) { loadNav(); if (S.info.read >= 1) { loadView(); loadHeat(); } } } look(); }, 700);
    }
  };
  await look();
});
function leave() {
  // answers about one host are not another's
  for (const one of Object.values(asked)) one.abort();
  stream?.close(); stream = null; clearTimeout(timer); clearTimeout(again); failed = 0;
  Object.assign(S, ofHost());
  noted = barred = ""; listed = ["", ""];
  tell(""); $("compared").hidden = true; $("heat").hidden = true;
}
const showFleet = tried(async () => {
  leave();
  $("fleet").hidden = false; $("one").hidden = true; $("all").hidden = true; $("host").textContent = "Diskwright"; $("state").textContent = ""; $("state").className = "chip"; document.title = "Hosts – Diskwright";
  for (const id of ["pause", "mark", "spans", "link", "state"]) $(id).hidden = true;
  history.replaceState(null, "", location.pathname);
  const look = async () => {
    if (S.host !== null) return;
    try {
      S.hosts = (await ask("hosts", "api/hosts", {})).hosts;
      tell(""); fleet();
    } finally {
      // after a question that failed, too: the server may come back
      if (S.host === null) timer = setTimeout(tried(look), S.hosts.some(one => !one.verdict && !one.fault) ? 1500 : 5000);
    }
  };
  await look();
});
const start = tried(async () => {
  readInks();
  for (const [s, name] of SPANS) $("spans").append(button(name, () => { if (S.range) { const end = S.follow ? S.last : S.at !== null ? Math.min(S.at + s * 500, S.last) : S.to; setWindow(end - s * 1000, end, S.follow); } }, { value: String(s * 1000) }));
  fill($("keylist"), ...KEYS.flatMap(([key, text]) => [el("dt", {}, key), el("dd", {}, text)]));
  $("pause").onclick = live;
  $("mark").onclick = askMark;
  $("built").onclick = allDevices;
  $("asknot").onclick = () => $("ask").close();
  $("asktext").addEventListener("keydown", event => { if (event.key === "Enter") $("askset").click(); });
  $("help").onclick = () => $("keys").showModal();
  $("keysend").onclick = () => $("keys").close();
  $("all").onclick = showFleet;
  $("find").addEventListener("input", fleet);
  $("in").onclick = () => S.range && zoom(0.5);
  $("out").onclick = () => S.range && zoom(2);
  $("whole").onclick = () => S.range && setWindow(S.range[0], S.range[1], S.info.live);
  $("quantity").onchange = event => { S.quantity = event.target.value; explain(); loadRange(); remember(); };
  $("map").onchange = event => { S.map = +event.target.value; drawHeat(); };
  $("link").onclick = async () => {
    // the moment itself: a link does not follow
    const words = new URLSearchParams(location.hash.slice(1));
    if (S.range) { words.delete("last"); words.set("from", Math.round(S.from)); words.set("to", Math.round(S.to)); }
    const text = `${location.origin}${location.pathname}#${words}`;
    try { await navigator.clipboard.writeText(text); $("link").textContent = "Copied"; } catch { prompt("Link to this moment", text); }
    setTimeout(() => { $("link").textContent = "Copy link"; }, 1500);
  };
  pointers();
  // what presses a button, which has a type, is no key of the page
  document.addEventListener("keydown", event => { if (!document.querySelector("dialog[open]") && !(event.target.type && /^( |Enter)$/.test(event.key))) keys(event); });
  new ResizeObserver(() => { drawAll(); if (S.view) panelDevices(); }).observe($("one"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readInks(); listed = ["", ""]; drawAll(); if (S.view) panels(); });
  addEventListener("hashchange", begin);
  for (const name of ["visibilitychange", "resume", "online", "pageshow", "focus"]) addEventListener(name, wakeUp);
  setInterval(() => {
    if (!S.info) return;
    controls(); ifSilent();
    if (++looks % 4 || document.hidden) return;
    if (!S.info.live && S.info.read >= 1) describe();
    // a recorder that is silent sends no frame, and the alert on that comes with the range; or it has ended its log
    else if (S.range && isSilent(5000)) { soonRange(); describe(); }
  }, 2000);
  await begin();
});
async function begin() {
  S.hosts = (await ask("hosts", "api/hosts", {})).hosts;
  const { host } = recall();
  if (S.hosts.length > 1 && host === null) await showFleet(); else await open(host !== null && S.hosts[host] ? host : 0);
}
start();
