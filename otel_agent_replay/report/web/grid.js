// A grid of which only the rows in sight are in the document. Owns window, selection and what a screen reader is told.
import { element } from "./dom.js";

const SPARE = 3; // rows made above and below what is in sight

/** `describe(i)` says what row i is; `chosen(i)` hears selections, `entered(i)` Enter and double clicks. */
export class Grid {
  constructor({ label, columns, describe, chosen, entered }) {
    this.describe = describe;
    this.chosen = chosen;
    this.entered = entered;
    this.columns = columns;
    this.count = 0;
    this.selected = -1;
    this.name = `grid-${Math.random().toString(36).slice(2)}`;
    const head = element("div", { role: "row", class: "row head", "aria-rowindex": 1 });
    head.append(...columns.map((column) => element("span", { role: "columnheader", class: column.class }, column.title)));
    this.body = element("div", { role: "rowgroup", class: "body" });
    this.host = element("div", { role: "treegrid", class: "grid", tabindex: 0, "aria-label": label, "aria-colcount": columns.length }, head, this.body);
    this.host.addEventListener("scroll", () => this.#later());
    new ResizeObserver(() => {
      this.height = this.#rowHeight(); // asking for it while drawing would cost a layout each time
      this.#later();
    }).observe(this.host);
    this.body.addEventListener("click", (event) => this.#clicked(event, this.chosen));
    this.body.addEventListener("dblclick", (event) => this.#clicked(event, this.entered));
  }

  /** Name a column otherwise. */
  title(column, text) {
    this.host.querySelectorAll("[role=columnheader]")[column].textContent = text;
  }

  /** Show `count` rows anew, with row `selected` selected (-1: none). */
  fill(count, selected) {
    this.count = count;
    this.height ??= this.#rowHeight();
    this.host.setAttribute("aria-rowcount", count + 1);
    this.host.style.maxHeight = `${(count + 2) * this.height}px`; // no taller than what it holds
    this.body.style.height = `${count * this.height}px`;
    this.select(selected);
  }

  select(index) {
    this.selected = index;
    const height = this.height;
    const room = this.host.clientHeight - height;
    const top = Math.max(0, index) * height;
    if (top < this.host.scrollTop) this.host.scrollTop = Math.max(0, top - height);
    else if (top + height > this.host.scrollTop + room) this.host.scrollTop = top + 2 * height - room;
    this.draw();
  }

  draw() {
    const height = this.height;
    this.body.style.height = `${this.count * height}px`;
    const first = Math.max(0, Math.floor(this.host.scrollTop / height) - SPARE);
    const last = Math.min(this.count, Math.ceil((this.host.scrollTop + this.host.clientHeight) / height) + SPARE);
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this.#row(index, height));
    const outside = this.selected >= 0 && this.selected < this.count && (this.selected < first || this.selected >= last);
    if (outside) rows.push(this.#row(this.selected, height)); // what is announced must be in the document
    this.body.replaceChildren(...rows);
    const active = this.selected >= 0 && this.selected < this.count;
    if (active) this.host.setAttribute("aria-activedescendant", this.#id(this.selected));
    else this.host.removeAttribute("aria-activedescendant");
  }

  #row(index, height) {
    const said = this.describe(index);
    const row = element("div", {
      role: "row",
      id: this.#id(index),
      class: `row ${said.class ?? ""}`,
      "data-index": index,
      "aria-rowindex": index + 2,
      "aria-level": said.level ?? 1,
      "aria-posinset": said.position,
      "aria-setsize": said.siblings,
      "aria-expanded": said.expanded === undefined ? null : String(said.expanded),
      "aria-selected": String(index === this.selected),
    });
    row.append(...said.cells.map((cell, place) => {
      const made = element("span", { role: "gridcell", class: this.columns[place].class }, cell);
      if (place === said.indented) made.style.paddingInlineStart = `${Math.min(said.level - 1, 20) * 14}px`;
      return made;
    }));
    row.style.top = `${index * height}px`;
    return row;
  }

  #clicked(event, hears) {
    const row = event.target.closest("[data-index]");
    if (row !== null) hears(Number(row.dataset.index));
  }

  #later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  #rowHeight() {
    return parseFloat(getComputedStyle(this.host).getPropertyValue("--row")) || 24;
  }

  #id(index) {
    return `${this.name}-${index}`;
  }
}
