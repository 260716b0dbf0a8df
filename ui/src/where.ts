// Where a process runs: its directory as people say it, and the address that it answers at.
import type { Probe, Process } from "./api/types";
import { getWorld } from "./store";

/** Below the workspace: from there; elsewhere as it is. */
export function directoryOf(process: Process): string {
  const root = getWorld().root, cwd = process.cwd ?? root;
  if (cwd === root) return ".";
  return root && cwd.startsWith(`${root}/`) ? cwd.slice(root.length + 1) : cwd;
}

function addressOf(probe: Probe | null): string | null {
  const url = probe?.http ?? probe?.url;
  if (typeof url === "string") return /^https?:\/\/[^/?#]+/.exec(url)?.[0] ?? null;
  return typeof probe?.port === "number" ? `http://localhost:${probe.port}` : null;
}

export function urlOf(process: Process): string | null {
  return addressOf(process.ready) ?? addressOf(process.health);
}
