// Output without its escapes: for one line beside a name.

// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

export function plain(text: string): string {
  const last = text.replace(ESCAPES, "").split("\r").filter((part) => part !== "").pop() ?? "";
  return showControls(last);
}

/** Control characters as pictures (␀), so that they can be seen and do nothing. */
export function showControls(text: string): string {
  return text.replace(CONTROLS, (one) => (one === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + one.charCodeAt(0))));
}

export { ESCAPES };
