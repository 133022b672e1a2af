// The whole state of a report as the text after `#`, both ways. Pure.
// Row numbers in `open` and `closed` are of this file; `at` is a locator that other reports of the same run understand.

const DEFAULTS = {
  case: "", // of a cohort: the case whose pair is shown
  at: "", // locator of the selected row, `path~span id`
  view: "split", // or "unified"
  show: "changed", // or "all"
  open: [], // first rows of the equal stretches that are unfolded
  closed: [], // rows whose inside is hidden
  q: "", // regular expression over `kind:name`
  mark: "", // marks that are shown, "" for all
  kind: "", // kind that is shown, "" for all
  only: "", // or "unexplained", "after" (the departure), "marked"
  over: "", // milliseconds: rows whose time differs by more
  side: "", // or "a", "b": the side whose values are shown alone
  order: "ab", // or "ba": which side stands first
  words: "word", // or "line": what is marked inside of texts
  part: "", // or "input", "answer": which values are shown
  pair: [], // steps that belong together by hand, `12:14`: A's and B's
  marked: [], // rows that somebody marked
  theme: "system", // or "light", "dark"
  keys: "on", // or "off": single-key shortcuts
};
const CHOICES = {
  view: ["split", "unified"],
  show: ["changed", "all"],
  only: ["", "unexplained", "after", "marked"],
  side: ["", "a", "b"],
  order: ["ab", "ba"],
  words: ["word", "line"],
  part: ["", "input", "answer"],
  theme: ["system", "light", "dark"],
  keys: ["on", "off"],
};

/** Read the text after `#`. What is unknown or malformed is left out, never an error: links are old and hand-written. */
export function parseState(hash) {
  const state = { ...DEFAULTS, open: [], closed: [], pair: [], marked: [] };
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(name in DEFAULTS)) continue;
    if (name === "pair") state.pair = value.split(",").filter((part) => /^\d+:\d+$/.test(part));
    else if (name === "over") state.over = /^\d+(\.\d+)?$/.test(value) ? value : "";
    else if (Array.isArray(DEFAULTS[name])) state[name] = value.split(",").filter((part) => /^\d+$/.test(part)).map(Number);
    else if (!(name in CHOICES) || CHOICES[name].includes(value)) state[name] = value;
  }
  return state;
}

/** Write the text after `#`: only what is not the default, always in the same order. */
export function formatState(state) {
  const parts = [];
  for (const name of Object.keys(DEFAULTS)) {
    const value = name === "pair" ? state.pair.join(",") : Array.isArray(state[name]) ? [...state[name]].sort((a, b) => a - b).join(",") : state[name];
    if (value !== "" && value !== DEFAULTS[name]) parts.push(`${name}=${encodeURIComponent(value).replace(/%2C/g, ",").replace(/%3A/g, ":")}`);
  }
  return parts.join("&");
}
