// The progress panel. Everything is a native element (button, details, progress bar role), so that keyboard and
// screen readers work without further ado; the state is drawn anew on each change, keeping focus and open lessons.

const WORDS = { passed: "passed", tried: "tried", open: "not begun" };
const MARKS = { passed: "\u2713", tried: "\u25d0", open: "\u25cb" };

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// Where a file of the learner's folder lies below the folder that JupyterLab serves; null if it is not below it.
function served(state, path) {
  const config = document.getElementById("jupyter-config-data");
  if (!state.folder || config === null) return null;
  let root = JSON.parse(config.textContent).serverRoot || "";
  if (root === "~" || root.startsWith("~/")) root = state.home + root.slice(1);
  root = root.replace(/\/+$/, "");
  const file = `${state.folder}/${path}`;
  return file.startsWith(`${root}/`) ? file.slice(root.length + 1) : null;
}

// JupyterLab runs a command for a click on an element that carries these attributes.
function opener(state, path, text, label, key) {
  const place = served(state, path);
  if (place === null) return null;
  return make(
    "button",
    {
      type: "button",
      class: "cannlab-button",
      "data-key": key,
      "aria-label": label,
      "data-commandlinker-command": "docmanager:open",
      "data-commandlinker-args": JSON.stringify({ path: place }),
    },
    text,
  );
}

function render({ model, el }) {
  const opened = new Map(); // lesson -> open or closed, as the learner left it
  let answer = null; // the last hint or message, under its exercise
  let asking = ""; // the exercise whose reset waits for a yes

  const root = make("section", { class: "cannlab-panel", "aria-label": "Course progress" });
  const said = make("div", { class: "cannlab-said", role: "status", "aria-live": "polite" });
  el.append(root, said);

  const state = () => model.get("state");
  const focus = (key) => root.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  const say = (text) => {
    said.textContent = text;
  };

  function head() {
    const { title, done, total, minutes } = state();
    const share = total ? Math.round((100 * done) / total) : 0;
    const words = `${done} of ${plural(total, "exercise")} passed`;
    const bar = make("div", {
      class: "cannlab-bar",
      role: "progressbar",
      "aria-label": "Exercises passed",
      "aria-valuemin": 0,
      "aria-valuemax": total,
      "aria-valuenow": done,
      "aria-valuetext": words,
    });
    bar.append(make("div", { class: "cannlab-filled", style: `width: ${share}%` }));
    return make(
      "header",
      {},
      make("h2", { class: "cannlab-title" }, title),
      bar,
      make("p", { class: "cannlab-sum" }, `${words} \u00b7 ${plural(minutes, "minute")} left`),
    );
  }

  function next() {
    const all = state();
    if (all.next === null) return make("p", { class: "cannlab-next" }, "Everything here is passed.");
    const lesson = all.lessons.find((entry) => entry.exercises.some((exercise) => exercise.id === all.next));
    const exercise = lesson.exercises.find((entry) => entry.id === all.next);
    const shown = served(all, lesson.workbook) === null ? `${lesson.title} \u00b7 ${lesson.workbook}` : lesson.title;
    return make(
      "div",
      { class: "cannlab-next" },
      make(
        "span",
        { class: "cannlab-nexttext" },
        make("strong", {}, "Next: "),
        exercise.title,
        make("span", { class: "cannlab-quiet" }, ` \u00b7 ${shown}`),
      ),
      opener(all, lesson.lesson, "Open lesson", `Open the lesson ${lesson.title}`, "open-lesson"),
      opener(all, lesson.workbook, "Open exercises", `Open the exercises of ${lesson.title}`, "open-workbook"),
    );
  }

  function lessons() {
    const all = state();
    const list = make("div", { class: "cannlab-lessons" });
    for (const lesson of all.lessons) {
      const current = lesson.exercises.some((exercise) => exercise.id === all.next);
      const details = make("details", { class: "cannlab-lesson" });
      details.open = opened.get(lesson.id) ?? current;
      details.addEventListener("toggle", () => opened.set(lesson.id, details.open));
      const left = lesson.minutes ? `${lesson.minutes} min left` : "done";
      details.append(
        make(
          "summary",
          { "data-key": `lesson-${lesson.id}` },
          make("span", { class: "cannlab-name" }, lesson.title),
          make("span", { class: "cannlab-quiet" }, lesson.level),
          make("span", { class: "cannlab-count" }, `${lesson.done} of ${lesson.exercises.length}`),
          make("span", { class: "cannlab-left" }, left),
        ),
        make("ul", { "aria-label": `Exercises of ${lesson.title}` }, ...lesson.exercises.map(row)),
      );
      list.append(details);
    }
    return list;
  }

  function row(exercise) {
    const seen = exercise.hints ? (exercise.seen % exercise.hints) + 1 : 0;
    const facts = [WORDS[exercise.state]];
    if (exercise.tries) facts.push(plural(exercise.tries, "check"));
    if (exercise.stretch) facts.push("stretch");
    const line = make(
      "div",
      { class: "cannlab-row" },
      make("span", { class: `cannlab-mark cannlab-${exercise.state}`, "aria-hidden": "true" }, MARKS[exercise.state]),
      make(
        "span",
        { class: "cannlab-what" },
        make("span", {}, exercise.title),
        make("span", { class: "cannlab-quiet" }, ` ${facts.join(" \u00b7 ")}`),
      ),
      make("code", { class: "cannlab-id" }, exercise.id),
      exercise.hints
        ? make(
            "button",
            {
              type: "button",
              class: "cannlab-button",
              "data-key": `hint-${exercise.id}`,
              "aria-label": `Hint ${seen} of ${exercise.hints} for ${exercise.title}`,
              onclick: () => model.send({ kind: "hint", exercise: exercise.id }),
            },
            `Hint ${seen} of ${exercise.hints}`,
          )
        : null,
      state().folder
        ? make(
            "button",
            {
              type: "button",
              class: "cannlab-button",
              "data-key": `reset-${exercise.id}`,
              "aria-label": `Reset ${exercise.title}`,
              "aria-expanded": String(asking === exercise.id),
              onclick: () => ask(exercise.id),
            },
            "Reset",
          )
        : null,
    );
    return make(
      "li",
      { "data-exercise": exercise.id, "data-state": exercise.state },
      line,
      asking === exercise.id ? question(exercise) : null,
      answer !== null && answer.exercise === exercise.id ? told() : null,
    );
  }

  function question(exercise) {
    const box = make(
      "div",
      { class: "cannlab-box cannlab-ask", role: "group", "aria-label": `Reset ${exercise.title}?` },
      make(
        "span",
        { class: "cannlab-question" },
        "Put your cell back as it was given? A backup of the workbook is kept. Save the workbook first if it is open.",
      ),
      make(
        "button",
        {
          type: "button",
          class: "cannlab-button cannlab-danger",
          "data-key": `yes-${exercise.id}`,
          onclick: () => {
            model.send({ kind: "reset", exercise: exercise.id });
            leave(exercise.id);
          },
        },
        "Reset this exercise",
      ),
      make(
        "button",
        {
          type: "button",
          class: "cannlab-button",
          "data-key": `no-${exercise.id}`,
          onclick: () => leave(exercise.id),
        },
        "Keep it",
      ),
    );
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        leave(exercise.id);
      }
    });
    return box;
  }

  function ask(exercise) {
    asking = exercise;
    answer = null;
    draw();
    focus(`no-${exercise}`);
  }

  function leave(exercise) {
    asking = "";
    draw();
    focus(`reset-${exercise}`);
  }

  function told() {
    const box = make("div", { class: `cannlab-box cannlab-${answer.kind}` });
    if (answer.kind === "hint") {
      const text = make("div", { class: "cannlab-hinttext" });
      text.innerHTML = answer.html; // made from the course's own Markdown with HTML switched off
      box.append(make("strong", {}, answer.title), text, make("div", { class: "cannlab-quiet" }, answer.more));
    } else {
      box.append(answer.text);
    }
    return box;
  }

  function draw() {
    const key = root.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    root.replaceChildren(head(), next(), lessons());
    if (key) focus(key);
  }

  const passed = new Set(state().lessons.flatMap((l) => l.exercises.filter((e) => e.state === "passed").map((e) => e.id)));
  function changed() {
    for (const exercise of state().lessons.flatMap((lesson) => lesson.exercises)) {
      if (exercise.state === "passed" && !passed.has(exercise.id)) {
        passed.add(exercise.id);
        say(`${exercise.title} passed`);
      } else if (exercise.state !== "passed") {
        passed.delete(exercise.id);
      }
    }
    draw();
  }

  function received(message) {
    answer = message;
    draw();
    if (message.kind === "hint") {
      const text = make("div");
      text.innerHTML = message.html;
      say(`${message.title}: ${text.textContent}`);
    } else {
      say(message.text);
    }
  }

  // JupyterLab's own shortcuts (Enter edits the cell, letters run commands) must not take the panel's keys.
  const keep = (event) => {
    if (["Enter", " ", "Escape", "ArrowUp", "ArrowDown"].includes(event.key) || event.key.length === 1) event.stopPropagation();
  };
  el.addEventListener("keydown", keep);
  el.dataset.lmSuppressShortcuts = "true";
  model.on("change:state", changed);
  model.on("msg:custom", received);
  draw();
  return () => {
    el.removeEventListener("keydown", keep);
    model.off("change:state", changed);
    model.off("msg:custom", received);
  };
}

export default { render };
