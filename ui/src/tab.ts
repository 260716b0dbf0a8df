// Title and icon of the browser's tab say what waits; a notification does so if the user wants it.
import { useEffect, useRef } from "preact/hooks";
import { allBroken, openQuestions } from "./broke";
import { getWorld, useWorld } from "./store";
import { count, t } from "./text";

const WANTED = "tasuki.notify";

export function wantsNotes(): boolean {
  return localStorage.getItem(WANTED) === "yes" && "Notification" in window && Notification.permission === "granted";
}

export async function toggleNotes(): Promise<void> {
  if (wantsNotes()) localStorage.removeItem(WANTED);
  else if ((await Notification.requestPermission()) === "granted") localStorage.setItem(WANTED, "yes");
}

function icon(colour: string): string {
  const dot = colour ? `<circle cx="24" cy="8" r="8" fill="${colour}"/>` : "";
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><clipPath id="c"><rect width="32" height="32" rx="8"/></clipPath><g clip-path="url(#c)"><rect width="32" height="32" fill="#17181a"/><path d="M-4 2L4-5l33 32-8 8z" fill="#fff"/></g>${dot}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

export function useTab(): void {
  const asks = useWorld((w) => openQuestions(w).length + w.confirmations.length);
  const broke = useWorld((w) => allBroken(w).length);
  const live = useWorld((w) => w.live);
  const before = useRef(asks);
  useEffect(() => {
    const sign = live !== "live" ? "⌁ " : asks > 0 ? `(${asks}) ` : broke > 0 ? `✕ ${broke} ` : "";
    document.title = `${sign}${getWorld().root.split("/").pop() ?? ""} · tasuki`;
    const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (link) link.href = icon(asks > 0 ? "#7632bf" : broke > 0 ? "#bc261c" : "");
    if (asks > before.current && document.hidden && wantsNotes()) new Notification("tasuki", { body: count(getWorld().confirmations.length > 0 ? "overview.waits" : "overview.asks", asks), tag: "tasuki" });
    before.current = asks;
  }, [asks, broke, live, t("nav.overview")]);
}
