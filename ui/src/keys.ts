// The keyboard: pages, lists, and what the selected thing can do. Pages add their own keys with `useKey`.
import { openKeys, openPalette } from "./ui/forms";
import { useLayoutEffect, useRef } from "preact/hooks";
import { go, type PageName } from "./route";
import { hasDialog } from "./ui/overlays";

const pageKeys: Record<string, PageName> = { o: "", p: "processes", r: "requests", u: "runs", l: "locks", e: "events", d: "doctor", w: "workers" };
const own = new Map<string, Set<() => void>>();

/** A key of the page that is shown. */
export function useKey(key: string, run: () => void): void {
  const latest = useRef(run);
  latest.current = run;
  useLayoutEffect(() => {
    const call = (): void => latest.current();
    const all = own.get(key) ?? new Set();
    own.set(key, all.add(call));
    return () => void all.delete(call);
  }, [key]);
}

function isTyping(target: EventTarget | null): boolean {
  if (target instanceof HTMLElement && target.matches(".answer [type=radio], .answer [type=checkbox]")) return false; // 1 to 9 choose there
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** j and k: the next and the previous row that can be focused. */
function move(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")];
  const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const current = at >= 0 ? at : rows.findIndex((row) => row.getAttribute("aria-current") === "true");
  const next = rows[Math.max(0, Math.min(rows.length - 1, current + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

/** The search of the thing that is open, else of the list. */
function search(): void {
  const field = document.querySelector<HTMLInputElement>("main .has-detail .detail [data-search]") ?? document.querySelector<HTMLInputElement>("main [data-search]");
  if (field) field.focus();
  else void openPalette();
}

/** The menu of the row that has the focus; without one there, of the thing that is open. A row that is not open yet is opened. */
function openMenu(): void {
  const row = document.activeElement?.closest<HTMLElement>("main [data-row]");
  const own = row && (row.querySelector<HTMLElement>("[data-menu]") ?? row.closest(".item")?.querySelector<HTMLElement>("[data-menu]"));
  const isOther = row?.getAttribute("aria-current") === "false";
  if (own) own.click();
  else if (row && isOther) row.click();
  else (document.querySelector<HTMLElement>("main .detail [data-menu]") ?? document.querySelector<HTMLElement>("main [data-menu]"))?.click();
}

export function useKeys(): void {
  const goes = useRef(0);
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        void openPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || hasDialog() || isTyping(event.target)) return;
      const isGo = performance.now() - goes.current < 1500;
      goes.current = 0;
      const page = isGo ? pageKeys[event.key] : undefined;
      if (page !== undefined) go(page);
      else if (event.key === "g") goes.current = performance.now();
      else if (event.key === "?") void openKeys();
      else if (event.key === "/") search();
      else if (event.key === "j") move(1);
      else if (event.key === "k") move(-1);
      else if (event.key === ".") openMenu();
      else {
        const runs = own.get(event.key);
        if (!runs || runs.size === 0) return;
        for (const run of runs) run();
      }
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
