"use strict";
// The page of flyt-monitor. Every text of the cluster becomes a text node, never HTML.
const PERIOD_MS = 5000, EVENTS_SHOWN = 100;

function make(name, text, kind) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

function size(bytes) {
  const units = ["B", "K", "M", "G", "T", "P"];
  let at = 0, value = bytes;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at++; }
  return (value < 10 && at ? value.toFixed(1) : Math.round(value)) + units[at];
}

function kindOf(text) {
  if (["up", "ready", "running", "yes"].includes(text)) return "good";
  return ["lost", "faulty", "failed", "degraded", "error", "suspect", "away"].includes(text) ? "bad" : "";
}

// columns: [title, function of a row]
function table(where, rows, columns, none) {
  const place = document.querySelector(where + " > div");
  // What is wider than the window is scrolled sideways, by keyboard too.
  place.tabIndex = rows.length ? 0 : -1;
  if (!rows.length) { place.replaceChildren(make("p", none)); return; }
  const whole = make("table"), head = make("tr"), body = make("tbody");
  for (const [title] of columns) { const cell = make("th", title); cell.scope = "col"; head.append(cell); }
  for (const row of rows) {
    const line = make("tr");
    for (const [, value] of columns) { const text = String(value(row)); line.append(make("td", text, kindOf(text))); }
    body.append(line);
  }
  const top = make("thead");
  top.append(head);
  whole.append(top, body);
  place.replaceChildren(whole);
}

function figures(pairs) {
  const list = document.getElementById("figures");
  list.replaceChildren(...pairs.map(([title, value]) => {
    const one = make("div");
    one.append(make("dt", title), make("dd", value));
    return one;
  }));
}

function busy(point) { return point.busy === null ? "–" : point.busy.toFixed(1); }

function overview(status, now) {
  figures([
    ["Nodes up", `${status.nodes_up}/${status.nodes}`], ["GPUs ready", `${status.gpus_ready}/${status.gpus}`],
    ["SMs given", `${status.sms_used}/${status.sms}`], ["Memory given", `${size(status.memory_used)}/${size(status.memory)}`],
    ["Memory in use", now ? size(now.memory_held) : "–"], ["VMs connected", `${status.vms_connected}/${status.vms}`],
    ["GPU servers", status.servers], ["Programs", status.programs], ["Busy", now ? busy(now) : "–"],
    ["Waiting", status.waiting]]);
}

function line(points, key, most, kind) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const step = points.length > 1 ? 600 / (points.length - 1) : 0;
  path.setAttribute("d", points.map((point, i) =>
    `${i ? "L" : "M"}${(i * step).toFixed(1)} ${(118 - 116 * point[key] / most).toFixed(1)}`).join(" "));
  path.setAttribute("class", kind);
  return path;
}

// name, title, lines: [key, what it is, kind], how a value is written
const PLOTS = [
  ["sms", "SMs", [["sms", "there", "most"], ["sms_used", "given", "given"]], String],
  ["memory", "Memory", [["memory", "there", "most"], ["memory_used", "given", "given"], ["memory_held", "in use", "used"]],
    size],
  ["programs", "Programs", [["programs", "there", "given"], ["waiting", "waiting", "most"], ["busy", "busy", "used"]],
    value => value === null ? "–" : Number.isInteger(value) ? String(value) : value.toFixed(1)]];

function plots(points) {
  const last = points[points.length - 1];
  document.getElementById("plots").replaceChildren(...(last ? PLOTS : []).map(([name, title, lines, write]) => {
    const head = make("h3", `${title} in the last 24 hours`), text = make("p", "Now");
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const most = Math.max(1, ...points.flatMap(point => lines.map(([key]) => point[key] || 0)));
    head.id = `plot-${name}-title`;
    text.id = `plot-${name}-text`;
    for (const [i, [key, what, kind]] of lines.entries())
      text.append(i ? ", " : " ", make("span", `${write(last[key])} ${what}`, kind));
    text.append("; at most ", lines.map(([key, what]) =>
      `${write(Math.max(...points.map(point => point[key] || 0)))} ${what}`).join(", "));
    for (const [attribute, value] of Object.entries({ viewBox: "0 0 600 120", role: "img", preserveAspectRatio: "none",
      "aria-labelledby": `${head.id} ${text.id}` })) picture.setAttribute(attribute, value);
    picture.append(...lines.map(([key, , kind]) => line(points, key, most, kind)));
    const whole = make("div");
    whole.append(head, picture, text);
    return whole;
  }));
}

// ---- what is asked for ----

const credentials = () => sessionStorage.token ? { Authorization: "Bearer " + sessionStorage.token } : {};

async function ask(name, headers = {}) {
  const shown = sessionStorage.token;
  const reply = await fetch("api/v1/" + name, { headers: { ...credentials(), ...headers } });
  if (reply.status === 401 && shown === sessionStorage.token) document.getElementById("ask").hidden = false;
  if (!reply.ok) throw new Error(await reply.text());
  return reply;
}

// How old what is shown is, in seconds, while the cluster manager does not answer; otherwise null.
let old = null;
async function get(name) {
  const reply = await ask(name), manager = reply.headers.get("Flyt-Manager");
  if (manager) old = manager === "away" ? reply.headers.get("Flyt-Age") : null;
  return reply.json();
}

function showVms(vms) {
  table("#vms", vms, [["VM", row => row.name], ["Connected", row => row.connected ? "yes" : "no"],
    ["SMs entitled", row => row.sms], ["Memory entitled", row => size(row.memory)], ["Servers", row => row.servers],
    ["Programs", row => row.programs], ["Waiting", row => row.waiting]], "No VM is entitled to anything.");
}

function showPrograms(programs) {
  table("#programs", programs, [["Program", row => row.id], ["VM", row => row.vm], ["State", row => row.state],
    ["Place", row => row.position || "–"], ["Executable", row => row.executable], ["Reason", row => row.why || "–"]],
    "No program runs or waits.");
}

async function showCluster() {
  const [status, gpus, vms, programs, history] =
    await Promise.all(["status", "gpus", "vms", "programs", "history"].map(get));
  overview(status, history[history.length - 1]);
  plots(history);
  table("#gpus", gpus, [["Node", row => row.node], ["Node is", row => row.node_state], ["GPU", row => row.id],
    ["Product", row => row.product], ["State", row => row.state], ["SMs given", row => `${row.sms_used}/${row.sms}`],
    ["Memory given", row => `${size(row.memory_used)}/${size(row.memory)}`], ["Remark", row => row.text || "–"]],
    "No node has a GPU.");
  showVms(vms);
  showPrograms(programs);
  return `${status.cluster}, ${status.software}`;
}

// A VM's own view: its entitlement, its servers, its programs. What is about the whole is not for it.
async function showOne(name) {
  const [vms, servers, programs] = await Promise.all(["vms", "servers", "programs"].map(get));
  document.body.classList.add("one");
  const vm = vms[0] || { sms: 0, memory: 0, programs: 0, waiting: 0 };
  figures([["SMs", vm.sms], ["Memory", size(vm.memory)], ["GPU servers", servers.length],
    ["Memory used", size(servers.reduce((sum, row) => sum + row.memory_used, 0))], ["Programs", vm.programs],
    ["Waiting", vm.waiting]]);
  table("#servers", servers, [["Server", row => row.id], ["State", row => row.state], ["GPU", row => row.gpu],
    ["SMs", row => row.sms], ["Memory", row => `${size(row.memory_used)}/${size(row.memory)}`],
    ["Programs", row => row.programs], ["Remark", row => row.text || "–"]], "It has no GPU server now.");
  showPrograms(programs);
  return `VM ${name}`;
}

let timer;
async function show() {
  const state = document.getElementById("state");
  clearTimeout(timer);
  try {
    const me = await get("me");
    const what = await (me.vm ? showOne(me.vm) : showCluster());
    state.textContent = old === null ? `${what}; read ${new Date().toLocaleTimeString()}` :
      `${what}. The cluster manager does not answer: this is how it was ${old} seconds ago.`;
    state.className = old === null ? "" : "bad";
  } catch (problem) {
    state.textContent = `Not up to date: ${problem.message}`;
    state.className = "bad";
  }
  timer = setTimeout(show, PERIOD_MS);
}

// ---- events, by fetch: an EventSource cannot show a token ----

let last = "0";                          // the page begins with those that the monitor has kept
function take(block) {
  const fields = Object.fromEntries(block.split("\n").map(line => line.split(/: (.*)/s)).filter(([key]) => key));
  if (fields.id) last = fields.id;
  const event = fields.data ? JSON.parse(fields.data) : null;
  if (!event) return;
  const list = document.getElementById("list"), item = make("li");
  const when = make("time", new Date(event.time).toLocaleTimeString());
  when.dateTime = event.time;
  item.append(when, " ", make("strong", event.kind, kindOf(event.severity)),
    ` ${event.vm || event.node || ""} ${event.text}`);
  list.prepend(item);
  while (list.children.length > EVENTS_SHOWN) list.lastChild.remove();
}

async function follow() {
  try {
    const reply = await ask("events", { "Last-Event-ID": last });
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = "", part; !(part = await reader.read()).done;) {
      const blocks = (text + part.value).split("\n\n");
      text = blocks.pop();
      blocks.forEach(take);
    }
  } catch { /* show() says what is wrong */ }
  setTimeout(follow, PERIOD_MS / 5);
}

document.getElementById("ask").onsubmit = event => {
  event.preventDefault();
  sessionStorage.token = document.getElementById("token").value.trim();
  document.getElementById("token").value = "";
  document.getElementById("ask").hidden = true;
  show();
};
show();
follow();
