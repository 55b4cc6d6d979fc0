// The panels beside the charts: verdict, tables, lists.
function lineSwatch(index) {
  const { ink, dash } = lineStyle(index), ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg"), line = document.createElementNS(ns, "line");
  svg.setAttribute("aria-hidden", "true");
  for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 4, y2: 4, stroke: ink, "stroke-width": 2.5, "stroke-dasharray": dash.join(" ") })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}
const LISTED = 10;
let isAllListed = false, listed = ["", ""];
function drawLegends() {
  for (const which of [0, 1]) {
    const lines = shownLines(which), names = lines.map(titleOf);
    const mark = `${names.join("\n")}|${S.device}|${isAllListed}|${inks.s0}`;
    if (listed[which] === mark) continue;
    listed[which] = mark;
    const shown = isAllListed || !which ? lines : lines.slice(0, LISTED);
    const onKey = shown.map((line, index) => which
      ? el("button", { "aria-pressed": String(S.device === line.instance), onclick: () => setDevice(line.instance) }, lineSwatch(styleIndex(line)), names[index])
      : el("span", { className: "row" }, lineSwatch(styleIndex(line)), names[index]));
    if (which && lines.length > LISTED) onKey.push(button(isAllListed ? "fewer" : `${lines.length - LISTED} more …`, () => { isAllListed = !isAllListed; drawLegends(); }));
    fill($(`key${which}`), ...onKey);
  }
}
function setDevice(name) { S.device = S.device === name ? null : name; drawAll(); showDevices(); }

function showReadout(time) {
  if (S.drag) { $("read").textContent = `${when(S.drag[0])} – ${when(S.drag[1])}  (${period(S.drag[1] - S.drag[0])})`; return; }
  if (time == null) { $("read").textContent = S.range ? `${when(Math.max(S.from, S.range[0]))} – ${when(Math.min(S.to, S.range[1]))}` : ""; return; }
  const near = line => {
    let best = -1, nearest = line.step * 0.51 + 1;
    for (let i = 0; i < line.x.length; i++) {
      const far = Math.abs(line.x[i] - time);
      // of two equally near ticks, the earlier: a tick covers the time before its end
      if (far < nearest - 1 && line.mean[i] !== null) { best = i; nearest = far; }
    }
    return best < 0 ? null : line.mean[best];
  };
  const parts = [0, 1].flatMap(which => shownLines(which).map(line => [titleOf(line), near(line), unitOf(line.counter), which]));
  const shownParts = parts.filter(part => part[1] !== null && (!part[3] || !S.device || part[0] === S.device)).slice(0, 6);
  $("read").textContent = `${when(time)}   ${shownParts.map(([name, value, unit]) => `${name} ${show(value, unit)}`).join(" · ")}`;
}
function controls() {
  const isLive = S.info.live, late = isSilent(5000);
  const silent = S.frameAt ? `no data for ${period(Math.round((Date.now() - S.frameAt) / 1000) * 1000)}, trying again` : "trying again";
  showWait();
  const [text, kind] = S.lost ? [`✕ no connection: ${silent}`, "bad"] : S.info.fault ? ["✕ cannot be read", "bad"]
    : S.info.read < 1 ? [`… reading the log, ${Math.floor(S.info.read * 100)} %`, "warn"]
    : !isLive ? ["■ recorded", ""] : !S.view ? [`… connecting to ${location.host}`, "warn"] : late ? [`▲ ${silent}`, "bad"] : S.follow ? ["● live", "good"] : ["❚❚ paused; new data keep arriving", "warn"];
  const state = $("state");
  if (state.textContent !== text) { state.textContent = text; state.className = `chip ${kind}`; }
  $("pause").hidden = !isLive;
  $("pause").textContent = S.follow ? "Pause" : "Go live";
  $("pause").setAttribute("aria-pressed", String(!S.follow));
  $("mark").hidden = !S.info.can_mark;
  for (const button of $("spans").children) {
    button.hidden = !isLive && S.range && button.value > (S.range[1] - S.range[0]) * 1.01;
    button.setAttribute("aria-current", String(Math.abs(S.span - button.value) < button.value * 0.01));
  }
  showBar();
}
let shownBar = "";
function showBar() {
  const part = S.chosen, mark = JSON.stringify([part, S.kept, S.time, S.tooLong, day(Date.now())]);
  if (mark === shownBar) return;
  shownBar = mark;
  const offers = !part && S.time === null && !S.kept && S.tooLong;
  $("stretch").hidden = !part && !S.kept && S.time === null && !offers;
  if (offers) {
    fill($("stretch"), el("span", {}, "Click to judge a moment, drag to judge a stretch."), button("Judge the visible range", () => { S.judgesAll = true; loadView(); }));
    return;
  }
  if (!part && S.time !== null) {
    fill($("stretch"), el("span", {}, `At ${when(S.time)}; the verdict is on the time before.`), button("Clear", () => setCursor(null)));
    return;
  }
  const buttons = [];
  if (part) {
    buttons.push(el("b", {}, `${when(part[0])} – ${when(part[1])} (${period(part[1] - part[0])})`),
      button("Zoom in", () => setWindow(part[0], part[1], false)),
      button("Keep as first", () => { S.kept = part; choose(null); }));
    if (S.kept) buttons.push(button("Compare with first", () => compare(), { className: "main" }));
    buttons.push(button("Save report", () => saveReport(part), { id: "report" }), button("Clear", () => choose(null)));
  }
  if (S.kept) buttons.push(dim("span", `first: ${when(S.kept[0])} – ${when(S.kept[1])}`),
    button("Forget first", () => { S.kept = null; $("compared").hidden = true; drawVeil(); showBar(); }));
  if (S.kept && !part) buttons.push(el("span", {}, "Now choose the second stretch."));
  fill($("stretch"), ...buttons);
}
const saveReport = safely(async ([from, to]) => {
  const button = $("report");
  if (button) { button.textContent = "Making the report …"; button.disabled = true; }
  try {
    // fetched, so that a refusal is shown here and not saved as a report
    const page = await (await sendRequest("report", "report", { from, to })).blob(), address = URL.createObjectURL(page);
    const name = `diskwright-${S.info.name || "report"}-${day(from)}-${clock(from)}`.replace(/[^\w.-]+/g, "-");
    const link = el("a", { href: address, download: `${name}.html` });
    document.body.append(link); link.click(); link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    warn("");
  } finally { shownBar = ""; showBar(); }
});

function showPanels() {
  if (!S.view) return;
  showWait(); showVerdict(); showCulprits(); showDevices(); showStrips(); showProcesses(); showDatabases(); showLists();
  const [from, to] = S.view.shown.map(ns => ns / 1e6);
  $("when").textContent = `means of ${period(to - from)} up to ${when(to)}`;
  $("when2").textContent = S.view.processes.length ? $("when").textContent : "";
}
// what stands between backticks is typed or a name
const marked = text => String(text).split("`").map((part, i) => i % 2 ? el("code", {}, part) : part);
// a tooltip has no other type
const unmarked = text => String(text || "").replaceAll("`", "");
// what can be typed now comes first; the rest is for later
const isAct = one => Boolean(one.command) || one.text.includes("`");
const firstAdvice = found => found.advice.find(one => one.command) || found.advice[0];
const typed = ({ text, command }) => [...marked(text), " ", command ? el("code", {}, command) : ""];
function showVerdict() {
  const found = S.view.verdict, node = $("verdict");
  const [from, to] = S.view.judged.map(ns => ns / 1e6), about = `judged: ${period(to - from)} up to ${when(to)}`;
  if (!found) { node.className = "card"; fill(node, el("p", { className: "kicker" }, "? Not enough data"), el("p", { className: "sentence" }, "Fewer than two ticks"), dim("p", about)); return; }
  const kind = kindOf(found);
  node.className = `card ${kind}`;
  const all = found.bottlenecks, each = all[0] ? all : [found];
  const meter = el("meter", { min: 0, max: 1, value: found.confidence, "aria-label": "Confidence" });
  fill(node,
    el("p", { className: `kicker ${kind}` }, `${SIGNS[kind]} ${each.map(one => `${blamed(one.bottleneck)} ${one.instance}`).join(" and ")}`),
    ...each.map(one => el("p", { className: "sentence" }, ...marked(one.sentence))),
    ...found.events.map(one => el("p", { className: "event" }, one.at ? when(Date.parse(one.at)) + " " : "", ...marked(one.sentence))),
    ...found.changes.filter(one => one.leads).map(one => el("p", { className: "dim" }, `${when(one.time_ns / 1e6)} `, ...marked(one.text))),
    el("p", { className: "next" }, ...(found.advice[0] && found.blames ? [el("b", {}, isAct(firstAdvice(found)) ? "Next: " : "For later: "), ...typed(firstAdvice(found))] : []), " ", dim("span", about)),
    el("div", { className: "sure" }, el("b", {}, pct(found.confidence)), dim("span", "confidence "), el("br", {}), meter));
}
const dim = (tag, text) => el(tag, { className: "dim" }, text);
const pct = x => Math.round(x * 100) + " %";
const titled = one => (one.instance ? one.instance + ": " : "") + one.title;
function showCulprits() {
  const found = S.view.verdict, parts = [el("h2", {}, "Culprits")];
  const list = (title, items) => parts.push(el("h2", {}, title), el("ol", {}, ...items));
  const stretch = (word, one) => { const [from, to] = [one.from, one.to].map(Date.parse); return button(word + when(from), () => choose(from, to), PLAIN); };
  const culprits = found?.culprits || [];
  for (const one of culprits) {
    const name = one.processes > 1 ? `${one.name} (${one.processes} processes)` : one.pid ? `${one.name} (pid ${one.pid})` : one.name;
    const share = one.share === null ? "" : `${pct(one.share)} · `;
    parts.push(el("div", { className: "who" }, el("b", {}, name), el("p", {}, share, ...marked(one.what)), el("p", {}, one.command_line || ""), dim("p", one.where)));
  }
  parts.push(...(found?.unlisted || []).map(words => el("p", {}, ...marked(words))));
  if (!culprits.length) parts.push(dim("p", found?.blames ? "No process is named." : "No bottleneck, no culprits."));
  if (found?.captures?.length) parts.push(el("h2", {}, "Captured"), ...found.captures.map(one => el("details", {},
    el("summary", {}, `${when(Date.parse(one.at))}: ${one.text}`), ...one.lines.map(text => dim("p", text)))));
  if (found?.findings.length) list("Evidence", found.findings.map(one => el("li", { title: unmarked(one.explain) },
    `${titled(one)} — ${show(one.value, unitShown(one.quantity, one.unit))} (${one.compare.replaceAll("_", " ")} ${show(one.limit, unitShown(one.quantity, one.unit))}), ${pct(one.value_share ?? one.share)} of the ${one.since ? `last ${period(one.judged_s * 1000)}` : one.seen_s ? `${period(one.seen_s * 1000)} it was seen` : "time"}`)));
  if (found?.episodes.length) list("At times", found.episodes.map(one => el("li", {}, `${titled(one)}, ${pct(one.share)} `, stretch("from ", one))));
  if (found?.phases.length > 1) list("Timeline", found.phases.slice(0, 12).map(one => el("li", {},
    stretch("", one), `${period(one.seconds * 1000)}: ${[one, ...one.also].map(it => `${blamed(it.bottleneck)} ${it.instance}`.trim()).join(" and ")}`)));
  if (found?.blames && found.advice.length > 1) list("Also", found.advice.filter(one => one !== firstAdvice(found)).map(one => el("li", {}, ...typed(one))));
  if (found?.certainty_limits.length) parts.push(el("h2", {}, "How far to trust this"), ...found.certainty_limits.map(text => el("p", { className: "dim" }, ...marked(text))));
  fill($("who"), ...parts);
}
function table(node, heads, rows) {
  fill(node, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
}
function sortHead(title, key, state, set, explain) {
  const sort = state?.[0] === key ? { "aria-sort": state[1] > 0 ? "ascending" : "descending" } : {};
  return el("th", { scope: "col", title: unmarked(explain), ...sort }, button(title + (sort["aria-sort"] ? (state[1] > 0 ? " ↑" : " ↓") : ""), () => set(key)));
}
const nextSort = (state, key) => state?.[0] !== key ? [key, -1] : state[1] < 0 ? [key, 1] : null;
const headCells = (names, ...texts) => names.map((name, i) => el("th", { scope: "col", className: texts.includes(i) ? "text" : "" }, name));
const cell = (value, unit) => el("td", { className: value === null ? "none" : "" }, show(value, unit));
const ROWS = 100;
function showDevices() {
  if (!S.view || isHeld($("devices"), showDevices)) return;
  const { columns, devices } = S.view;
  const explain = counter => S.info.columns.find(one => one.counter === counter)?.explain;
  const set = key => { S.sort = nextSort(S.sort, key); showDevices(); };
  const rows = [...devices];
  const key = row => S.sort[0] === "use" ? row.ceiling_used : row.values[S.sort[0]];
  if (S.sort) rows.sort((a, b) => ((key(a) ?? -1) - (key(b) ?? -1)) * S.sort[1]);
  else if (rows.length > ROWS) {
    // the page shows a limited number: the busiest
    const peak = row => Math.max(row.name === S.view.verdict?.instance ? Infinity : 0, ...row.history);
    const busy = new Map(rows.map(row => [row, peak(row)]));
    rows.sort((a, b) => busy.get(b) - busy.get(a));
  }
  const over = rows.length - ROWS;
  if (over > 0 && !S.allRows) rows.length = ROWS;
  const heads = [el("th", { scope: "col" }, "device"), ...columns.map((one, i) => sortHead(one.title, i, S.sort, set, explain(one.counter))),
    sortHead("of its measured maximum", "use", S.sort, set, "Share of the maximum that a probe measured on this device"), el("th", {}, "queue")];
  const made = rows.map(row => {
    const use = row.ceiling_used, bar = el("span", { className: "use", "aria-hidden": "true" }, el("i", {}));
    bar.firstChild.style.width = `${Math.min(1, use || 0) * 100}%`;
    return el("tr", { className: row.name === S.device ? "on" : "" },
      el("td", { title: row.stacked ? "built on other devices, which count its requests too" : "" }, row.stacked ? "+ " : "", button(row.name, () => setDevice(row.name), { ...PLAIN, "aria-pressed": String(row.name === S.device) })),
      ...row.values.map((value, i) => cell(value, unitShown(columns[i].counter, columns[i].unit))),
      el("td", { className: use === null ? "none" : "" }, ...(use === null ? ["-"] : [bar, show(use, "fraction")])),
      el("td", {}, el("canvas", { "aria-hidden": "true" })));
  });
  if (over > 0) made.push(el("tr", {}, el("td", {}, button(S.allRows ? "fewer" : `${over} more …`, () => { S.allRows = !S.allRows; showDevices(); }))));
  table($("devices"), heads, made);
  rows.forEach((row, i) => { const node = made[i].querySelector("canvas"); drawSparkline(node, row.history.length ? row.history : [null], inks.s0); });
  if (!rows.length) fill($("devices"), el("tbody", {}, el("tr", {}, el("td", {}, "No disk is recorded."))));
}
// Short titles that only their neighbours explain; a page's neighbours are others.
const STRIPS = {
  "pressure.io_full full": "I/O full", "pressure.memory_some mem": "memory some", "pressure.memory_full full": "memory full", "pressure.cpu_some CPU": "CPU some", "pressure.irq_full irq": "IRQ full",
  "memory.available_bytes avail": "available", "memory.writeback_bytes wback": "writeback", "paging.swap_in_pages_per_s swpin": "swap in", "paging.swap_out_pages_per_s swpout": "swap out", "paging.major_faults_per_s majflt": "major faults",
};
function showStrips() {
  fill($("strips"), ...S.view.strips.map(strip => el("section", { className: "card", "aria-label": strip.title }, el("h2", {}, strip.title),
    el("dl", {}, ...strip.values.map(([one, value]) => el("div", {}, el("dt", { title: one.counter }, STRIPS[`${one.counter} ${one.title}`] || one.title), el("dd", {}, show(value, unitShown(one.counter, one.unit)))))))));
}
const ORDERS = {
  bytes: ["I/O", row => (row.read_bytes_per_s ?? 0) + (row.write_bytes_per_s ?? 0)],
  delay: ["I/O wait", row => row.block_delay ?? row.blocked_share],
  processor: ["processor", row => row.processor],
  memory: ["memory", row => row.resident_bytes],
};
function showProcesses() {
  if (!S.view || isHeld($("processes"), showProcesses)) return;
  const set = key => { S.order = key; showProcesses(); }, by = ORDERS[S.order][1];
  const rows = [...S.view.processes].sort((a, b) => by(b) - by(a)).slice(0, 15);
  const state = [S.order, -1];
  const heads = [el("th", { scope: "col" }, "process"), sortHead("read+write", "bytes", state, set), el("th", {}, "read"), el("th", {}, "write"),
    sortHead("I/O wait", "delay", state, set, "Share of time spent waiting for block I/O; - if the kernel does not count it (kernel.task_delayacct): the order is then by samples in uninterruptible sleep"),
    sortHead("processor", "processor", state, set), sortHead("resident", "memory", state, set), el("th", { className: "text" }, "command line, where it runs")];
  table($("processes"), heads, rows.map(row => el("tr", {}, el("td", {}, el("b", {}, row.name), ` ${row.pid}`),
    cell(row.read_bytes_per_s === null && row.write_bytes_per_s === null ? null : ORDERS.bytes[1](row), "bytes_per_s"), cell(row.read_bytes_per_s, "bytes_per_s"), cell(row.write_bytes_per_s, "bytes_per_s"),
    cell(row.block_delay, "fraction"), cell(row.processor, "fraction"), cell(row.resident_bytes, "bytes"), el("td", { className: "text" }, row.command_line || "", " ", dim("span", row.place || row.cgroup)))));
  if (!rows.length) fill($("processes"), el("tbody", {}, el("tr", {}, el("td", {}, "No process was recorded for this moment."))));
}
function showDatabases() {
  const servers = S.view.verdict?.databases || [], node = $("databases");
  if (isHeld(node, showDatabases)) return;
  node.hidden = !servers.length;
  fill(node, el("h2", {}, "Database servers"), ...servers.flatMap(one => [el("h3", {}, one.title), ...one.sentences.map(text => dim("p", text)),
    ...one.tables.map(({ title, columns, rows, statements }) => {
      const made = el("table", {});
      table(made, headCells(columns, statements), rows.map(row => el("tr", {}, ...row.map((text, i) => el("td", { "data-is": i ? columns[i] : "", className: i === statements ? "text" : "" }, i === statements ? el("code", {}, text) : text)))));
      return el("div", { className: "scroll" }, el("h4", {}, title), made);
    })]));
}
const peakText = peak => !peak || peak.value === null ? "" : /verdict_confidence/.test(peak.quantity)
  ? `confidence up to ${show(peak.value, peak.unit)}` : `worst ${peak.quantity} ${show(peak.value, unitShown(peak.quantity, peak.unit))}`;
let noted = "";
function showLists() {
  if (isHeld($("alerts"), showLists) || isHeld($("notes"), showLists)) return;
  const mark = JSON.stringify([S.alerts, allMarks(), day(Date.now())]);
  if (mark === noted) return;
  noted = mark;
  const go = ns => button(when(ns / 1e6), () => setCursor(ns / 1e6), PLAIN);
  const alerts = [...S.alerts].sort((a, b) => b.begin_ns - a.begin_ns).slice(0, 50).map(one => el("li", {}, go(one.begin_ns),
    el("b", { className: one.severity === "critical" ? "bad" : "warn" }, `▲ ${one.severity}${one.end_ns ? "" : ", lasts"} `),
    dim("span", `${[one.id, ...(one.also || [])].join(", ")}${one.instance ? ` ${one.instance}` : ""}: `),
    el("span", {}, ...marked(one.sentence)), " ", el("span", { className: "dim" }, ...marked(
      [one.end_ns ? `until ${when(one.end_ns / 1e6)}` : "", peakText(one.peak), one.culprits?.[0] ? `by ${one.culprits[0].name}` : "", one.next].filter(Boolean).join(" · ")))));
  fill($("alerts"), ...(alerts.length ? alerts : [el("li", { className: "dim" }, "None in this time.")]));
  const notes = allMarks().filter(one => one.kind !== "alert").sort((a, b) => b.time_ns - a.time_ns).slice(0, 100)
    .map(one => el("li", {}, go(one.time_ns), dim("span", `${SHAPES[one.kind] || "•"} ${one.kind === "warning" ? "remark" : one.kind}: `), el("span", {}, ...(one.kind === "bookmark" ? [one.text] : marked(one.text)))));
  fill($("notes"), ...(notes.length ? notes : [el("li", { className: "dim" }, "None in this time.")]));
}
function showMapNames() {
  const maps = S.heat.maps || [], node = $("map"), names = maps.map(map => map.title).join("\n");
  S.map = Math.min(S.map, Math.max(0, maps.length - 1));
  if (node.dataset.names === names) return;
  node.dataset.names = names;
  fill(node, ...maps.map((map, i) => el("option", { value: String(i) }, `Latency, ${map.title}`)));
  node.value = String(S.map);
}
const compare = safely(async () => {
  const [first, second] = [S.kept, S.chosen];
  const found = await getJson("compare", "api/compare", { from: first[0], to: first[1], from2: second[0], to2: second[1] });
  const rows = found.counters.slice(0, 40).map(one => el("tr", {}, el("td", {}, `${one.counter}${one.instance ? ` ${one.instance}` : ""}`),
    cell(one.before.mean, unitShown(one.counter, one.unit)), cell(one.after.mean, unitShown(one.counter, one.unit)), el("td", {}, one.ratio === null ? "-" : `× ${digits(one.ratio)}`),
    el("td", { className: "text dim" }, one.noise === false ? "more than noise" : one.noise ? "may be noise" : "not known")));
  const t = el("table", {});
  table(t, headCells(["counter", "first", "second", "ratio", "certainty"], 4), rows);
  const node = $("compared");
  fill(node, el("h2", {}, "First and second stretch", el("small", {}, `${when(first[0])} – ${when(first[1])} and ${when(second[0])} – ${when(second[1])}`)), el("p", {}, el("b", {}, ...marked(found.sentence))), t);
  node.hidden = false;
  node.scrollIntoView({ block: "nearest" });
});
function fleet() {
  if (isHeld($("hosts"), fleet)) return;
  const word = $("find").value.toLowerCase();
  const rank = one => one.fault ? -1 : !one.verdict ? -2 : one.verdict.blames ? 1 + one.verdict.confidence : one.verdict.bottleneck === "unknown" ? 0.5 : 0;
  const rows = S.hosts.filter(one => one.name.toLowerCase().includes(word)).sort((a, b) => rank(b) - rank(a)).map(one => {
    const found = one.verdict, kind = found ? kindOf(found) : "", sign = SIGNS[kind];
    return el("tr", {}, el("td", {}, button(one.name, () => openHost(one.id), PLAIN)),
      el("td", { className: "text" }, el("b", { className: kind }, one.fault ? "✕ not read" : found ? `${sign} ${blamed(found.bottleneck)}${found.blames && found.instance ? ` ${found.instance}` : ""}` : "… being judged")),
      el("td", {}, found ? pct(found.confidence) : "-"),
      el("td", { className: "text" }, ...marked(one.fault || found?.sentence || "")),
      el("td", {}, one.live ? "● live" : one.range_ms ? `${when(one.range_ms[0])} – ${when(one.range_ms[1])}` : ""));
  });
  table($("hosts"), headCells(["host", "bottleneck", "confidence", "verdict", "time"], 1, 3), rows);
}
