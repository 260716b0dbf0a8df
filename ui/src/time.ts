// Times and durations as the page shows them. "Now" is the server's clock; it stands still while the page is not live.
import { language, t } from "./text";

let base = Date.now() - performance.now();
let frozenAt: number | null = null;

/** The server said what time it is. Times with whole seconds move the clock only when they differ by more than that. */
export function setServerTime(text: string): void {
  const said = Date.parse(text);
  if (Number.isNaN(said)) return;
  const exact = /\.\d{3}/.test(text);
  const off = said - (base + performance.now());
  if (exact ? Math.abs(off) > 50 : off > 1000 || off < -1500) base += off;
}

export function freezeClock(isFrozen: boolean): void {
  frozenAt = isFrozen ? (frozenAt ?? base + performance.now()) : null;
}

export function now(): number {
  return frozenAt ?? base + performance.now();
}

let countedAt = 0;

/** What the server has counted (`…_in_ms`, `age_ms`) was true then. */
export function setCountedAt(time: number): void {
  countedAt = time;
}

/** What is left of a lock's time. It is counted on from what the server said, and stands still while the page is not live. */
export function leftOf(lock: { expires_in_ms?: number | null }): number | null {
  return typeof lock.expires_in_ms === "number" ? Math.max(0, lock.expires_in_ms - Math.max(0, now() - countedAt)) : null;
}

/** How long it is held. */
export function ageOf(lock: { age_ms?: number | null }): number | null {
  return typeof lock.age_ms === "number" ? lock.age_ms + Math.max(0, now() - countedAt) : null;
}

type Unit = "d" | "h" | "min" | "s";
const units: Record<string, Record<Unit, string>> = {
  en: { d: " d", h: " h", min: " min", s: " s" },
  ja: { d: "日", h: "時間", min: "分", s: "秒" },
  zh: { d: " 天", h: " 小时", min: " 分钟", s: " 秒" },
};

function put(n: number | string, unit: Unit): string {
  return `${n}${units[language()]?.[unit] ?? unit}`;
}

function join(...parts: string[]): string {
  return parts.join(language() === "ja" ? "" : " ");
}

/** One unit: `9 s`, `14 min`, `3 h`, `2 d`. */
export function span(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return put(s, "s");
  if (s < 3600) return put(Math.floor(s / 60), "min");
  if (s < 48 * 3600) return put(Math.floor(s / 3600), "h");
  return put(Math.floor(s / 86400), "d");
}

/** How long something took or takes: `8.4 s`, `2 min 38 s`, `3 h 12 min`, `2 d 4 h`. `tenths` for what has ended. */
export function duration(ms: number, tenths = false): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return put(tenths && s < 59.95 ? s.toFixed(1) : Math.floor(s), "s");
  const whole = Math.floor(s);
  const two = (n: number): string => String(n).padStart(2, "0");
  if (whole < 3600) return join(put(Math.floor(whole / 60), "min"), put(two(whole % 60), "s"));
  if (whole < 86400) return join(put(Math.floor(whole / 3600), "h"), put(Math.floor((whole % 3600) / 60), "min"));
  return join(put(Math.floor(whole / 86400), "d"), put(Math.floor((whole % 86400) / 3600), "h"));
}

/** How long a run took, without its pauses; of one that goes on, how long it has been there. */
export function tookOf(run: { started_at: string; ended_at: string | null; duration_ms?: number }, isOpen = false): string {
  if (isOpen || !run.ended_at) return duration(now() - Date.parse(run.started_at));
  return duration(run.duration_ms ?? Date.parse(run.ended_at) - Date.parse(run.started_at), run.duration_ms !== undefined);
}

/** How long something runs already, where it changes in a list: `9 s`, `48 min`, `3 h 12 min`, `2 d 4 h`. */
export function uptime(ms: number): string {
  return ms < 3600_000 ? span(ms) : duration(ms);
}

/** What is left: `29:12`. */
export function left(ms: number): string {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const two = (n: number): string => String(n).padStart(2, "0");
  if (s >= 86400) return span(ms);
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

function locale(): string {
  return { en: "en-GB", ja: "ja-JP", zh: "zh-CN" }[language()];
}

/** When: `9 s ago`, `2 h ago`, `Sun 10:41`, `3 Nov`. */
export function ago(text: string): string {
  const at = Date.parse(text);
  const ms = now() - at;
  if (ms < 12 * 3600_000) return t("time.ago", { span: span(ms) });
  const format = ms < 6 * 86400_000 ? { weekday: "short", hour: "2-digit", minute: "2-digit" } as const : { day: "numeric", month: "short" } as const;
  return new Intl.DateTimeFormat(locale(), format).format(at).replace(",", "");
}

/** `12:40:54`, with `ms` `12:40:54.195`. */
export function clock(text: string | number, ms = false): string {
  const at = new Date(text);
  const two = (n: number): string => String(n).padStart(2, "0");
  const whole = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return ms ? `${whole}.${String(at.getMilliseconds()).padStart(3, "0")}` : whole;
}

/** `2026-11-16 12:40:54.195 +09:00`, for hover and focus. */
export function exact(text: string | number): string {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return String(text);
  const two = (n: number): string => String(n).padStart(2, "0");
  const offset = -at.getTimezoneOffset();
  const zone = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at.getTime(), true)} ${zone}`;
}

export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  if (n < 1e6) return `${Math.round(n / 1e3)} kB`;
  if (n < 1e9) return `${n < 1e7 ? (n / 1e6).toFixed(1) : Math.round(n / 1e6)} MB`;
  return `${(n / 1e9).toFixed(1)} GB`;
}
