// The share of a processor and the memory that a process uses, as the stream says it every 2 s.
import type { Process } from "./api/types";
import { useWorld } from "./store";
import { bytes } from "./time";

export function useUsage(process: Process): { cpu: string; memory: string } {
  const sample = useWorld((w) => w.usage[process.id]);
  if (process.state_name !== "Running") return { cpu: "", memory: "" };
  const memory = sample?.rss_bytes ?? process.usage?.rss_bytes;
  return { cpu: sample?.cpu_percent == null ? "" : `${sample.cpu_percent.toFixed(1)} %`, memory: memory === undefined ? "" : bytes(memory) };
}
