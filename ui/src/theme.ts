// Light, dark, or as the system says.
export type Theme = "auto" | "light" | "dark";

const SAVED = "tasuki.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function theme(): Theme {
  const saved = localStorage.getItem(SAVED);
  return saved === "light" || saved === "dark" ? saved : "auto";
}

export function isDark(): boolean {
  return theme() === "dark" || (theme() === "auto" && dark.matches);
}

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
}

export function toggleTheme(): void {
  localStorage.setItem(SAVED, isDark() ? "light" : "dark");
  applyTheme();
}

dark.addEventListener("change", applyTheme);
