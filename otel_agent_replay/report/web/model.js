// The rows of two aligned runs as columns: tree, filters, folds, places. Pure: no document, no time.

const CONTEXT = 3; // rows that stay around a difference
export const MARK_WORDS = {
  "=": "same",
  "~": "changed",
  "−": "only in A",
  "+": "only in B",
  "↕": "other order",
  "⇄": "moved",
  "·": "not run",
};

/** Rows in display order, parents first. `view` is what `report/pair_view.py` makes of a comparison. */
export class Model {
  constructor(view) {
    this.view = view;
    const columns = view.columns;
    this.marks = Array.from(columns.mark);
    this.count = this.marks.length;
    this.depth = Int32Array.from(columns.depth);
    this.parent = new Int32Array(this.count).fill(-1);
    this.end = new Int32Array(this.count).fill(this.count); // first row after what is inside
    this.position = new Int32Array(this.count); // among its siblings, from 1
    this.siblings = new Int32Array(this.count);
    this.#tree();
    this.differences = Object.keys(view.details).map(Number).filter((row) => view.details[row].change !== null);
    this.differences.sort((a, b) => a - b);
    this.unexplained = this.differences.filter((row) => view.details[row].unexplained);
    this.departure = view.departure === null || view.departure.row === null ? -1 : view.departure.row;
    this.cause = view.departure === null || view.departure.cause_row === null ? -1 : view.departure.cause_row;
  }

  #tree() {
    const line = []; // the rows that hold this one, outermost first
    const children = new Int32Array(this.count + 1); // the last is of the top
    const holder = (row) => (this.parent[row] < 0 ? this.count : this.parent[row]);
    for (let row = 0; row < this.count; row += 1) {
      const depth = this.depth[row];
      while (line.length > depth) this.end[line.pop()] = row;
      this.parent[row] = line.length ? line[line.length - 1] : -1;
      children[holder(row)] += 1;
      this.position[row] = children[holder(row)];
      line.push(row);
    }
    for (let row = 0; row < this.count; row += 1) this.siblings[row] = children[holder(row)];
  }

  kind(row) {
    return this.view.kinds[this.view.columns.kind[row]];
  }

  name(row) {
    return this.view.names[this.view.columns.name[row]];
  }

  /** What a row is called, with both names where they differ. */
  title(row) {
    const other = this.view.columns.other[row];
    const name = other < 0 ? this.name(row) : `${this.name(row)} → ${this.view.names[other]}`;
    return `${this.kind(row)} ${name}`.trim();
  }

  steps(row) {
    const { step_a: a, step_b: b } = this.view.columns;
    return [a[row] < 0 ? "" : String(a[row]), b[row] < 0 ? "" : String(b[row])];
  }

  /** Rows shown: numbers from 0 are rows, a fold of `counts[i]` equal rows that begins at r is -1 - r. */
  items(state) {
    const marked = state.only === "marked" ? state.marked : [];
    const key = JSON.stringify([state.q, state.mark, state.kind, state.only, state.over, marked, state.show, state.open, state.closed]);
    if (this.latest?.key !== key) this.latest = { key, ...this.#listed(state) }; // most changes are of the place alone
    return this.latest;
  }

  #listed(state) {
    const rows = [];
    const counts = [];
    const wanted = this.#wanted(state);
    const closed = new Set(state.closed);
    const folds = wanted.folds;
    const open = new Set(state.open);
    let row = 0;
    while (row < this.count) {
      if (wanted.shown === null || wanted.shown[row]) {
        rows.push(row);
        counts.push(1);
        row = closed.has(row) ? this.end[row] : row + 1;
        continue;
      }
      let end = row + 1;
      while (end < this.count && !wanted.shown[end]) end += 1;
      if (folds && (open.has(row) || end - row === 1)) {
        for (let inside = row; inside < end; ) {
          rows.push(inside);
          counts.push(1);
          inside = closed.has(inside) ? Math.min(end, this.end[inside]) : inside + 1;
        }
      } else if (folds) {
        rows.push(-1 - row);
        counts.push(end - row);
      }
      row = end;
    }
    return { rows, counts };
  }

  #wanted(state) {
    const filtered = state.q !== "" || state.mark !== "" || state.kind !== "" || state.only !== "" || state.over !== "";
    if (!filtered && state.show === "all") return { shown: null, folds: false };
    const shown = new Uint8Array(this.count);
    if (filtered) {
      const fits = this.#filter(state);
      for (let row = 0; row < this.count; row += 1) if (fits(row)) this.#showWithHolders(shown, row);
      return { shown, folds: false };
    }
    for (let row = 0; row < this.count; row += 1) {
      if (this.marks[row] === "=" || this.marks[row] === "·") continue;
      const last = Math.min(this.count - 1, row + CONTEXT);
      for (let near = Math.max(0, row - CONTEXT); near <= last; near += 1) shown[near] = 1;
      this.#showWithHolders(shown, row);
    }
    if (this.count) shown[0] = 1;
    return { shown, folds: true };
  }

  #filter(state) {
    const marks = new Set(state.mark);
    const some = this.#only(state);
    const over = state.over === "" ? -1 : Number(state.over) * 1000;
    const { us_a: before, us_b: after } = this.view.columns;
    const expression = state.q === "" ? null : matcher(state.q);
    const known = new Map(); // a run has few names: each is tried once
    const { kind: kinds, name: names, other: others } = this.view.columns;
    const named = (kind, name) => {
      const key = kind * this.view.names.length + name;
      if (!known.has(key)) known.set(key, expression.test(`${this.view.kinds[kind]}:${this.view.names[name]}`));
      return known.get(key);
    };
    return (row) =>
      (!marks.size || marks.has(this.marks[row])) &&
      (state.kind === "" || this.kind(row) === state.kind) &&
      (some === null || some.has(row)) &&
      (over < 0 || (before[row] >= 0 && after[row] >= 0 && Math.abs(after[row] - before[row]) > over)) &&
      (expression === null || named(kinds[row], names[row]) || (others[row] >= 0 && named(kinds[row], others[row])));
  }

  /** The rows that `only` asks for, null for all. */
  #only(state) {
    if (state.only === "unexplained") return new Set(this.unexplained);
    if (state.only === "marked") return new Set(state.marked);
    return state.only === "after" ? new Set(this.differences.filter((row) => row >= this.departure)) : null;
  }

  #showWithHolders(shown, row) {
    for (let holder = row; holder >= 0 && !(holder !== row && shown[holder] === 2); holder = this.parent[holder]) {
      shown[holder] = 2;
    }
  }

  /** A row's place as text: its path in the tree and, where it is kept, the id of its span. */
  locator(row) {
    const parts = [];
    for (let at = row; at >= 0; at = this.parent[at]) parts.unshift(`${this.#label(at)}#${this.#occurrence(at)}`);
    const ids = this.view.details[row]?.spans ?? [];
    const id = ids.find((one) => one);
    return parts.join("/") + (id ? `~${id}` : "");
  }

  #label(row) {
    return `${this.kind(row)}:${this.name(row)}`.replace(/[%/~#]/g, (sign) => encodeURIComponent(sign).replace("~", "%7E"));
  }

  #occurrence(row) {
    let before = 0;
    const { kind, name } = this.view.columns;
    for (let other = this.parent[row] + 1; other < row; other = this.end[other]) {
      if (kind[other] === kind[row] && name[other] === name[row]) before += 1;
    }
    return before;
  }

  /** The row that a locator names, by id or else by path; -1 when neither fits. */
  find(locator) {
    const [path, id] = locator.split("~");
    if (id) {
      const row = Object.keys(this.view.details).find((one) => this.view.details[one].spans.includes(id));
      if (row !== undefined) return Number(row);
    }
    return path === "" ? -1 : this.#atPath(path.split("/"));
  }

  #atPath(parts) {
    let holder = -1;
    for (const part of parts) {
      const [label, number] = part.split("#");
      let left = Number(number ?? 0);
      let found = -1;
      const end = holder < 0 ? this.count : this.end[holder];
      for (let row = holder + 1; row < end && found < 0; row = this.end[row]) {
        if (this.#label(row) !== label) continue;
        if (left === 0) found = row;
        left -= 1;
      }
      if (found < 0) return -1;
      holder = found;
    }
    return holder;
  }

  /** What must be opened so that `row` is among the items; returns the changed fields of the state. */
  reveal(row, state) {
    const shows = (candidate) => this.items(candidate).rows.includes(row);
    if (shows(state)) return {};
    const holders = new Set();
    for (let at = this.parent[row]; at >= 0; at = this.parent[at]) holders.add(at);
    const patch = { closed: state.closed.filter((one) => !holders.has(one)) };
    if (shows({ ...state, ...patch })) return patch;
    Object.assign(patch, { q: "", mark: "", kind: "", only: "", over: "" });
    if (shows({ ...state, ...patch })) return patch;
    const { rows, counts } = this.items({ ...state, ...patch });
    const fold = rows.findIndex((one, place) => one < 0 && -1 - one <= row && row < -1 - one + counts[place]);
    return { ...patch, open: [...state.open, -1 - rows[fold]] };
  }
}

function matcher(text) {
  try {
    return new RegExp(text, "i");
  } catch {
    return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"); // not an expression: take it as it is
  }
}
