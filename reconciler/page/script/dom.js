// Elements are described as plain values, and the page is made to match them. What has not changed is left alone, so
// that focus, scrolling, selections and opened details survive every answer. Strings become text nodes and attribute
// values: nothing is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";
const identities = new WeakMap();
// What each element was last made to match: the same value again needs no look at what is inside.
const given = new WeakMap();

// One element. Names that begin with "svg:" are drawings. The attribute `key` tells siblings apart whatever their order;
// null, undefined and false leave an attribute or a child out.
function h(name, attributes, ...children) {
  const { key, ...others } = attributes ?? {};
  return { name, key, attributes: others, children: children.flat(Infinity).filter(present).map(described) };
}

function present(value) {
  return value !== null && value !== undefined && value !== false;
}

function described(child) {
  return typeof child === "object" ? child : { name: "#text", text: String(child) };
}

// Makes the children of `parent` those that are described.
function fill(parent, ...children) {
  match(parent, children.flat(Infinity).filter(present).map(described));
}

function match(parent, wanted) {
  const names = identified(wanted);
  const before = new Map([...parent.childNodes].map((node) => [identities.get(node), node]));
  const keep = new Set(names);
  for (const [name, node] of before) {
    if (!keep.has(name)) node.remove();
  }
  let next = parent.firstChild;
  wanted.forEach((each, index) => {
    const node = before.get(names[index]) ?? created(each, names[index]);
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
    update(node, each);
  });
}

// A name for each sibling, the same from one answer to the next; two of the same key are told apart by their order.
function identified(wanted) {
  const count = new Map();
  return wanted.map((each) => {
    const name = `${each.name} ${each.key ?? ""}`;
    const nth = count.get(name) ?? 0;
    count.set(name, nth + 1);
    return `${name} ${nth}`;
  });
}

function created(each, identity) {
  const node = each.name === "#text"
    ? document.createTextNode("")
    : each.name.startsWith("svg:")
      ? document.createElementNS(SVG, each.name.slice("svg:".length))
      : document.createElement(each.name);
  identities.set(node, identity);
  return node;
}

function update(node, each) {
  if (each.name === "#text") {
    if (node.data !== each.text) node.data = each.text;
    return;
  }
  if (given.get(node) === each) return;
  given.set(node, each);
  const wanted = Object.entries(each.attributes).filter(([, value]) => present(value));
  const names = new Set(wanted.map(([name]) => name));
  for (const { name } of [...node.attributes]) {
    // Whether details are open is the reader's business.
    if (!names.has(name) && name !== "open") node.removeAttribute(name);
  }
  for (const [name, value] of wanted) {
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
  match(node, each.children);
}
