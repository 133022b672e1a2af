// The page of a cohort: its cases, each leading to its aligned difference in the same file.
import { element } from "./dom.js";
import { Grid } from "./grid.js";

const COLUMNS = [
  { title: "Case", class: "name" },
  { title: "Verdict", class: "origin" },
  { title: "Changes", class: "number step" },
  { title: "Cause", class: "rule" },
  { title: "What", class: "what" },
];

/** `cases` are rows of `report/cohort_html.py`; `open(key)` shows a case's pair. */
export class CohortPage {
  constructor(host, cases, store, open) {
    this.cases = cases;
    this.store = store;
    this.open = open;
    this.selected = 0;
    this.search = element("input", { type: "search", placeholder: "case or cause", "aria-label": "Filter cases", oninput: (event) => store.change({ q: event.target.value }, true) });
    this.matches = element("span", { class: "quiet" });
    this.grid = new Grid({
      label: "Cases",
      columns: COLUMNS,
      describe: (place) => this.#describe(place),
      chosen: (place) => this.#choose(place),
      entered: (place) => this.#enter(place),
    });
    this.grid.host.classList.add("cases");
    host.append(element("div", { class: "toolbar", role: "group", "aria-label": "Filters" }, this.search,
      element("button", { type: "button", onclick: () => this.#enter(this.selected) }, "Open the pair"), this.matches), this.grid.host);
    this.apply(store.state);
  }

  apply(state) {
    this.search.value = state.q;
    const wanted = state.q.toLowerCase();
    this.shown = this.cases.filter((one) => `${one.key} ${one.verdict} ${one.cause} ${one.sentence}`.toLowerCase().includes(wanted));
    this.selected = Math.max(0, Math.min(this.selected, this.shown.length - 1));
    this.matches.textContent = `${this.shown.length.toLocaleString("en")} of ${this.cases.length.toLocaleString("en")} cases`;
    this.grid.fill(this.shown.length, this.shown.length ? this.selected : -1);
  }

  key(key) {
    const act = {
      j: () => this.#choose(this.selected + 1), ArrowDown: () => this.#choose(this.selected + 1),
      k: () => this.#choose(this.selected - 1), ArrowUp: () => this.#choose(this.selected - 1),
      Home: () => this.#choose(0), End: () => this.#choose(this.shown.length - 1),
      n: () => this.#differing(1), p: () => this.#differing(-1),
      Enter: () => this.#enter(this.selected), ArrowRight: () => this.#enter(this.selected),
      f: () => this.search.focus(), "/": () => this.search.focus(),
    }[key];
    if (act === undefined) return false;
    act();
    return true;
  }

  #describe(place) {
    const one = this.shown[place];
    return { cells: [one.key, one.verdict, one.changes, one.cause, one.pair === null && one.differs ? `${one.sentence} (pair not in this file)` : one.sentence], class: one.differs ? "changed" : "same", position: place + 1, siblings: this.shown.length };
  }

  #choose(place) {
    if (place < 0 || place >= this.shown.length) return;
    this.selected = place;
    this.grid.select(place);
  }

  #differing(direction) {
    for (let place = this.selected + direction; place >= 0 && place < this.shown.length; place += direction) {
      if (this.shown[place].differs) {
        this.#choose(place);
        return;
      }
    }
  }

  #enter(place) {
    if (this.shown[place] && this.shown[place].pair !== null) this.open(this.shown[place].key);
  }
}
