// Figures in words, and what each word of the state looks like.

// Tones are colours; every state has a shape of its own as well (icons.js), and its word is always there.
const TONES = {
  open: "good", waiting: "wait", blocked: "held", cached: "held",
  partial: "bad", ineffective: "bad", "stale-template": "bad",
  usable: "good", ready: "good", busy: "held", idle: "good", starting: "wait", missing: "wait", ending: "wait",
  cordoned: "wait", "zone-blocked": "held", "not-ready": "bad", unknown: "bad", "node-lost": "bad",
};

// The worst first.
const ORDER = ["ineffective", "stale-template", "partial", "cached", "blocked", "waiting", "open"];

function tone(state) {
  return TONES[state] ?? "bad";
}

function duration(seconds) {
  const rest = Math.max(0, seconds);
  if (rest < 120) return `${Math.round(rest)} s`;
  if (rest < 7200) return `${Math.round(rest / 60)} min`;
  return rest < 172800 ? `${(rest / 3600).toFixed(1)} h` : `${(rest / 86400).toFixed(1)} d`;
}

// Between two times of the same document, so that nobody's clock has to agree with this one.
function between(since, at) {
  return (Date.parse(at) - Date.parse(since)) / 1000;
}

function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour12: false });
}

function size(bytes) {
  if (!bytes) return "unknown size";
  const gib = bytes / 2 ** 30;
  return gib < 0.1 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${gib.toFixed(1)} GiB`;
}

function count(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

// "2 signalled, 1 cordoned" of [[2, "signalled"], [0, "tainted"], [1, "cordoned"]].
function tally(pairs) {
  return pairs.filter(([number]) => number).map(([number, word]) => `${number} ${word}`).join(", ");
}

function sentence(text) {
  return text && !/[.!?]$/.test(text) ? `${text}.` : text;
}
