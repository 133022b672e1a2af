// Shows one row's difference. The differences themselves were made in Python: here they are only laid out.
import { element } from "./dom.js";

/** Return the fields of a difference. `how`: `view` split or unified, `order` ab or ba, `words` word or line, `side`, `part`. */
export function fieldsElement(detail, how) {
  const parts = [
    ["input", "Input", detail.fields.filter((field) => field.asks)],
    ["answer", "Answer", detail.fields.filter((field) => !field.asks)],
  ];
  return element("div", { class: "fields" }, ...parts.flatMap(([name, title, fields]) => {
    if (!fields.length || (how.part !== "" && how.part !== name)) return [];
    return [element("section", { class: name, tabindex: -1, "aria-label": title }, ...fields.flatMap((field) => fieldElements(field, how)))];
  }));
}

function fieldElements(field, how) {
  const made = [element("h3", {}, field.field)];
  if (field.by_digest) made.push(element("p", {}, "differs; the content was not kept"));
  for (const place of field.places) {
    if (place.path) made.push(element("p", { class: "path" }, place.path));
    if (place.left_out) made.push(leftOut(place.left_out));
    else {
      const parts = how.words === "line" ? byLines(place.parts) : place.parts;
      made.push(how.view === "unified" && how.side === "" ? unifiedElement(parts) : splitElement(place, parts, how));
    }
    if (place.note) made.push(element("p", { class: "quiet" }, place.note));
  }
  if (!field.complete) made.push(element("p", { class: "quiet" }, "and more places than were looked for"));
  return made;
}

function splitElement(place, parts, how) {
  const side = (letter, sign, there) =>
    element("div", { class: `side ${letter}` },
      element("span", { class: "letter" }, letter.toUpperCase()),
      there ? element("pre", {}, ...parts.filter(([op]) => op === "=" || op === sign).map(partElement)) : element("span", { class: "quiet" }, "(nothing)"));
  const sides = { a: side("a", "-", place.missing !== "a"), b: side("b", "+", place.missing !== "b") };
  if (how.side !== "") return element("div", {}, sides[how.side]);
  return element("div", { class: "split" }, ...(how.order === "ba" ? [sides.b, sides.a] : [sides.a, sides.b]));
}

function unifiedElement(parts) {
  return element("pre", { class: "unified" }, ...parts.map(partElement));
}

function partElement([op, text]) {
  if (op === "-") return element("del", {}, text);
  return op === "+" ? element("ins", {}, text) : text;
}

/** Return a difference of words as one of lines: a line that holds any changed word has changed as a whole. Pure. */
export function byLines(parts) {
  const made = [];
  let before = "";
  let after = "";
  let changed = false;
  const flush = () => {
    if (!changed && before) made.push(["=", before]);
    if (changed && before) made.push(["-", before]);
    if (changed && after) made.push(["+", after]);
    [before, after, changed] = ["", "", false];
  };
  for (const [op, text] of parts) {
    if (op !== "=") {
      changed = true;
      if (op === "-") before += text;
      else after += text;
      continue;
    }
    for (const piece of text.split(/(?<=\n)/)) {
      before += piece;
      after += piece;
      if (piece.endsWith("\n")) flush();
    }
  }
  flush();
  return made;
}

function leftOut(sides) {
  const told = Object.entries(sides).map(([side, one]) => `${side.toUpperCase()}: ${one.size} bytes, sha256 ${one.sha256}`);
  return element("p", { class: "quiet" }, `left out of this file for its size. ${told.join("; ")}`);
}
