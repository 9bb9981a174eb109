// What was done lately and why, newest first, on a line of time.

function decisions(state) {
  if (state.source === "dry-run") return h("p", { class: "empty" }, "A dry run tells of none; its log does.");
  if (!leads(state)) return h("p", { class: "empty" }, "Only the leader knows what was decided.");
  if (!state.decisions.length) return h("p", { class: "empty" }, "None since this process began to lead.");
  return h("ol", { class: "line" }, state.decisions.map((each) =>
    h("li", { key: `${each.at} ${each.reason} ${each.regarding.name} ${each.note}`, class: each.type === "Warning" ? "bad" : "good" },
      h("p", { class: "when" },
        h("time", { datetime: each.at }, clock(each.at)), ` · ${duration(between(each.at, state.at))} ago · `,
        each.type === "Warning" && h("b", { class: "warning" }, "warning "), h("b", null, each.reason)),
      h("p", null, `${each.regarding.kind} `, h("bdi", { class: "name" }, place(each.regarding)), ": ", each.note))));
}

function place(regarding) {
  return regarding.namespace ? `${regarding.namespace}/${regarding.name}` : regarding.name;
}
