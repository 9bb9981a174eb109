// Groups × zones: an overview of everything, then each zone with its nodes and signals, those with news first.

// Thousands of nodes are no picture; the JSON has all of them.
const MOST_SQUARES = 200;
const MOST_LISTED = 200;

function anchor(cell) {
  return `zone-${encodeURIComponent(`${cell.group}/${cell.zone}`)}`;
}

function isNews(cell) {
  return cell.state !== "open" || cell.signalNodes > 0 || cell.nodes.some((node) => node.prevent);
}

function isExcluded(state, cell) {
  const closed = state.webhook.blockedZones;
  // A group may be called "constructor".
  return Object.hasOwn(closed, cell.group) && closed[cell.group].includes(cell.zone);
}

// A row of zones for each group: groups need not have the same ones.
function overview(state) {
  if (!state.cells.length) return h("p", { class: "empty" }, "No node belongs to a zone of a node group.");
  const groups = Map.groupBy(state.cells, (cell) => cell.group);
  return h("ul", { class: "groups", "aria-label": "Groups and their zones" },
    [...groups].map(([group, cells]) => h("li", { key: group, class: "group" },
      h("bdi", { class: "name" }, group),
      h("ul", { class: "tiles" }, cells.map((cell) => tile(state, cell))))));
}

function tile(state, cell) {
  return h("li", { key: cell.zone },
    h("a", { class: `tile ${tone(cell.state)}`, href: `#${anchor(cell)}` },
      icon(cell.state), h("span", null, h("bdi", null, cell.zone), " ", h("b", null, cell.state)),
      isExcluded(state, cell) && [icon("closed"), h("span", { class: "hidden" }, ", closed to new guarded pods")]));
}

// Zones as they were last described, and from what: of hundreds few change from one answer to the next.
let recalled = new Map();

function zones(state, opened) {
  const rank = (cell) => (isNews(cell) ? ORDER.indexOf(cell.state) : ORDER.length);
  const sorted = [...state.cells].sort((one, other) => rank(one) - rank(other));
  const cards = sorted.map((cell) => recall(state, cell, opened));
  recalled = new Map(cards.map((card) => [card.id, card]));
  return [h("div", { class: "cards" }, cards.map((card) => card.description)), sorted.length > 0 && markLegend(state)];
}

// Ages go on in zones with news; the others are the same until they are told anew.
function recall(state, cell, opened) {
  const at = isNews(cell) ? state.at : "";
  const source = JSON.stringify([cell, at, isExcluded(state, cell), opened.has(nodesKey(cell))]);
  const before = recalled.get(anchor(cell));
  return before?.source === source ? before : { id: anchor(cell), source, description: zone(state, cell, opened) };
}

// What the squares say, by squares that have one mark each.
function markLegend(state) {
  const plain = { signal: false, prevent: false, cordoned: false, deleting: false, ignored: false, ready: true };
  const entry = (words, mark) => h("li", { key: words }, square({ ...plain, ...mark, name: words }), words);
  return h("ul", { class: "legend", "aria-label": "Marks of nodes" }, entry("a node", {}),
    MARKS.map(([name, words]) => entry(words, { [name]: true })), entry("not ready", { ready: false }),
    h("li", null, icon("closed"), "closed to new guarded pods"),
    h("li", null, h("span", { class: "swatch tick", "aria-hidden": "true" }),
      `line at ${duration(state.rebalance.maxSignalSeconds)}, when a single signal blocks its zone`));
}

function zone(state, cell, opened) {
  const id = anchor(cell);
  const since = cell.since && cell.state !== "open" ? ` for ${duration(between(cell.since, state.at))}` : "";
  return h("article", { key: id, id, class: `card ${tone(cell.state)}`, "aria-labelledby": `${id}-title`, tabindex: "-1" },
    h("h3", { id: `${id}-title` }, h("bdi", null, cell.group), " / ", h("bdi", null, cell.zone)),
    h("p", { class: "state" }, badge(cell.state), h("span", { class: "since" }, since)),
    h("p", null, sentence(cell.reason)),
    cell.advice && h("p", { class: "advice" }, cell.advice),
    isExcluded(state, cell) && h("p", { class: "closed" }, icon("closed"), "Closed to new guarded pods."),
    signals(state, cell),
    nodes(cell, opened));
}

function nodesKey(cell) {
  return `${anchor(cell)}-nodes`;
}

function nodes(cell, opened) {
  if (!cell.nodes.length) return h("p", { class: "empty" }, "No nodes.");
  const number = (test) => cell.nodes.filter(test).length;
  const told = tally([...MARKS.map(([key, word]) => [number((node) => node[key]), word]), [number((node) => !node.ready), "not ready"]]);
  const marked = [...cell.nodes].sort((one, other) => marks(other).length - marks(one).length);
  const key = nodesKey(cell);
  return [
    h("div", { class: "squares", "aria-hidden": "true" }, marked.slice(0, MOST_SQUARES).map(square),
      marked.length > MOST_SQUARES && h("span", null, `+${marked.length - MOST_SQUARES}`)),
    h("details", { "data-key": key }, h("summary", null, `${count(cell.nodes.length, "node")}${told && `: ${told}`}`),
      opened.has(key) && h("ul", { class: "nodes" }, marked.slice(0, MOST_LISTED).map(node),
        marked.length > MOST_LISTED && h("li", null, `… and ${marked.length - MOST_LISTED} more`))),
  ];
}

function node(each) {
  return h("li", { key: each.name }, square(each), h("bdi", { class: "name" }, each.name),
    marks(each).map((word) => h("span", { class: "mark" }, word)));
}

// Ages as bars on one scale, with a line where a single signal is old enough to block the zone.
function signals(state, cell) {
  if (!cell.signals.length) return null;
  const limit = state.rebalance.maxSignalSeconds;
  const longest = 1.1 * Math.max(limit, cell.oldestSignalAgeSeconds, 1);
  return h("ul", { class: "signals", "aria-label": "Signals, oldest first" }, cell.signals.slice(0, MOST_LISTED).map((signal) =>
    h("li", { key: signal.node },
      h("span", { class: "label" }, h("bdi", { class: "name" }, signal.node), ` signalled ${duration(signal.ageSeconds)} ago`),
      h("svg:svg", { class: "age", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
        h("svg:rect", { width: 100, height: 6, class: "track" }),
        h("svg:rect", { width: (100 * signal.ageSeconds) / longest, height: 6, class: signal.ageSeconds >= limit ? "old" : "young" }),
        h("svg:rect", { x: (100 * limit) / longest, width: 0.8, height: 6, class: "tick" })))));
}

function webhook(state) {
  const groups = Object.entries(state.webhook.blockedZones);
  if (!groups.length) return h("p", { class: "empty" }, "No zone is closed: the webhook lets new guarded pods into all of them.");
  return [
    h("p", null, "The webhook keeps new guarded pods out of:"),
    h("ul", { class: "groups" }, groups.map(([group, closed]) => h("li", { key: group, class: "group" },
      h("bdi", { class: "name" }, group),
      h("ul", { class: "tiles" }, closed.map((zone) => h("li", { key: zone, class: "tile held" }, icon("closed"), h("bdi", null, zone))))))),
  ];
}
