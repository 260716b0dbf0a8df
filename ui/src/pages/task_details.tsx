import type { ComponentChildren, JSX } from "preact";
import type { RunDetail, Task } from "../api/types";
import { useWorld } from "../store";
import { t } from "../text";
import { clock, duration, exact } from "../time";
import { viewsOf } from "../graph/model";
import { taskState } from "../states";
import type { TaskState } from "../api/types";

/** Session, number of the attempt and exit code of a task. */
export function TaskDetails({ run, task }: { run: RunDetail; task: Task }): JSX.Element {
  const failure = run.failures?.find((one) => one.task === task.task);
  const facts: [string, ComponentChildren][] = [
    [t("task.session"), <span class="mono">{task.session_id ?? ""}</span>],
    [t("task.attempt"), task.attempt ?? 0],
  ];
  if (task.exit_code !== undefined) facts.push([t("task.exit"), task.exit_code]);
  if (task.started_at) facts.push([t("run.started"), <time title={exact(task.started_at)}>{clock(task.started_at)}</time>]);
  if (failure?.reason) facts.push([t("task.reason"), <span class="bad">{failure.reason}</span>]);
  if (failure?.log) facts.push([t("log"), <span class="mono">{failure.log}</span>]);
  return (
    <div class="task-details">
      <dl class="kv">
        {facts.map(([label, value]) => (
          <>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
    </div>
  );
}

/** When each attempt began, how it ended and how long it took. */
export function TaskAttempts({ run, task }: { run: RunDetail; task: Task }): JSX.Element {
  const events = useWorld((w) => w.events);
  const times = viewsOf(run, events).get(task.task)?.times ?? [];
  return (
    <div class="task-details">
      <ol class="attempts">
        {times.map((one, i) => (
          <li key={i}>
            <time class="num" title={exact(one.from)}>{clock(one.from, true)}</time> {taskState(one.outcome === "retry" ? "failed" : (one.outcome as TaskState)).word} {one.to !== null && <span class="dim num">{duration(one.to - one.from, true)}</span>}
          </li>
        ))}
      </ol>
    </div>
  );
}
