// Terminal output as pieces with a class. Colours are those of the page (SGR), others are made readable; all other escapes are dropped,
// a carriage return overwrites, control characters are shown as pictures. Nothing here makes markup.
import { showControls } from "./plain";

export interface Piece {
  text: string;
  class: string;
  colour?: [number, number, number];
}

interface Style {
  fg: string;
  rgb: [number, number, number] | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  under: boolean;
}

const PLAIN: Style = { fg: "", rgb: null, bold: false, dim: false, italic: false, under: false };
const names = ["a-dim", "a-bad", "a-ok", "a-warn", "a-run", "a-ask", "a-cyan", ""];

function cube(n: number): [number, number, number] {
  if (n >= 232) {
    const v = 8 + (n - 232) * 10;
    return [v, v, v];
  }
  const at = n - 16;
  const level = (i: number): number => (i === 0 ? 0 : 55 + i * 40);
  return [level(Math.floor(at / 36)), level(Math.floor(at / 6) % 6), level(at % 6)];
}

function extended(codes: number[], at: number, style: Style): number {
  if (codes[at + 1] === 5) {
    const n = codes[at + 2] ?? 0;
    if (codes[at] === 38) {
      if (n < 16) Object.assign(style, { fg: names[n % 8] ?? "", rgb: null });
      else Object.assign(style, { fg: "", rgb: cube(n) });
    }
    return at + 2;
  }
  if (codes[at + 1] === 2) {
    if (codes[at] === 38) Object.assign(style, { fg: "", rgb: [codes[at + 2] ?? 0, codes[at + 3] ?? 0, codes[at + 4] ?? 0] });
    return at + 4;
  }
  return at;
}

function sgr(params: string, style: Style): Style {
  const codes = params === "" ? [0] : params.split(/[;:]/).map(Number);
  let next = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 0) next = { ...PLAIN };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.under = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.under = false;
    else if (code >= 30 && code <= 37) Object.assign(next, { fg: names[code - 30] ?? "", rgb: null });
    else if (code >= 90 && code <= 97) Object.assign(next, { fg: names[code - 90] ?? "", rgb: null });
    else if (code === 39) Object.assign(next, { fg: "", rgb: null });
    else if (code === 38 || code === 48) i = extended(codes, i, next);
  }
  return next;
}

function classOf(style: Style): string {
  return [style.fg, style.bold ? "a-b" : "", style.dim ? "a-dim" : "", style.italic ? "a-i" : "", style.under ? "a-u" : ""].filter(Boolean).join(" ");
}

// eslint-disable-next-line no-control-regex
const ESCAPE = /\u001b(?:\[([0-?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])|\u001b/g;

export function parseLine(text: string): Piece[] {
  const pieces: Piece[] = [];
  let style = PLAIN;
  let at = 0;
  const put = (part: string): void => {
    const back = part.lastIndexOf("\r");
    if (back >= 0) pieces.length = 0;
    const shown = showControls(part.slice(back + 1));
    if (shown) pieces.push({ text: shown, class: classOf(style), ...(style.rgb ? { colour: style.rgb } : {}) });
  };
  const whole = text.replace(/\r+$/, "");
  for (const found of whole.matchAll(ESCAPE)) {
    put(whole.slice(at, found.index));
    at = (found.index ?? 0) + found[0].length;
    if (found[2] === "m") style = sgr(found[1] ?? "", style);
  }
  put(whole.slice(at));
  return pieces;
}

export function textOf(pieces: Piece[]): string {
  return pieces.map((one) => one.text).join("");
}

// ---- colours that can be read: at least 4.5 to 1 ----

function luminance([r, g, b]: [number, number, number]): number {
  const channel = (v: number): number => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
}

export function readable(colour: [number, number, number], dark: boolean): string {
  const ground = luminance(dark ? [13, 14, 15] : [247, 247, 245]);
  const aim = dark ? 255 : 0;
  let made = colour;
  for (let step = 0; step < 20; step++) {
    const own = luminance(made);
    const ratio = (Math.max(own, ground) + 0.05) / (Math.min(own, ground) + 0.05);
    if (ratio >= 4.5) break;
    made = made.map((v) => Math.round(v + (aim - v) * 0.15)) as [number, number, number];
  }
  return `rgb(${made.join(" ")})`;
}
