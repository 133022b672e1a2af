// Shows one row's difference. The differences themselves were made in Python: here they are only laid out.
import { element } from "./dom.js";

/** Return the fields of a difference, side by side or in one column. */
export function fieldsElement(detail, unified) {
  return element("div", { class: "fields" }, ...detail.fields.flatMap((field) => fieldElements(field, unified)));
}

function fieldElements(field, unified) {
  const made = [element("h3", {}, field.field)];
  if (field.by_digest) made.push(element("p", {}, "differs; the content was not kept"));
  for (const place of field.places) {
    if (place.path) made.push(element("p", { class: "path" }, place.path));
    if (place.left_out) made.push(leftOut(place.left_out));
    else made.push(unified ? unifiedElement(place.parts) : splitElement(place));
    if (place.note) made.push(element("p", { class: "quiet" }, place.note));
  }
  if (!field.complete) made.push(element("p", { class: "quiet" }, "and more places than were looked for"));
  return made;
}

function splitElement(place) {
  const side = (letter, sign, there) =>
    element("div", { class: `side ${letter}` },
      element("span", { class: "letter" }, letter.toUpperCase()),
      there ? element("pre", {}, ...place.parts.filter(([op]) => op === "=" || op === sign).map(partElement)) : element("span", { class: "quiet" }, "(nothing)"));
  return element("div", { class: "split" }, side("a", "-", place.missing !== "a"), side("b", "+", place.missing !== "b"));
}

function unifiedElement(parts) {
  return element("pre", { class: "unified" }, ...parts.map(partElement));
}

function partElement([op, text]) {
  if (op === "-") return element("del", {}, text);
  return op === "+" ? element("ins", {}, text) : text;
}

function leftOut(sides) {
  const told = Object.entries(sides).map(([side, one]) => `${side.toUpperCase()}: ${one.size} bytes, sha256 ${one.sha256}`);
  return element("p", { class: "quiet" }, `left out of this file for its size. ${told.join("; ")}`);
}
