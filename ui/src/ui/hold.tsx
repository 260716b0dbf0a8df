// Nothing moves under the pointer: while it is over a list, and for a second after, rows stay where they are. What they say goes on.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../text";

const AFTER_MS = 1000;

export interface Group<T> {
  title: string;
  list: T[];
}

export interface Hold<T> {
  groups: Group<T>[]; // as they were when the pointer came; rows that are gone are left out
  isHeld: boolean;
  waiting: number; // new rows
  release: () => void;
  pointer: { onMouseMove: () => void; onMouseLeave: () => void };
}

/** `key`: what a person chose (filter, words, row); another choice shows its rows at once. */
export function useHold<T>(groups: Group<T>[], idOf: (one: T) => string, key: string): Hold<T> {
  const [held, setHeld] = useState<{ key: string; groups: Group<string>[] } | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  useEffect(() => () => clearTimeout(timer.current), []);
  const isHeld = held !== null && held.key === key;
  const known = new Map(groups.flatMap((group) => group.list.map((one): [string, T] => [idOf(one), one])));
  const shown = isHeld ? held.groups.map(({ title, list }) => ({ title, list: list.flatMap((id) => known.get(id) ?? []) })) : groups;
  const onMouseMove = (): void => {
    clearTimeout(timer.current);
    if (!isHeld) setHeld({ key, groups: groups.map(({ title, list }) => ({ title, list: list.map(idOf) })) });
  };
  const onMouseLeave = (): void => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setHeld(null), AFTER_MS);
  };
  return { groups: shown, isHeld, waiting: known.size - shown.reduce((n, one) => n + one.list.length, 0), release: () => setHeld(null), pointer: { onMouseMove, onMouseLeave } };
}

/** Something that makes its row higher: while the list is held, it neither comes nor goes. */
export function useStill(text: string, isHeld: boolean): string {
  const last = useRef(text);
  if (!isHeld) last.current = text;
  return last.current === "" ? "" : text || last.current;
}

export function NewRows({ hold }: { hold: { waiting: number; release: () => void } }): JSX.Element | null {
  if (hold.waiting <= 0) return null;
  return (
    <div class="new-rows-place">
      <button type="button" class="btn new-rows" onClick={hold.release}>
        {t("list.new", { n: hold.waiting })}
      </button>
    </div>
  );
}
