// The address: `#/processes/web`, `#/runs/RUN-…/task`.
import { useEffect, useState } from "preact/hooks";

export const pages = ["", "processes", "requests", "runs", "locks", "events", "doctor", "workers"] as const;
export type PageName = (typeof pages)[number];

export interface Route {
  page: PageName | "unknown";
  parts: string[]; // what follows, decoded
}

export function parseRoute(hash: string): Route {
  const words = hash.replace(/^#\/?/, "").split("/");
  const [page = "", ...parts] = words;
  const known = (pages as readonly string[]).includes(page);
  return { page: known ? (page as PageName) : "unknown", parts: parts.filter((part) => part !== "").map(decode) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function href(page: PageName, ...parts: string[]): string {
  return `#/${[page, ...parts.map(encodeURIComponent)].join("/")}`;
}

export function go(page: PageName, ...parts: string[]): void {
  location.hash = href(page, ...parts);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const look = (): void => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", look);
    look(); // the address may have changed since the first drawing
    return () => removeEventListener("hashchange", look);
  }, []);
  return route;
}
