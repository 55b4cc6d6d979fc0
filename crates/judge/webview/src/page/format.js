// Numbers, times and elements. Text from outside only ever becomes a text node.
const $ = id => document.getElementById(id);
function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && typeof value !== "string") node[name] = value;
    else if (name === "className" || name === "textContent") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter(child => child != null && child !== ""));
  return node;
}
// Replaces the children, and keeps the keyboard focus on the button of the same text, sort arrow aside.
const fill = (node, ...children) => {
  const buttons = () => [...node.querySelectorAll("button")], old = node.querySelector("button:focus"), index = buttons().indexOf(old);
  node.replaceChildren(...children.filter(child => child));
  if (index < 0) return;
  const text = one => one?.textContent.replace(/ [↑↓]$/, ""), isSame = one => text(one) === text(old), made = buttons();
  (isSame(made[index]) ? made[index] : made.find(isSame))?.focus({ preventScroll: true });
};

// A click is lost if its button is replaced between press and release: such a redraw is deferred to the release.
let pressed = null;
const held = new Map(), isHeld = (node, draw) => node.contains(pressed) && held.set(node, draw);
const runDeferred = () => setTimeout(() => {
  pressed = null;
  const draws = [...held.values()];
  held.clear();
  for (const draw of draws) draw();
});
const PLAIN = { className: "plain" };
const button = (text, onclick, props) => el("button", { ...props, onclick }, text);

const digits = value => {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.001) return "<0.001";
  return size >= 99.95 ? value.toFixed(0) : size >= 9.995 ? value.toFixed(1) : value.toFixed(2);
};
// For an axis, whose numbers are round.
const axisText = (value, unit) => show(value, unit).replace(/(\.\d*?)0+(?= |\/|$)/, "$1").replace(/\.(?= |\/|$)/, "");
const scaled = (value, steps) => {
  const size = Math.abs(value);
  const [by, unit] = steps.find(([by]) => size >= by * 0.9995) || steps[steps.length - 1];
  return `${digits(value / by)} ${unit}`;
};
const SIZES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "B"]];
const BYTES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const COUNTS = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];
// Sizes of memory and requests are binary; counters of capacities are listed by the server.
const unitShown = (id, unit) => unit === "bytes" && S.info?.capacities.includes(id) ? "capacity_bytes" : unit;
function show(value, unit) {
  if (value == null || !isFinite(value)) return "-";
  switch (unit) {
    case "s": return value === 0 ? "0 ms" : scaled(value, [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]]);
    case "fraction": return `${digits(value * 100)} %`;
    case "bytes": return scaled(value, SIZES);
    case "capacity_bytes": return scaled(value, BYTES);
    case "bytes_per_s": return `${scaled(value, BYTES)}/s`;
    default: {
      const named = { per_s: "/s", pages_per_s: " pages/s", count: "", requests: "" }[unit];
      const tail = named === undefined ? ` ${(unit || "").replaceAll("_per_s", "/s").replaceAll("_", " ")}` : named;
      return (Math.abs(value) >= 1e4 ? scaled(value, COUNTS) : digits(value)) + tail;
    }
  }
}

const two = number => String(number).padStart(2, "0");
const clock = (ms, fine) => {
  const t = new Date(ms);
  const text = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  return fine ? `${text}.${String(t.getMilliseconds()).padStart(3, "0")}` : text;
};
const day = ms => { const t = new Date(ms); return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`; };
const isToday = ms => day(ms) === day(Date.now());
const when = ms => isToday(ms) ? clock(ms) : `${day(ms)} ${clock(ms)}`;
function period(ms) {
  const s = ms / 1000;
  if (s < 0.9995) return `${Math.round(ms)} ms`;
  if (s < 120) return `${Math.abs(s - Math.round(s)) < 0.05 ? Math.round(s) : digits(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min${Math.round(s % 60) ? ` ${Math.round(s % 60)} s` : ""}`;
  if (s < 172800) return `${Math.floor(s / 3600)} h${Math.round(s % 3600 / 60) ? ` ${Math.round(s % 3600 / 60)} min` : ""}`;
  return `${digits(s / 86400)} d`;
}
const debounce = (wait, work) => { let timer; return (...args) => { clearTimeout(timer); timer = setTimeout(() => S.info && work(...args), wait); }; };
const BLAMED = { none: "No bottleneck", unknown: "Not enough data", cpu: "Processor", disk: "Disk", memory: "Memory" };
const kindOf = found => found.blames ? "bad" : found.bottleneck === "none" ? "good" : "warn";
const SIGNS = { bad: "▲", good: "✓", warn: "?" };
const blamed = name => BLAMED[name] || name.charAt(0).toUpperCase() + name.slice(1);
