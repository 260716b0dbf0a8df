import { existsSync } from "node:fs";

/** SIGKILL for the group of a process that was started as its leader. The kernel gives a number to no other process while a group has
 *  it; so a process that has the number of one that has ended is a stranger. */
export function endGroup(child) {
  const hasEnded = child.exitCode !== null || child.signalCode !== null;
  if (hasEnded && existsSync(`/proc/${child.pid}`)) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // nobody is left
  }
}
