// The newest line that something printed to stderr, read when it has failed.
import { useEffect, useState } from "preact/hooks";
import { call } from "./api/http";
import type { Process, Run, RunDetail } from "./api/types";
import { plain } from "./log/plain";

const known = new Map<string, string>();

function useLine(key: string | null, read: () => Promise<string>): string {
  const [line, setLine] = useState(key ? (known.get(key) ?? "") : "");
  useEffect(() => {
    if (!key) {
      setLine("");
      return;
    }
    const found = known.get(key);
    if (found !== undefined) {
      setLine(found);
      return;
    }
    let isMine = true;
    read().then(
      (text) => {
        if (known.size > 500) known.clear();
        known.set(key, text);
        if (isMine) setLine(text);
      },
      () => undefined,
    );
    return () => void (isMine = false);
  }, [key]);
  return line;
}

export function useLastError(process: Process | undefined): string {
  const given = process?.last_stderr;
  const failed = process && process.state_name === "Failed" ? `${process.id} ${process.run ?? 0} ${process.phase}` : null;
  const read = useLine(given === undefined ? failed : null, async () => {
    const path = `/api/processes/${encodeURIComponent(process?.id ?? "")}/logs?stream=stderr&lines=1`;
    const answer = await call<{ lines: { text: string }[] }>("GET", path);
    return plain(answer.lines.pop()?.text ?? "").slice(0, 500);
  });
  return given ?? read;
}

/** Where a run failed, and the last line that the task printed. */
export function useRunError(run: Pick<Run, "run_id" | "status" | "ended_at"> | null): { task: string | null; line: string } {
  const key = run?.status === "FAILED" ? `${run.run_id} ${run.ended_at ?? ""}` : null;
  const found = useLine(key, async () => {
    const detail = await call<RunDetail>("GET", `/api/runs/${run?.run_id}`);
    const task = detail.failures?.[0]?.task;
    if (!task) return "";
    const answer = await call<{ logs: { text: string }[] }>("GET", `/api/runs/${run?.run_id}/logs?task=${encodeURIComponent(task)}&lines=1`);
    const text = answer.logs.pop()?.text ?? "";
    return `${task}\n${plain(text.trimEnd().split("\n").pop() ?? "").slice(0, 500)}`;
  });
  const [task = "", line = ""] = found.split("\n");
  return { task: task || null, line };
}
