// Shapes of states and pictures of buttons, 16 by 16. A shape means one state only.
import type { JSX } from "preact";

type Shapes = Record<string, () => JSX.Element>;

const glyphs = {
  ring: () => <><circle cx="8" cy="8" r="5" /></>,
  half: () => <><circle cx="8" cy="8" r="5" /><path d="M8 3a5 5 0 0 1 0 10z" fill="currentColor" stroke="none" /></>,
  disc: () => <><circle cx="8" cy="8" r="4.5" fill="currentColor" stroke="none" /></>,
  triangle: () => <><path d="M8 2.3L14.2 13H1.8z" fill="currentColor" stroke-width="1.2" /><path d="M8 6.3v3" stroke="var(--bg)" /><circle cx="8" cy="11.2" r=".4" stroke="var(--bg)" /></>,
  again: () => <><path d="M13 8a5 5 0 1 1-1.6-3.7" /><path d="M13.2 2.2v2.6h-2.6" /></>,
  cross: () => <><rect x="2" y="2" width="12" height="12" rx="3.5" fill="currentColor" stroke="none" /><path d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4" stroke="var(--bg)" /></>,
  square: () => <><rect x="4.5" y="4.5" width="7" height="7" rx="1.5" fill="currentColor" stroke="none" /></>,
  lost: () => <><circle cx="8" cy="8" r="5.5" stroke-dasharray="2.2 2.2" /><path d="M6.6 6.7a1.5 1.5 0 1 1 2.1 1.4c-.5.2-.7.5-.7.9" /><circle cx="8" cy="10.9" r=".3" /></>,
  arc: () => <><circle cx="8" cy="8" r="5.5" opacity=".3" /><path class="arc" d="M8 2.5A5.5 5.5 0 0 1 13.5 8" /><circle cx="8" cy="8" r="2" fill="currentColor" stroke="none" /></>,
  check: () => <><path d="M3.5 8.4l3 3 6-6.6" /></>,
  bubble: () => <><path d="M3.5 2h9A1.5 1.5 0 0 1 14 3.5v7a1.5 1.5 0 0 1-1.5 1.5H8.6L5.5 14.6V12h-2A1.5 1.5 0 0 1 2 10.5v-7A1.5 1.5 0 0 1 3.5 2z" fill="currentColor" stroke="none" /><path d="M6.4 5.6a1.65 1.65 0 1 1 2.3 1.5c-.5.22-.7.5-.7 1" stroke="var(--bg)" stroke-width="1.3" /><circle cx="8" cy="9.8" r=".5" fill="var(--bg)" stroke="var(--bg)" stroke-width=".6" /></>,
  chevrons: () => <><path d="M4 4.5L7.5 8 4 11.5M8.5 4.5L12 8l-3.5 3.5" /></>,
  dashed: () => <><circle cx="8" cy="8" r="5" stroke-dasharray="2.2 2.2" /></>,
  pencil: () => <><path d="M3 13l.7-2.9L10.5 3.3l2.2 2.2L5.9 12.3z" /></>,
  bolt: () => <><path d="M8.8 1.8L4 9h3.5l-.5 5.2L12 7H8.4z" fill="currentColor" stroke-width="1" /></>,
  slashed: () => <><circle cx="8" cy="8" r="5.2" /><path d="M4.5 11.5l7-7" /></>,
  box: () => <><path d="M2.5 3h11v3h-11zM3.5 6v7h9V6M6.5 8.5h3" /></>,
  lock: () => <><rect x="3" y="7" width="10" height="7" rx="1.8" fill="currentColor" stroke="none" /><path d="M5.2 7V5a2.8 2.8 0 0 1 5.6 0v2" /></>,
  broken: () => <><rect x="3" y="7" width="10" height="7" rx="1.8" /><path d="M5.2 7V5a2.8 2.8 0 0 1 5.4-1" /><path d="M6.7 9.2l2.6 2.6M9.3 9.2l-2.6 2.6" stroke-width="1.2" /></>,
  key: () => <><circle cx="5.5" cy="10.5" r="3" /><path d="M7.7 8.3L13 3M11 5l1.8 1.8" /></>,
} satisfies Shapes;

const icons = {
  overview: () => <><rect x="2.5" y="2.5" width="4.5" height="6" rx="1" /><rect x="9" y="2.5" width="4.5" height="3.5" rx="1" /><rect x="2.5" y="10.5" width="4.5" height="3" rx="1" /><rect x="9" y="8" width="4.5" height="5.5" rx="1" /></>,
  processes: () => <><rect x="2.5" y="3" width="11" height="4" rx="1" /><rect x="2.5" y="9" width="11" height="4" rx="1" /><path d="M5 5h.01M5 11h.01" /></>,
  requests: () => <><path d="M6 4h7.5M6 8h7.5M6 12h7.5M2.8 4h.01M2.8 8h.01M2.8 12h.01" /></>,
  runs: () => <><circle cx="4" cy="8" r="1.6" /><circle cx="12" cy="3.8" r="1.6" /><circle cx="12" cy="12.2" r="1.6" /><path d="M5.6 8H7c1.5 0 1.5-4.2 3.4-4.2M7 8c1.5 0 1.5 4.2 3.4 4.2" /></>,
  locks: () => <><rect x="3" y="7" width="10" height="6.5" rx="1.5" /><path d="M5.2 7V5a2.8 2.8 0 0 1 5.6 0v2" /></>,
  events: () => <><path d="M1.8 8h3l2-4.5 2.8 9 2-4.5h2.6" /></>,
  doctor: () => <><path d="M8 13.3S2.3 10 2.3 6.1A3 3 0 0 1 8 4.8a3 3 0 0 1 5.7 1.3C13.7 10 8 13.3 8 13.3z" /><path d="M8 6.5v3.4M6.3 8.2h3.4" /></>,
  workers: () => <><rect x="2.5" y="2.5" width="4.5" height="4.5" rx="1" /><rect x="9" y="9" width="4.5" height="4.5" rx="1" /><path d="M7 4.700h3a1.500 1.500 0 0 1 1.500 1.500V9" /></>,
  globe: () => <><circle cx="8" cy="8" r="5.5" /><path d="M2.5 8h11M8 2.5c2 1.8 2 9.2 0 11M8 2.5c-2 1.8-2 9.2 0 11" /></>,
  find: () => <><circle cx="7" cy="7" r="4.3" /><path d="M10.3 10.3L13.5 13.5" /></>,
  plus: () => <><path d="M8 3v10M3 8h10" /></>,
  menu: () => <><path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" /></>,
  stop: () => <><rect x="4" y="4" width="8" height="8" rx="1.5" /></>,
  play: () => <><path d="M5 3.2l7.5 4.8L5 12.8z" /></>,
  copy: () => <><rect x="5.5" y="5.5" width="8" height="8" rx="1.5" /><path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2" /></>,
  down: () => <><path d="M8 2.5v7.5M4.8 7L8 10.2 11.2 7M3 13.5h10" /></>,
  right: () => <><path d="M6 3.5L10.5 8 6 12.5" /></>,
  open: () => <><path d="M3.5 6L8 10.5 12.5 6" /></>,
  up: () => <><path d="M3.5 10L8 5.500 12.5 10" /></>,
  filter: () => <><path d="M2.5 4h11M4.5 8h7M6.5 12h3" /></>,
  more: () => <><path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2.2" /></>,
  clock: () => <><circle cx="8" cy="8" r="5.5" /><path d="M8 5v3.2l2.2 1.3" /></>,
  save: () => <><path d="M8 2.5v7M5 6.8L8 9.8l3-3M3 13h10" /></>,
  enter: () => <><path d="M13 4v4.5H4M6.5 6L4 8.5 6.5 11" /></>,
  wrap: () => <><path d="M2.5 4h11M2.5 8h9a2 2 0 0 1 0 4H8M9.5 10.5L8 12l1.5 1.5M2.5 12h3" /></>,
  moon: () => <><path d="M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z" /></>,
} satisfies Shapes;

const more = {
  sun: () => <><circle cx="8" cy="8" r="3" /><path d="M8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1" /></>,
  inbox: () => <><path d="M2.5 9l2-5.5h7l2 5.5v4h-11z" /><path d="M2.5 9h3.2l.8 1.6h3l.8-1.6h3.2" /></>,
  edit: () => <path d="M3 13l.7-2.9L10.5 3.3l2.2 2.2L5.9 12.3z" />,
  close: () => <path d="M4 4l8 8M12 4l-8 8" />,
  restart: () => <><path d="M13 8a5 5 0 1 1-1.6-3.7" /><path d="M13.2 2.2v2.6h-2.6" /></>,
  people: () => <><circle cx="6" cy="5.5" r="2.5" /><path d="M1.5 13.5c0-2.6 2-4 4.5-4s4.5 1.4 4.5 4M10.5 3.4a2.5 2.5 0 0 1 0 4.4M12 9.9c1.6.5 2.5 1.7 2.5 3.6" /></>,
  bell: () => <><path d="M4 11V7.5a4 4 0 0 1 8 0V11l1 1.5H3z" /><path d="M6.7 14h2.6" /></>,
  out: () => <><path d="M9 3h4v4M13 3L7.5 8.500" /><path d="M11.500 9.500V13h-8.500V4.500H6.500" /></>,
} satisfies Shapes;

export type GlyphName = keyof typeof glyphs;
export type IconName = keyof typeof icons | keyof typeof more;
export type Tone = "" | "run" | "ok" | "ask" | "warn" | "bad" | "dim" | "mid";

export function Glyph({ name, tone = "", label }: { name: GlyphName; tone?: Tone; label?: string }): JSX.Element {
  const turns = name === "arc" ? " turns" : "";
  return (
    <svg class={`g ${tone}${turns}`} viewBox="0 0 16 16" {...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" })}>
      {glyphs[name]()}
    </svg>
  );
}

export function Icon({ name }: { name: IconName }): JSX.Element {
  const draw = name in icons ? icons[name as keyof typeof icons] : more[name as keyof typeof more];
  return (
    <svg class="i" viewBox="0 0 16 16" aria-hidden="true">
      {draw()}
    </svg>
  );
}

/** The shape alone, for pictures that have their own <svg>. */
export function glyphShape(name: GlyphName): JSX.Element {
  return glyphs[name]();
}
