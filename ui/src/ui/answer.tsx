// A question of a task as a card, and how it is answered.
import type { JSX } from "preact";
import { run as act, commandOf, type Action } from "../actions";
import type { Question } from "../api/types";
import type { OpenQuestion } from "../broke";
import { href } from "../route";
import { useCanAct, useTick } from "../store";
import { t } from "../text";
import { ago } from "../time";
import { Glyph, Icon } from "./shapes";

/** The operation that gives an answer. */
export function answerAction(run: OpenQuestion["run"], question: Question, body: Record<string, unknown>, words: string[]): Action {
  return {
    label: t("answer"),
    command: commandOf("answer", run.run_id, ...words, "--task", question.task),
    method: "POST",
    path: `/api/runs/${run.run_id}/answer`,
    body: { ...body, task: question.task },
    done: t("answer.sent", { flow: run.flow }),
  };
}

/** Up to four options are buttons; others have their form. */
function Quick({ open }: { open: OpenQuestion }): JSX.Element {
  const canAct = useCanAct();
  const { run, question } = open;
  const kind = question.question.type;
  const give = (body: Record<string, unknown>, words: string[]): void => void act(answerAction(run, question, body, words));
  if (kind === "approval")
    return (
      <span class="row options">
        <button type="button" class="btn" disabled={!canAct} onClick={() => give({ yes: true }, ["--yes"])}>
          {t("yes")}
        </button>
        <button type="button" class="btn" disabled={!canAct} onClick={() => give({ no: true }, ["--no"])}>
          {t("no")}
        </button>
      </span>
    );
  if (kind === "selection" && question.question.options.length <= 4)
    return (
      <span class="row options">
        {question.question.options.map((option, i) => (
          <button type="button" class="btn" key={option} disabled={!canAct} onClick={() => give({ choose: i + 1 }, ["--choose", String(i + 1)])}>
            <span class="cut">{option}</span>
          </button>
        ))}
      </span>
    );
  return (
    <a class="btn askb" href={href("runs", run.run_id, question.task)}>
      {t("answer")}
    </a>
  );
}

export function QuestionCard({ open }: { open: OpenQuestion }): JSX.Element {
  useTick();
  const { run, question } = open;
  const asked = question.asked_at;
  return (
    <article class="card askc question">
      <Glyph name="bubble" tone="ask" />
      <div class="grow">
        <div class="b q">{question.question.question}</div>
        <div class="mid">
          {run.flow} · {t("task.of", { task: question.task })}
          {asked && ` · ${t("asked", { ago: ago(asked) })}`}
        </div>
      </div>
      <span class="row options-row">
        <Quick open={open} />
        <a class="btn ghost ic" aria-label={t("run.open")} href={href("runs", run.run_id, question.task)}>
          <Icon name="right" />
        </a>
      </span>
    </article>
  );
}
