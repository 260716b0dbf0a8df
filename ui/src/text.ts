// Words in three languages. texts.json has them; a browser loads the one it needs.
import type all from "../texts.json";
import { useEffect, useState } from "preact/hooks";

export type TextKey = keyof typeof all;
export type Language = "en" | "ja" | "zh";
export const languages: Record<Language, string> = { en: "English", ja: "日本語", zh: "中文" };

type Words = Record<TextKey, string>;
const loaders: Record<Language, () => Promise<{ default: Record<string, string> }>> = {
  en: () => import("texts:en"),
  ja: () => import("texts:ja"),
  zh: () => import("texts:zh"),
};

const SAVED = "tasuki.language";
let now: Language = "en";
let words: Words | null = null;
const listeners = new Set<() => void>();

function isLanguage(text: string | null): text is Language {
  return text === "en" || text === "ja" || text === "zh";
}

export function language(): Language {
  return now;
}

export async function chooseLanguage(to: Language): Promise<void> {
  const loaded = await loaders[to]();
  now = to;
  words = loaded.default as Words;
  document.documentElement.lang = to === "zh" ? "zh-Hans" : to;
  localStorage.setItem(SAVED, to);
  for (const tell of listeners) tell();
}

export function firstLanguage(): Language {
  const saved = localStorage.getItem(SAVED);
  if (isLanguage(saved)) return saved;
  const asked = navigator.languages.map((one) => one.slice(0, 2).toLowerCase()).find(isLanguage);
  return asked ?? "en";
}

/** Renders again when the language changes. */
export function useLanguage(): Language {
  const [, again] = useState(0);
  useEffect(() => {
    const tell = (): void => again((n) => n + 1);
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
  return now;
}

export type Values = Record<string, string | number>;

const TURNS = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const LEFTWARD = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** A text from outside as a part of a longer one: it turns nothing beside it. */
export function calm(text: string): string {
  const rest = text.replace(TURNS, "");
  return LEFTWARD.test(rest) ? `\u2068${rest}\u2069` : rest;
}

const digits = new Intl.NumberFormat("en-US");

/** `1,204`: the same in the three languages. */
export const grouped = (n: number): string => digits.format(n);

const valueOf = (value: string | number | undefined): string => (typeof value === "number" ? grouped(value) : calm(String(value)));

/** `{s}` and `{es}` are the ending of more than one, of what `{total}` or `{n}` counts. */
export function fill(text: string, values: Values): string {
  const ending = (of: string): string => (String(values["total"] ?? values["n"]) === "1" ? "" : of);
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? valueOf(values[name]) : name === "s" || name === "es" ? ending(name) : whole));
}

export function t(key: TextKey, values?: Values): string {
  const text = words?.[key] ?? key;
  return values ? fill(text, values) : text;
}

/** Whether there is a text for a word from the server. */
export function hasText(key: string): boolean {
  return words !== null && key in words;
}

/** A text of two parts, "title|sentence". */
export function titled(key: TextKey, values?: Values): [string, string] {
  const [title = "", sentence = ""] = t(key).split("|");
  return [fill(title, values ?? {}), fill(sentence, values ?? {})];
}

/** The first letter is a capital, where there are capitals. */
export function capital(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}

/** "one" or "many" of a text that counts. */
export function count(base: "overview.asks" | "overview.waits" | "overview.broke" | "run.questions", n: number): string {
  return n === 1 ? t(`${base}.one`) : t(`${base}.many`, { n });
}
