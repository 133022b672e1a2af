// Starts a report: theme before the first paint, then data, pages, links, keys that every page has.
import { CohortPage } from "./cohort.js";
import { element } from "./dom.js";
import { PairPage } from "./pair.js";
import { formatState, parseState } from "./state.js";

const FORMAT = 1; // of the data in the file
const HELP = [
  ["n / p", "next or previous difference"],
  ["N / P", "next or previous unexplained difference"],
  ["d", "departure"],
  ["c", "cause"],
  ["j / k, ↓ / ↑", "next or previous row"],
  ["→ / ←", "open or close, inside or outside"],
  ["Home / End", "first or last row"],
  ["Enter", "open; go on to the text"],
  ["[ / ]", "fold or unfold equal rows"],
  ["u", "side by side or in one column"],
  ["x", "B first, or A first"],
  ["w", "mark words or lines"],
  ["i / a", "the input or the answer alone"],
  ["1 / 2", "side A or side B alone"],
  ["m", "mark this row"],
  ["f or /", "filter"],
  ["y", "copy a link to this place"],
  ["?", "this list"],
  ["Esc", "back out"],
];

class Store {
  constructor(told) {
    this.state = parseState(location.hash);
    this.told = told;
    addEventListener("popstate", () => this.#read());
    addEventListener("hashchange", () => this.#read());
  }

  /** Change the state; `jump` makes an entry of the history, `quiet` draws nothing anew. */
  change(patch, jump, quiet = false) {
    this.#write(patch, jump);
    if (!quiet) this.told(this.state);
  }

  /** Note where one is, without drawing; a row walked over makes no entry of the history, and browsers limit how many changes. */
  remember(patch, jump) {
    this.state = { ...this.state, ...patch };
    clearTimeout(this.later);
    this.later = setTimeout(() => this.#write({}, jump), 120);
  }

  link() {
    return `${location.href.replace(/#.*/s, "")}#${formatState(this.state)}`;
  }

  #write(patch, jump) {
    clearTimeout(this.later);
    this.state = { ...this.state, ...patch };
    const text = `#${formatState(this.state)}`;
    if (text !== location.hash) history[jump ? "pushState" : "replaceState"](null, "", text);
  }

  #read() {
    if (location.hash === `#${formatState(this.state)}`) return;
    this.state = parseState(location.hash);
    this.told(this.state);
  }
}

class App {
  constructor(data, main, plain) {
    this.data = data;
    this.status = element("p", { role: "status", class: "status" });
    this.banner = element("p", { role: "alert", class: "banner", hidden: true });
    this.place = element("div", { class: "page" });
    this.shown = null; // the case whose pair is shown, "" for the list or the only pair
    this.store = new Store((state) => this.apply(state));
    this.help = this.#help();
    main.append(this.#settings(), this.banner, this.place, this.status, this.help);
    this.apply(this.store.state);
    addEventListener("keydown", (event) => this.#key(event));
    addEventListener("beforeprint", () => main.append(plain)); // on paper the plain part says it all
    addEventListener("afterprint", () => plain.remove());
  }

  apply(state) {
    document.documentElement.dataset.theme = state.theme;
    this.theme.value = state.theme;
    this.single.checked = state.keys === "on";
    const wanted = this.data.kind === "cohort" && this.data.pairs[state.case] ? state.case : "";
    if (this.shown === wanted) {
      this.banner.hidden = true;
      this.page.apply(state);
      return;
    }
    this.shown = wanted;
    this.banner.hidden = true;
    this.place.replaceChildren();
    document.getElementById("overview")?.toggleAttribute("hidden", wanted !== ""); // a pair has the page to itself
    const talk = { say: (text) => this.#say(text), warn: (text) => this.#warn(text) };
    if (this.data.kind === "cohort" && wanted === "") {
      this.page = new CohortPage(this.place, this.data.cases, this.store, (key) => this.store.change({ case: key, at: "", q: "" }, true));
      if (state.case !== "") talk.warn(`This report has no pair of case “${state.case}”.`);
      return;
    }
    const view = this.data.kind === "cohort" ? this.data.pairs[wanted] : this.data.pair;
    if (wanted !== "") {
      this.place.append(element("p", {}, element("button", { type: "button", onclick: () => this.#back() }, "← All cases"), ` ${wanted}: ${view.sentence}`));
    }
    this.page = new PairPage(this.place, view, this.store, talk);
  }

  #settings() {
    const option = (value) => element("option", { value }, value);
    this.theme = element("select", { onchange: (event) => this.store.change({ theme: event.target.value }, false) }, ...["system", "light", "dark"].map(option));
    this.single = element("input", { type: "checkbox", onchange: (event) => this.store.change({ keys: event.target.checked ? "on" : "off" }, false) });
    return element("div", { class: "settings" },
      element("label", {}, "Theme ", this.theme),
      element("label", {}, this.single, " single-key shortcuts"),
      element("button", { type: "button", onclick: () => this.#copy() }, "Copy link"),
      element("button", { type: "button", onclick: () => this.help.showModal() }, "Keys"));
  }

  #help() {
    const rows = HELP.map(([keys, what]) => element("tr", {}, element("th", { scope: "row" }, keys), element("td", {}, what)));
    return element("dialog", { "aria-label": "Keys" }, element("table", {}, element("tbody", {}, ...rows)),
      element("form", { method: "dialog" }, element("button", {}, "Close")));
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || this.help.open) return; // the dialog closes itself
    const typing = event.target.closest?.("input, select, textarea") ?? null;
    if (event.key === "Escape") {
      if (typing === null) this.#back();
      else this.page.grid.host.focus();
      return;
    }
    const named = event.key.length > 1;
    if (typing !== null || (!named && this.store.state.keys === "off")) return;
    if (event.target.closest?.("button, summary, a") && event.key === "Enter") return;
    if (event.target.closest?.(".detail") && named && event.key !== "Enter") return; // there they scroll
    const own = { y: () => this.#copy(), "?": () => this.help.showModal() }[event.key];
    if (own !== undefined) own();
    else if (!this.page.key(event.key)) return;
    event.preventDefault();
  }

  /** Leave the text for the rows, then the filter, then the pair. */
  #back() {
    const state = this.store.state;
    if (document.activeElement?.closest(".detail")) this.page.grid.host.focus();
    else if (state.q || state.mark || state.kind || state.only || state.over) this.store.change({ q: "", mark: "", kind: "", only: "", over: "" }, true);
    else if (this.shown) this.store.change({ case: "", at: "", open: [], closed: [] }, true);
  }

  async #copy() {
    const link = this.store.link();
    try {
      await navigator.clipboard.writeText(link);
      this.#say("link copied");
    } catch {
      this.#warn(`Copy this link: ${link}`); // no clipboard here
    }
  }

  #say(text) {
    this.status.textContent = text;
  }

  #warn(text) {
    this.banner.textContent = text;
    this.banner.hidden = false;
  }
}

async function readData() {
  const text = document.getElementById("report-data").textContent.trim();
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let place = 0; place < packed.length; place += 1) bytes[place] = packed.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function start() {
  const plain = document.getElementById("plain");
  try {
    const data = await readData();
    if (data.format !== FORMAT) throw new Error(`its data have format ${data.format}, this script reads ${FORMAT}`);
    plain.remove();
    new App(data, document.querySelector("main"), plain);
  } catch (error) {
    const main = document.querySelector("main");
    if (!plain.isConnected) main.append(plain);
    main.prepend(element("p", { role: "alert" }, `The interactive part cannot be shown here: ${error.message}`));
  }
  document.documentElement.dataset.ready = "true";
}

document.documentElement.dataset.theme = parseState(location.hash).theme; // before the first paint
document.addEventListener("DOMContentLoaded", start);
