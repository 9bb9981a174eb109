// Workers and tasks: the load of each pod of the pool against what it is meant for, dedicated workers by the size of
// their data, and every task as a dot.

const MOST_WORKERS = 100;
const MOST_DOTS = 500;
const POOLS = ["shared", "dedicated", "local"];
const PHASES = ["running", "waiting", "ended"];

function workers(state, opened) {
  const found = state.workers;
  if (!found.run) return h("p", { class: "empty" }, "The worker scaler is switched off.");
  if (!found.known) return h("p", { class: "empty" }, "Only the leader knows workers and tasks.");
  return [
    found.unread && h("p", { class: "note wait" }, `No task can be told from an unknown one yet: ${found.unread}`),
    h("div", { class: "columns" }, shared(found.shared), dedicated(found.dedicated)),
    tasks(found.tasks, opened),
  ];
}

function shared(pool) {
  if (!pool) return null;
  const figures = `${count(pool.replicas, "pod")}, ${pool.usable} usable, ${pool.desired} wanted by its load`;
  const most = Math.max(pool.maxTasksPerPod, ...pool.pods.map((pod) => pod.running + pod.reserved + pod.ended));
  return h("article", { class: "card", "aria-labelledby": "pool-title" },
    h("h3", { id: "pool-title" }, "Shared pool"),
    h("p", null, sentence(pool.waiting ? `${figures}; ${count(pool.waiting, "task")} waiting` : figures)),
    pool.paused && h("p", { class: "note wait" }, "Paused by annotation: nothing is scaled."),
    pool.conditions.map((each) => h("p", { key: each.reason, class: "note wait" }, h("b", null, each.reason), ` ${each.note}`)),
    pool.pods.length > 0 && h("ul", { class: "pods" }, pool.pods.map((pod) => load(pod, pool, most))),
    pool.pods.length > 0 && loadLegend(pool));
}

function load(pod, pool, most) {
  const told = tally([[pod.running, "running"], [pod.reserved, "promised"], [pod.ended, "ended"]]);
  const idle = pod.idleSeconds === null ? "" : `idle for ${duration(pod.idleSeconds)}`;
  let x = 0;
  const bars = [["running", pod.running], ["reserved", pod.reserved], ["ended", pod.ended]].map(([name, number]) => {
    const bar = h("svg:rect", { x: (100 * x) / most, width: (100 * number) / most, height: 10, class: name });
    x += number;
    return bar;
  });
  return h("li", { key: pod.ordinal },
    h("span", { class: "label" }, h("b", null, `#${pod.ordinal}`), badge(pod.state), ` ${[told, idle].filter(Boolean).join(", ") || "no tasks"}`),
    h("svg:svg", { class: "load", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
      h("svg:rect", { width: 100, height: 10, class: "track" }), bars,
      [pool.scaleUpTasksPerPod, pool.maxTasksPerPod].map((tasks) =>
        h("svg:rect", { x: Math.min(99.2, (100 * tasks) / most), width: 0.8, height: 10, class: "tick" }))));
}

function loadLegend(pool) {
  const entry = (name, words) => h("li", null, h("span", { class: `swatch ${name}`, "aria-hidden": "true" }), words);
  return h("ul", { class: "legend" }, entry("running", "running"), entry("reserved", "promised"), entry("ended", "ended"),
    entry("tick", `lines at ${pool.scaleUpTasksPerPod} tasks, where the pool grows, and ${pool.maxTasksPerPod}, the most for one pod`));
}

function dedicated(listed) {
  const most = Math.max(1, ...listed.map((worker) => worker.dataSize));
  const sorted = [...listed].sort((one, other) => Boolean(other.trouble) - Boolean(one.trouble) || other.dataSize - one.dataSize);
  return h("article", { class: "card", "aria-labelledby": "dedicated-title" },
    h("h3", { id: "dedicated-title" }, "Dedicated workers"),
    listed.length ? h("ul", { class: "pods" }, sorted.slice(0, MOST_WORKERS).map((worker) => own(worker, most)))
      : h("p", { class: "empty" }, "None."),
    sorted.length > MOST_WORKERS && h("p", null, `… and ${sorted.length - MOST_WORKERS} more`));
}

function own(worker, most) {
  return h("li", { key: worker.name },
    h("span", { class: "label" }, badge(worker.state), " ", h("bdi", { class: "name" }, worker.name), ` ${size(worker.dataSize)}`),
    h("svg:svg", { class: "load", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
      h("svg:rect", { width: 100, height: 10, class: "track" }),
      h("svg:rect", { width: (100 * worker.dataSize) / most, height: 10, class: "running" })),
    h("span", { class: worker.trouble ? "trouble" : "why" }, worker.trouble && h("b", null, `${worker.trouble}: `), sentence(worker.reason)));
}

function tasks(listed, opened) {
  const of = (phase) => listed.filter((task) => task.state === phase);
  const told = tally(PHASES.map((phase) => [of(phase).length, phase])) || "none";
  const ordered = PHASES.flatMap(of);
  return h("article", { class: "card", "aria-labelledby": "tasks-title" },
    h("h3", { id: "tasks-title" }, "Tasks"),
    h("ul", { class: "groups", "aria-hidden": "true" }, POOLS.map((pool) => row(pool, ordered.filter((task) => task.pool === pool)))),
    listed.length ? h("details", { "data-key": "tasks" }, h("summary", null, `${count(listed.length, "task")}: ${told}`),
      opened.has("tasks") && h("ul", { class: "nodes" }, ordered.slice(0, MOST_DOTS).map(task),
        ordered.length > MOST_DOTS && h("li", null, `… and ${ordered.length - MOST_DOTS} more`)))
      : h("p", { class: "empty" }, "None."),
    listed.length > 0 && taskLegend());
}

function row(pool, listed) {
  return listed.length > 0 && h("li", { key: pool, class: "group" }, h("span", null, pool),
    h("div", { class: "squares" }, listed.slice(0, MOST_DOTS).map(dot), listed.length > MOST_DOTS && h("span", null, `+${listed.length - MOST_DOTS}`)));
}

function taskLegend() {
  return h("ul", { class: "legend", "aria-label": "Dots of tasks" },
    PHASES.map((state) => h("li", { key: state }, dot({ task: state, state }), state)),
    h("li", { key: "error" }, dot({ task: "error", state: "ended", reported: { error: true } }), "with an error"));
}

function dot(each) {
  return h("svg:svg", { key: each.task, class: "square", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    h("svg:circle", { cx: 8, cy: 8, r: 5.5, class: `task ${each.state}` }),
    each.reported?.error && h("svg:path", { d: "M4 4l8 8m0-8-8 8", class: "bar" }));
}

function task(each) {
  const told = Object.entries(each.reported ?? {}).filter(([, value]) => value).map(([key, value]) => `${key} ${value}`);
  return h("li", { key: each.task }, dot(each), h("bdi", { class: "name" }, each.task), h("span", { class: "mark" }, each.state),
    ` ${size(each.dataSize)}, ${each.pool}`, each.worker && [" on ", h("bdi", { class: "name" }, each.worker)],
    told.length > 0 && `; ${told.join(", ")}`);
}
