// Shapes: one for each state, so that no state is told by colour alone, and one for each mark of a node.

const SHAPES = {
  open: [["circle", { cx: 8, cy: 8, r: 5.5, class: "line" }]],
  waiting: [["circle", { cx: 8, cy: 8, r: 6, class: "line" }], ["path", { d: "M8 4.5V8l2.5 1.5", class: "line" }]],
  blocked: [["rect", { x: 2, y: 2, width: 12, height: 12, rx: 3, class: "solid" }], ["path", { d: "M5 8h6", class: "cut" }]],
  cached: [["rect", { x: 2, y: 2, width: 12, height: 12, rx: 3, class: "line dashed" }], ["path", { d: "M5 8h6", class: "line" }]],
  partial: [["circle", { cx: 8, cy: 8, r: 6, class: "line" }], ["path", { d: "M8 2a6 6 0 0 1 0 12z", class: "solid" }]],
  ineffective: [["path", { d: "M8 1.5 15 14H1z", class: "solid" }], ["path", { d: "M8 6v4M8 11.5v1", class: "cut" }]],
  "stale-template": [["path", { d: "M8 1.5 15 14H1z", class: "line" }], ["path", { d: "M6 8l4 4m0-4-4 4", class: "line" }]],
  closed: [["rect", { x: 3, y: 7, width: 10, height: 7, rx: 1.5, class: "solid" }], ["path", { d: "M5.5 7V5a2.5 2.5 0 0 1 5 0v2", class: "line" }]],
};
const OTHER = [["circle", { cx: 8, cy: 8, r: 4, class: "solid" }]];

function icon(state) {
  const shapes = SHAPES[state] ?? OTHER;
  return h("svg:svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    shapes.map(([name, attributes]) => h(`svg:${name}`, attributes)));
}

function badge(state) {
  return h("span", { class: `badge ${tone(state)}`, "data-state": state }, icon(state), h("span", null, state));
}

// Marks of a node, in the order in which they are told.
const MARKS = [
  ["signal", "signalled"], ["prevent", "tainted"], ["cordoned", "cordoned"], ["deleting", "being deleted"],
  ["ignored", "ignored"],
];

function marks(node) {
  const found = MARKS.filter(([key]) => node[key]).map(([, word]) => word);
  return node.ready ? found : [...found, "not ready"];
}

// A node as a small square: filled when tainted, a dot for a signal, a bar when cordoned, crossed out when it is being
// deleted, dashed when not ready, round when it is ignored.
function square(node) {
  const box = ["box", node.prevent && "prevent", !node.ready && "dashed"];
  return h("svg:svg", { key: node.name, class: "square", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    h("svg:rect", { x: 1.5, y: 1.5, width: 13, height: 13, rx: node.ignored ? 6.5 : 2.5, class: box.filter(Boolean).join(" ") }),
    node.signal && h("svg:circle", { cx: 8, cy: 8, r: 3.2, class: "signal" }),
    node.cordoned && h("svg:path", { d: "M2.5 13.5l11-11", class: "bar" }),
    node.deleting && h("svg:path", { d: "M4 4l8 8m0-8-8 8", class: "bar" }));
}
