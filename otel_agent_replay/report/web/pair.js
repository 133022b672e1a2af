// The page of one pair: verdict and buttons, filters, the aligned rows, the difference of the selected one.
import { element } from "./dom.js";
import { fieldsElement } from "./diff.js";
import { Grid } from "./grid.js";
import { MARK_WORDS, Model } from "./model.js";
import { Strip } from "./strip.js";

const COLUMNS = [
  { title: "Mark", class: "mark" },
  { title: "A", class: "number step" },
  { title: "B", class: "number step" },
  { title: "Step", class: "name" },
  { title: "What changed", class: "what" },
  { title: "Answered", class: "origin" },
  { title: "Paired by", class: "rule" },
  { title: "Δ time", class: "number time" },
  { title: "Δ tokens", class: "number tokens" },
  { title: "Δ cost", class: "number cost" },
];

/** `store.state` is the state, `store.change(patch, jump)` changes it; `say(text)` is spoken, `warn(text)` stays in sight. */
export class PairPage {
  constructor(host, view, store, { say, warn }) {
    this.view = view;
    this.store = store;
    this.say = say;
    this.warn = warn;
    this.model = new Model(view);
    this.items = { rows: [], counts: [] };
    this.selected = -1; // a row, or a fold as its items have it
    this.grid = new Grid({
      label: "Both runs, step by step",
      columns: COLUMNS,
      describe: (place) => this.#describe(place),
      chosen: (place) => this.#choose(place, false),
      entered: (place) => this.#enter(place),
    });
    this.detail = element("section", { class: "detail", "aria-label": "Selected step", tabindex: -1 });
    this.strip = new Strip((share) => this.#choose(Math.min(this.items.rows.length - 1, Math.floor(share * this.items.rows.length)), false));
    host.append(this.#toolbar(), element("div", { class: "panes" }, element("div", { class: "with-strip" }, this.grid.host, this.strip.host), this.detail), this.#summary());
    this.apply(store.state);
  }

  /** Show what the state says. */
  apply(state) {
    this.search.value = state.q;
    this.marks.value = state.mark;
    this.kinds.value = state.kind;
    this.only.value = state.only;
    this.over.value = state.over;
    this.line_button.setAttribute("aria-pressed", String(state.words === "line"));
    this.view_button.setAttribute("aria-pressed", String(state.view === "unified"));
    this.all_button.setAttribute("aria-pressed", String(state.show === "all"));
    let row = state.at === "" ? this.model.departure : this.model.find(state.at);
    if (state.at !== "" && row < 0) this.warn(`This report has no step “${state.at}”: the link is of other runs.`);
    if (row < 0) row = this.model.count ? 0 : -1;
    const wanted = state.at === "" || row < 0 ? {} : this.model.reveal(row, state);
    this.items = this.model.items({ ...state, ...wanted });
    if (Object.keys(wanted).length) this.store.change(wanted, false, true);
    this.#select(row);
    this.matches.textContent = `${this.items.rows.length.toLocaleString("en")} of ${this.model.count.toLocaleString("en")} rows`;
  }

  /** Act on a key; false when it is none of this page's. */
  key(key) {
    const act = this.#keys[key];
    if (act === undefined) return false;
    act();
    return true;
  }

  #keys = {
    n: () => this.#jump(this.model.differences, 1, "difference"),
    p: () => this.#jump(this.model.differences, -1, "difference"),
    N: () => this.#jump(this.model.unexplained, 1, "unexplained difference"),
    P: () => this.#jump(this.model.unexplained, -1, "unexplained difference"),
    d: () => this.#departure(),
    c: () => this.#cause(),
    j: () => this.#step(1),
    k: () => this.#step(-1),
    ArrowDown: () => this.#step(1),
    ArrowUp: () => this.#step(-1),
    PageDown: () => this.#step(15),
    PageUp: () => this.#step(-15),
    ArrowRight: () => this.#inward(),
    ArrowLeft: () => this.#outward(),
    Home: () => this.#choose(0, false),
    End: () => this.#choose(this.items.rows.length - 1, false),
    Enter: () => this.#enter(this.#place()),
    "[": () => this.store.change({ show: "changed", open: [] }, true),
    "]": () => this.store.change({ show: "all" }, true),
    x: () => this.store.change({ order: this.store.state.order === "ab" ? "ba" : "ab" }, true),
    w: () => this.store.change({ words: this.store.state.words === "word" ? "line" : "word" }, true),
    i: () => this.#part("input"),
    a: () => this.#part("answer"),
    1: () => this.#side("a"),
    2: () => this.#side("b"),
    m: () => this.#mark(),
    u: () => this.store.change({ view: this.store.state.view === "split" ? "unified" : "split" }, true),
    f: () => this.search.focus(),
    "/": () => this.search.focus(),
  };

  #toolbar() {
    const choose = (name) => (event) => this.store.change({ [name]: event.target.value }, true);
    const option = (value, text) => element("option", { value }, text);
    this.search = element("input", { type: "search", placeholder: "tool:search", "aria-label": "Filter by kind:name (a regular expression)", oninput: choose("q") });
    this.marks = element("select", { "aria-label": "Filter by mark", onchange: choose("mark") }, option("", "all marks"),
      ...Object.entries(MARK_WORDS).filter(([mark]) => this.model.marks.includes(mark)).map(([mark, words]) => option(mark, `${mark} ${words}`)));
    this.kinds = element("select", { "aria-label": "Filter by kind", onchange: choose("kind") }, option("", "all kinds"), ...this.view.kinds.map((kind) => option(kind, kind)));
    this.only = element("select", { "aria-label": "Filter by place", onchange: choose("only") }, option("", "everywhere"),
      option("unexplained", "unexplained"), option("after", "after the departure"), option("marked", "marked"));
    this.over = element("input", { type: "number", min: 0, step: "any", placeholder: "Δ ms", "aria-label": "Filter by time that differs by more milliseconds", onchange: (event) => this.store.change({ over: event.target.value }, true) });
    this.line_button = element("button", { type: "button", onclick: this.#keys.w }, "Lines");
    this.matches = element("span", { class: "quiet" });
    this.view_button = element("button", { type: "button", onclick: this.#keys.u }, "Unified");
    this.all_button = element("button", { type: "button", onclick: () => this.key(this.store.state.show === "all" ? "[" : "]") }, "Equal rows");
    return element("div", { class: "toolbar", role: "group", "aria-label": "Filters and jumps" },
      element("button", { type: "button", onclick: this.#keys.d, disabled: this.model.departure < 0 }, "★ Departure"),
      element("button", { type: "button", onclick: this.#keys.c, disabled: this.model.departure < 0 }, "☆ Cause"),
      element("button", { type: "button", onclick: this.#keys.p }, "Previous"),
      element("button", { type: "button", onclick: this.#keys.n }, "Next"),
      this.search, this.marks, this.kinds,
      this.only, this.over, this.view_button, this.line_button, this.all_button,
      element("button", { type: "button", onclick: () => this.#copySummary() }, "Copy summary"), this.matches);
  }

  #summary() {
    const rows = this.view.questions.map((one) => element("tr", {}, element("th", { scope: "row" }, one.asked), element("td", {}, one.reply), element("td", {}, one.told)));
    const totals = this.view.totals.map((one) => element("tr", {}, element("th", { scope: "row" }, one.name), element("td", {}, one.before), element("td", {}, one.after)));
    const head = (...names) => element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name))));
    const more = [
      element("details", {}, element("summary", {}, "Questions and totals"),
        element("table", {}, head("Did it change?", "Answer", "Compared"), element("tbody", {}, ...rows)),
        element("table", {}, head("Total", "A", "B"), element("tbody", {}, ...totals))),
    ];
    if (this.view.left_out.values) more.push(element("p", {}, this.view.left_out.told));
    return element("div", { class: "summary" }, ...more);
  }

  #describe(place) {
    const row = this.items.rows[place];
    if (row < 0) {
      const count = this.items.counts[place];
      const start = -1 - row;
      const level = this.model.depth[start] + 1;
      const said = `… ${count.toLocaleString("en")} equal rows`;
      return { cells: ["", "", "", said, "", "", "", "", "", ""], level, indented: 3, expanded: false, class: "fold" };
    }
    const { columns, rules, origins, details } = this.view;
    const detail = details[row];
    const [a, b] = this.model.steps(row);
    const flag = this.store.state.marked.includes(row) ? "●" : "";
    const steps = this.store.state.order === "ba" ? [b, a] : [a, b];
    const star = row === this.model.departure ? "★" : row === this.model.cause ? "☆" : "";
    const mark = this.model.marks[row];
    const rule = columns.rule[row] < 0 ? "" : `${rules[columns.rule[row]][1].toFixed(1)} ${rules[columns.rule[row]][0]}`;
    const has = this.model.end[row] > row + 1;
    return {
      cells: [flag + star + mark, ...steps, this.model.title(row), detail?.phrase ?? "", origins[columns.origin[row]], rule, difference(columns.us_a[row], columns.us_b[row], 1000, " ms"), difference(columns.tokens_a[row], columns.tokens_b[row], 1, ""), detail?.cost ?? ""],
      level: this.model.depth[row] + 1,
      indented: 3,
      position: this.model.position[row],
      siblings: this.model.siblings[row],
      expanded: has ? !this.store.state.closed.includes(row) : undefined,
      class: CLASSES[mark] + (row === this.model.departure ? " departure" : ""),
    };
  }

  #select(row) {
    this.selected = row;
    let place = this.#place();
    if (place < 0 && this.items.rows.length) [place, this.selected] = [0, this.items.rows[0]];
    const first = this.store.state.order === "ba" ? ["B", "A"] : ["A", "B"];
    this.grid.title(1, first[0]);
    this.grid.title(2, first[1]);
    this.grid.fill(this.items.rows.length, place);
    const at = (wanted) => this.items.rows.indexOf(wanted);
    if (this.listed !== this.items) this.strip_marks = this.items.rows.map((one) => (one < 0 ? "" : this.model.marks[one]));
    this.listed = this.items;
    this.strip.fill(this.strip_marks, { departure: at(this.model.departure), cause: at(this.model.cause), selected: place });
    this.#draw();
  }

  #place() {
    return this.items.rows.indexOf(this.selected);
  }

  #choose(place, jump) {
    if (place < 0 || place >= this.items.rows.length) return;
    this.selected = this.items.rows[place];
    this.grid.select(place);
    this.strip.select(place);
    this.#draw();
    if (this.selected >= 0) this.store.remember({ at: this.model.locator(this.selected) }, jump);
  }

  #step(by) {
    this.#choose(Math.max(0, Math.min(this.items.rows.length - 1, this.#place() + by)), false);
  }

  #go(row) {
    const wanted = this.model.reveal(row, this.store.state);
    this.store.change({ ...wanted, at: this.model.locator(row) }, true);
    if (this.selected !== row) this.#select(row); // a locator is not always unique: ids may be missing
  }

  #jump(rows, direction, what) {
    const at = this.selected < 0 ? -1 - this.selected - 0.5 : this.selected;
    const row = direction > 0 ? rows.find((one) => one > at) : rows.findLast((one) => one < at);
    if (row === undefined) {
      this.say(rows.length ? `no ${direction > 0 ? "later" : "earlier"} ${what}` : `no ${what}`);
      return;
    }
    this.#go(row);
    const [a, b] = this.model.steps(row);
    this.say(`${what} ${rows.indexOf(row) + 1} of ${rows.length}, ${this.view.details[row].phrase}, ${this.model.title(row)}, step ${a || b || "none"}`);
  }

  #departure() {
    if (this.model.departure < 0) this.say("there is no departure");
    else {
      this.#go(this.model.departure);
      this.say(`departure: ${this.model.title(this.model.departure)}`);
    }
  }

  #cause() {
    this.#departure();
    if (this.model.cause >= 0 && this.model.cause !== this.model.departure) {
      this.#go(this.model.cause);
      this.say(`cause: ${this.view.departure.cause}, from ${this.model.title(this.model.cause)}`);
      return;
    }
    const cause = this.detail.querySelector(".cause");
    if (cause === null) return;
    cause.focus();
    this.say(`cause: ${this.view.departure.cause}`);
  }

  /** Show the values of one part, and go to them; once more shows all. */
  #part(part) {
    const shown = this.store.state.part === part ? "" : part;
    this.store.change({ part: shown }, true);
    const found = shown === "" ? null : this.detail.querySelector(`.${shown}`);
    if (found !== null) found.focus();
    this.say(shown === "" ? "input and answer" : found === null ? `the ${shown} does not differ here` : `${shown} alone`);
  }

  /** Show the values of one side alone; once more shows both. */
  #side(side) {
    const shown = this.store.state.side === side ? "" : side;
    this.store.change({ side: shown }, true);
    this.say(shown === "" ? "both sides" : `side ${shown.toUpperCase()} alone`);
  }

  #mark() {
    if (this.selected < 0) return;
    const { marked } = this.store.state;
    const was = marked.includes(this.selected);
    const now = was ? marked.filter((one) => one !== this.selected) : [...marked, this.selected];
    this.store.change({ marked: now, at: this.model.locator(this.selected) }, true);
    this.say(was ? "mark taken away" : `marked, ${now.length} in all`);
  }

  /** Two rows of one side each belong together: kept in the link, and told as what compares them so. */
  #pairWith(row) {
    const [a, b] = this.model.steps(row);
    const waiting = this.waiting;
    if (waiting === undefined || (waiting.a !== "") === (a !== "")) {
      this.waiting = { a, b };
      this.say(`pair with which step of ${a === "" ? "A" : "B"}? Select it and press “Pair”.`);
      return;
    }
    this.waiting = undefined;
    this.store.change({ pair: [...this.store.state.pair, `${waiting.a || a}:${waiting.b || b}`] }, true);
  }

  /** Copy what a comment would say: the verdict, the cause, the first differences, as Markdown. */
  async #copySummary() {
    const lines = [`**${this.view.sentence}**`, ""];
    if (this.view.departure !== null) lines.push(`Cause: ${this.view.departure.cause}`, ...this.view.departure.evidence.map((one) => `- ${one}`), "");
    lines.push(...this.model.differences.slice(0, 20).map((row) => `- ${this.model.marks[row]} ${this.model.title(row)}: ${this.view.details[row].phrase}`));
    if (this.model.differences.length > 20) lines.push(`- and ${this.model.differences.length - 20} more`);
    try {
      await navigator.clipboard.writeText(lines.join("\n"));
      this.say("summary copied");
    } catch {
      this.warn("This page may not write to the clipboard here.");
    }
  }

  #inward() {
    if (this.selected < 0 || this.store.state.closed.includes(this.selected)) this.#enter(this.#place());
    else if (this.model.end[this.selected] > this.selected + 1) this.#step(1);
  }

  #outward() {
    if (this.selected < 0) return;
    const closed = this.store.state.closed;
    const has = this.model.end[this.selected] > this.selected + 1;
    if (has && !closed.includes(this.selected)) this.store.change({ closed: [...closed, this.selected], at: this.model.locator(this.selected) }, true);
    else if (this.model.parent[this.selected] >= 0) this.#go(this.model.parent[this.selected]);
  }

  /** Unfold equal rows, open what is closed, else go on to the difference's text. */
  #enter(place) {
    if (place < 0) return;
    const row = this.items.rows[place];
    const { open, closed } = this.store.state;
    if (row < 0) this.store.change({ open: [...open, -1 - row], at: this.model.locator(-1 - row) }, true);
    else if (closed.includes(row)) this.store.change({ closed: closed.filter((one) => one !== row), at: this.model.locator(row) }, true);
    else this.detail.focus();
  }

  #draw() {
    this.detail.replaceChildren(...this.#detailElements());
  }

  #detailElements() {
    const row = this.selected;
    if (row < 0) return [element("p", {}, "Equal rows, folded: → or Enter shows them.")];
    const { columns, rules, origins, details } = this.view;
    const detail = details[row];
    const [a, b] = this.model.steps(row);
    const rule = columns.rule[row] < 0 ? "in one run only" : `paired by: ${rules[columns.rule[row]][0]}, strength ${rules[columns.rule[row]][1]}`;
    const steps = a || b ? `step ${a || "–"} of A, ${b || "–"} of B` : "no step of its own";
    const made = [
      element("h2", {}, this.model.title(row)),
      element("p", {}, `${MARK_WORDS[this.model.marks[row]]} · ${steps} · ${rule}${origins[columns.origin[row]] ? ` · answered: ${origins[columns.origin[row]]}` : ""}`),
    ];
    if (row === this.model.departure) made.push(this.#causeElement());
    made.push(...this.#pairElements(row, [a, b]));
    if (!detail) return [...made, element("p", { class: "quiet" }, "Nothing of substance differs here.")];
    if (detail.basis) made.push(element("p", {}, `Beside the departure: ${detail.basis}${detail.words.length ? ` (${detail.words.join(", ")})` : ""}`));
    made.push(...detail.told.map((text) => element("p", {}, text)));
    if (detail.way.length > 1) made.push(this.#wayElement(detail.way));
    return [...made, fieldsElement(detail, this.store.state)];
  }

  /** What was paired by hand, and the button that does it, on a row that one run alone has. */
  #pairElements(row, [a, b]) {
    const made = [];
    const by_hand = this.store.state.pair.filter((one) => [`${a}:`, `:${b}`].some((end) => end.length > 1 && (one.startsWith(end) || one.endsWith(end))));
    for (const one of by_hand) {
      made.push(element("p", {}, `Paired by hand: step ${one.replace(":", " of A with step ")} of B. `, element("code", {}, `agent-replay diff ${this.view.runs[0]} ${this.view.runs[1]} --pair ${one}`), " compares them so."));
    }
    const alone = (a === "") !== (b === "");
    if (alone) made.push(element("p", {}, element("button", { type: "button", onclick: () => this.#pairWith(row) }, "Pair")));
    return made;
  }

  /** The way back to the source, each sentence with a button to the row that it leads to. */
  #wayElement(way) {
    const there = ({ row }) => row === null ? null : element("button", { type: "button", "aria-label": `Go to ${this.model.title(row)}`, onclick: () => this.#go(row) }, "→");
    return element("details", { class: "way", open: true }, element("summary", {}, "Where it comes from"),
      element("ol", {}, ...way.map((one) => element("li", {}, one.told, " ", there(one)))));
  }

  #causeElement() {
    const { cause, evidence } = this.view.departure;
    return element("div", { class: "cause", tabindex: -1, role: "group", "aria-label": "Cause" },
      element("p", {}, element("strong", {}, `☆ Cause: ${cause}`)), element("ul", {}, ...evidence.map((text) => element("li", {}, text))));
  }
}

const CLASSES = { "=": "same", "~": "changed", "−": "only-a", "+": "only-b", "↕": "order", "⇄": "moved", "·": "not-run" };

function difference(before, after, divisor, unit) {
  if (before < 0 || after < 0 || before === after) return "";
  const value = (after - before) / divisor;
  return `${value > 0 ? "+" : "−"}${Math.abs(value).toLocaleString("en", { maximumFractionDigits: divisor === 1 ? 0 : 1 })}${unit}`;
}
