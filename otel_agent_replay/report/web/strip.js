// All rows of a page on one narrow canvas beside the grid, marked by their class: where the differences lie, and a way there.
import { element } from "./dom.js";

const WIDTH = 14;
const CLASSES = { "~": "--ink", "−": "--a", "+": "--b", "↕": "--quiet", "⇄": "--ink" };
const LEAST = 2; // pixels of a mark: one row of 100,000 is seen too

/** `went(share)` hears where somebody pressed or drags, as a share of all rows. What it shows, keys and rows say too. */
export class Strip {
  constructor(went) {
    this.host = element("canvas", { class: "strip", width: WIDTH, height: 1, "aria-hidden": "true" });
    const go = (event) => {
      const box = this.host.getBoundingClientRect();
      went(Math.max(0, Math.min(1, (event.clientY - box.top) / box.height)));
    };
    this.host.addEventListener("pointerdown", (event) => {
      this.host.setPointerCapture(event.pointerId);
      go(event);
    });
    this.host.addEventListener("pointermove", (event) => event.buttons && go(event));
    new ResizeObserver(() => this.draw()).observe(this.host);
    this.rows = [];
    this.marks = null;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(true));
  }

  /** Show these rows: a mark each ("" for a fold), and the places of departure, cause and selection (-1: none). */
  fill(rows, places) {
    if (rows !== this.rows) this.marks = null;
    this.rows = rows;
    this.places = places;
    this.draw();
  }

  /** Move the place of the selection. */
  select(place) {
    if (this.places) this.fill(this.rows, { ...this.places, selected: place });
  }

  /** Draw the marks, which are kept as they were drawn, and the places over them. */
  draw(anew = false) {
    const height = Math.max(1, Math.round(this.host.getBoundingClientRect().height));
    const theme = document.documentElement.dataset.theme;
    if (anew || this.host.height !== height || this.theme !== theme) this.marks = null;
    if (this.host.height !== height) this.host.height = height;
    this.theme = theme;
    const pen = this.host.getContext("2d", { willReadFrequently: true });
    const each = height / Math.max(1, this.rows.length);
    if (this.marks === null) {
      this.pens = this.#pens();
      pen.clearRect(0, 0, WIDTH, height);
      for (let place = 0; place < this.rows.length; place += 1) {
        const name = CLASSES[this.rows[place]];
        if (name === undefined) continue;
        pen.fillStyle = this.pens[name];
        pen.fillRect(3, Math.floor(place * each), WIDTH - 6, Math.max(LEAST, each));
      }
      this.marks = pen.getImageData(0, 0, WIDTH, height);
    }
    pen.putImageData(this.marks, 0, 0);
    const bar = (place, width, name) => {
      if (place < 0) return;
      pen.fillStyle = this.pens[name];
      pen.fillRect(0, Math.floor(place * each), width, Math.max(LEAST, each));
    };
    const { departure = -1, cause = -1, selected = -1 } = this.places ?? {};
    bar(cause, WIDTH, "--quiet");
    bar(departure, WIDTH, "--b");
    bar(selected, 3, "--focus");
  }

  /** The colours of the theme as a canvas takes them: it knows no light-dark(). */
  #pens() {
    const found = {};
    for (const name of ["--ink", "--a", "--b", "--quiet", "--focus"]) {
      this.host.style.color = `var(${name})`;
      found[name] = getComputedStyle(this.host).color;
    }
    this.host.style.color = "";
    return found;
  }
}
