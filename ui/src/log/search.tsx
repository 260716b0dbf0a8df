// The search in a log: the server looks through the whole of it and names its hits.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import { useKey } from "../keys";
import { t } from "../text";
import { IconButton, Search } from "../ui/parts";
import type { Line, Place } from "./buffer";
import { isLineOf, type Hit, type LogWindow } from "./feed";

const HITS_MAX = 10_000, PAUSE_MS = 250;

const literal = (words: string): string => words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const hasCapital = (words: string): boolean => /[A-Z]/.test(words.replace(/\\./g, ""));

/** What the words mean: an expression, or if they are none, themselves. Small letters stand for capital ones, too. */
function pattern(words: string): RegExp | null {
  if (words === "") return null;
  const flags = hasCapital(words) ? "g" : "gi";
  try {
    return new RegExp(words, flags);
  } catch {
    return new RegExp(literal(words), flags);
  }
}

/** The same for the server, which takes POSIX extended expressions. */
function posix(words: string): string {
  const plain = words.replace(/\\d/g, "[0-9]");
  if (hasCapital(words)) return plain;
  return plain.replace(/(\\.|\[[^\]]*\])|[a-z]/g, (all, kept: string | undefined) => kept ?? `[${all}${all.toUpperCase()}]`);
}

interface Found {
  hits: Hit[];
  isDone: boolean;
}

async function findAll(log: LogWindow, words: string, signal: AbortSignal, tell: (found: Found) => void): Promise<void> {
  const hits: Hit[] = [];
  let expression = posix(words), at: Place | null = [0, 0];
  while (at !== null && hits.length < HITS_MAX && !signal.aborted) {
    try {
      const found = await log.find(expression, at);
      hits.push(...found.hits);
      at = found.next;
    } catch (problem) {
      if (!(problem instanceof ApiError) || expression === posix(literal(words))) break;
      expression = posix(literal(words));
      continue;
    }
    if (!signal.aborted && at !== null) tell({ hits: hits.slice(), isDone: false });
  }
  if (!signal.aborted) tell({ hits: hits.slice(0, HITS_MAX), isDone: true });
}

export interface LogSearch {
  field: JSX.Element;
  marks: RegExp | null;
  isHit: (line: Line) => boolean;
}

export function useSearch(log: LogWindow, pause: () => void, goTo: (index: number) => void): LogSearch {
  const [words, setWords] = useState("");
  const [found, setFound] = useState<Found>({ hits: [], isDone: true });
  const [at, setAt] = useState(0);
  const marks = useMemo(() => pattern(words), [words]);
  const hits = found.hits;
  const chosen = hits[at];
  const jump = (to: number, among: Hit[] = hits): void => {
    const index = (to + among.length) % Math.max(1, among.length), hit = among[index];
    if (!hit) return;
    setAt(index);
    pause();
    void log.show(hit).then((line) => line >= 0 && goTo(line), () => undefined);
  };
  useEffect(() => {
    setFound({ hits: [], isDone: words === "" });
    setAt(0);
    if (words === "") return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      void findAll(log, words, stop.signal, (all) => {
        setFound(all);
        if (all.isDone) jump(all.hits.length - 1, all.hits);
      });
    }, PAUSE_MS);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [words, log]);
  useKey("n", () => jump(at + 1));
  useKey("N", () => jump(at - 1));
  const isLooking = !found.isDone;
  const count = `${hits.length.toLocaleString()}${isLooking ? "…" : hits.length >= HITS_MAX ? "+" : ""}`;
  const field = (
    <Search
      label={t("log.search")}
      value={words}
      onInput={setWords}
      onKeyDown={(event) => event.key === "Enter" && jump(at + (event.shiftKey ? -1 : 1))}
      extra={
        words ? (
          <>
            <span class="dim num small nowrap" role="status">
              {hits.length > 0 || isLooking ? t("log.hits", { n: hits.length > 0 ? at + 1 : 0, total: count }) : t("log.no_hit")}
            </span>
            <IconButton icon="up" small label={t("log.previous")} disabled={hits.length === 0} onClick={() => jump(at - 1)} />
            <IconButton icon="open" small label={t("log.next")} disabled={hits.length === 0} onClick={() => jump(at + 1)} />
          </>
        ) : undefined
      }
    />
  );
  return {
    field,
    marks,
    isHit: (line) => words !== "" && chosen !== undefined && isLineOf(chosen, line),
  };
}
