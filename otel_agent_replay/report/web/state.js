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
  only: "", // or "unexplained"
  theme: "system", // or "light", "dark"
  keys: "on", // or "off": single-key shortcuts
};
const CHOICES = {
  view: ["split", "unified"],
  show: ["changed", "all"],
  only: ["", "unexplained"],
  theme: ["system", "light", "dark"],
  keys: ["on", "off"],
};

/** Read the text after `#`. What is unknown or malformed is left out, never an error: links are old and hand-written. */
export function parseState(hash) {
  const state = { ...DEFAULTS, open: [], closed: [] };
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(name in DEFAULTS)) continue;
    if (Array.isArray(DEFAULTS[name])) state[name] = value.split(",").filter((part) => /^\d+$/.test(part)).map(Number);
    else if (!(name in CHOICES) || CHOICES[name].includes(value)) state[name] = value;
  }
  return state;
}

/** Write the text after `#`: only what is not the default, always in the same order. */
export function formatState(state) {
  const parts = [];
  for (const name of Object.keys(DEFAULTS)) {
    const value = Array.isArray(state[name]) ? [...state[name]].sort((a, b) => a - b).join(",") : state[name];
    if (value !== "" && value !== DEFAULTS[name]) parts.push(`${name}=${encodeURIComponent(value).replace(/%2C/g, ",")}`);
  }
  return parts.join("&");
}
