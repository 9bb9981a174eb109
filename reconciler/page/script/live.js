// Asks for the state again and again, draws each answer, and says so when there is none.

const EVERY_MS = 2000;
const PATIENCE_MS = 10000;
// Writing the state of thousands of nodes is work, and so is drawing it: at most a tenth of the time.
const REST_FOR_WORK = 9;
// So much later than expected an answer is missed.
const GRACE_MS = 2 * EVERY_MS;

// The API server says about once a minute that there is no news of the nodes: missing it twice is silence; seconds.
const SILENT_AFTER = 150;

const opened = new Set();
let last = null; // the last state, when it came, and when the next one is expected, on this page's own clock
let trouble = "";

function at(id) {
  return document.getElementById(id);
}

async function ask() {
  const answer = await fetch("api/v1/state", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) }).catch(() => null);
  if (answer === null) throw new Error("the reconciler does not answer");
  const found = await answer.json().catch(() => ({ error: "an answer broke off, or is no JSON" }));
  if (!answer.ok || found.error) throw new Error(found.error ?? `the reconciler answers with ${answer.status}`);
  if (!Array.isArray(found.cells)) throw new Error("an answer is no state of ebbtide");
  return found;
}

async function look() {
  const begun = performance.now();
  let pause = EVERY_MS;
  try {
    const state = await ask();
    draw(state);
    announce(last?.state, state);
    const work = performance.now() - begun;
    pause = Math.max(EVERY_MS, REST_FOR_WORK * work);
    last = { state, received: performance.now(), expected: performance.now() + pause + work };
    trouble = "";
  } catch (error) {
    trouble = error.message;
  }
  connection();
  setTimeout(look, pause);
}

function draw(state) {
  fill(at("leader"), leader(state));
  fill(at("notes"), notes(state));
  fill(at("overview"), overview(state));
  fill(at("zones"), zones(state, opened));
  fill(at("webhook"), webhook(state));
  fill(at("workers"), workers(state, opened));
  fill(at("decisions"), decisions(state));
  document.title = title(state);
}

function title(state) {
  const news = tally(ORDER.filter((word) => word !== "open").map((word) => [state.cells.filter((cell) => cell.state === word).length, word]));
  return `${news || "all zones open"} · ebbtide`;
}

function leader(state) {
  const { identity, since, renewed, leaseDurationSeconds } = state.leader;
  if (state.source === "dry-run") return [answering(state), "A dry run: it decides and changes nothing."];
  if (identity === null) return [answering(state), h("strong", { class: "bad" }, "Nobody leads"), ": nothing is done about what is shown here."];
  const silent = renewed ? between(renewed, state.at) : 0;
  if (silent > 2 * leaseDurationSeconds) {
    return [answering(state), h("strong", { class: "bad" }, "Leader ", h("bdi", null, identity), ` has not renewed its lease for ${duration(silent)}`), "."];
  }
  return [answering(state), "Leader: ", h("bdi", { class: "name" }, identity), since && ` for ${duration(between(since, state.at))}`, "."];
}

// Whether who answers leads, and so knows what others do not.
function leads(state) {
  return state.source !== "nodes" || (state.answeredBy !== null && state.answeredBy === state.leader.identity);
}

function answering(state) {
  if (!state.answeredBy || leads(state)) return null;
  return ["Asked: ", h("bdi", { class: "name" }, state.answeredBy), ", which does not lead and shows what nodes say. "];
}

function notes(state) {
  const unheard = state.nodesAgeSeconds > SILENT_AFTER && `Nothing was heard of the nodes for ${duration(state.nodesAgeSeconds)}: what is shown may be out of date.`;
  const left = state.outside.slice(0, 20).join(", ") + (state.outside.length > 20 ? " …" : "");
  return [
    unheard && h("p", { key: "unheard", class: "note bad" }, unheard),
    !state.rebalance.run && h("p", { key: "off", class: "note bad" }, "Zone rebalance is switched off: nothing is done about the zones."),
    left && h("p", { key: "outside", class: "note wait" }, "Signalled, but without the labels of a node group and a zone, and left alone: ", h("bdi", null, left)),
  ];
}

// Says what has changed, once, to those who do not look.
function announce(before, now) {
  if (!before) return;
  const states = new Map(before.cells.map((cell) => [anchor(cell), cell.state]));
  const changes = now.cells.filter((cell) => (states.get(anchor(cell)) ?? "open") !== cell.state)
    .map((cell) => `${cell.group}/${cell.zone} is ${cell.state}, was ${states.get(anchor(cell)) ?? "not there"}`);
  if (before.leader.identity !== now.leader.identity) changes.push(now.leader.identity === null ? "nobody leads" : `${now.leader.identity} leads`);
  if (changes.length) fill(at("news"), `${clock(now.at)}: ${changes.slice(0, 5).join("; ")}${changes.length > 5 ? "; and more" : ""}.`);
}

function connection() {
  const before = at("connection").dataset.state;
  const now = standing();
  document.body.dataset.connection = now;
  at("connection").dataset.state = now;
  fill(at("connection"), now === "live" ? `live, as of ${clock(last.state.at)}` : now === "lost" ? lost() : "asking the reconciler …");
  if (now === "lost" && before !== "lost") fill(at("news"), `No news: ${trouble || "the reconciler does not answer"}.`);
  if (now === "live" && before === "lost") fill(at("news"), `${clock(last.state.at)}: the reconciler answers again.`);
}

// Live, lost, or still waiting for the first answer.
function standing() {
  if (last) return performance.now() > last.expected + GRACE_MS ? "lost" : "live";
  return trouble ? "lost" : "waiting";
}

function lost() {
  const why = trouble || "the reconciler does not answer";
  if (!last) return why;
  return `out of date: ${why}. This is of ${clock(last.state.at)}, ${duration((performance.now() - last.received) / 1000)} ago.`;
}

document.addEventListener("toggle", ({ target }) => {
  const key = target.dataset?.key;
  if (!key) return;
  if (target.open) opened.add(key);
  else opened.delete(key);
  if (last) draw(last.state);
}, true);
setInterval(connection, 1000);
look();
