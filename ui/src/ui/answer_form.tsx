// The whole form of a question, on the run's own page; it comes with that page.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { run as act } from "../actions";
import type { OpenQuestion } from "../broke";
import { useKey } from "../keys";
import { parseRoute } from "../route";
import { useCanAct, useTick, useWorld } from "../store";
import { t } from "../text";
import { ago } from "../time";
import { answerAction } from "./answer";
import { Glyph, Icon } from "./shapes";

/** The form that keys are for: that of the task that has the focus, or is chosen, else the first. */
function meantForm(): HTMLElement | undefined {
  const forms = [...document.querySelectorAll<HTMLElement>("form.answer")];
  const focused = document.activeElement;
  const task = focused?.closest<HTMLElement>("[data-task]")?.dataset["task"] ?? parseRoute(location.hash).parts[1];
  return forms.find((one) => one.contains(focused)) ?? forms.find((one) => one.dataset["asks"] === task) ?? forms[0];
}

/** The whole form, on the run's own page. */
export function AnswerForm({ open }: { open: OpenQuestion }): JSX.Element {
  const { run, question } = open;
  const { type, options } = question.question;
  const [chosen, setChosen] = useState<string[]>(type === "selection" && options[0] !== undefined ? [options[0]] : []);
  const [text, setText] = useState("");
  const canAct = useCanAct();
  useTick();
  const send = (body: Record<string, unknown>, words: string[]): void => void act(answerAction(run, question, body, words));
  const submit = (): void => {
    if (type === "text") send({ text }, [text]);
    else if (type === "selection") send({ choose: options.indexOf(chosen[0] ?? "") + 1 }, ["--choose", String(options.indexOf(chosen[0] ?? "") + 1)]);
    else {
      const list = chosen.map((one) => (one.includes(",") ? String(options.indexOf(one) + 1) : one)).join(","); // commas separate: then its number
      send({ text: list }, [list]);
    }
  };
  const isReady = canAct && (type === "text" ? text.trim() !== "" : chosen.length > 0);
  // From the state as it is then: two quick keys come before the page is drawn again.
  const pick = (option: string): void => setChosen((now) => (type === "selection" ? [option] : now.includes(option) ? now.filter((one) => one !== option) : [...now, option]));
  const form = useRef<HTMLFormElement>(null);
  const isMeant = (): boolean => meantForm() === form.current;
  useKey("a", () => isMeant() && form.current?.querySelector<HTMLElement>("input, textarea, button")?.focus());
  for (let i = 1; i <= 9; i++) useKey(String(i), () => isMeant() && options[i - 1] !== undefined && pick(options[i - 1] ?? ""));
  const asked = question.asked_at;
  return (
    <form
      ref={form}
      data-asks={question.task}
      class="card askc answer"
      aria-label={question.question.question}
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) submit();
      }}
    >
      <Glyph name="bubble" tone="ask" />
      <div class="grow">
        <div class="b q">{question.question.question}</div>
        <div class="mid small">
          {t("task.of", { task: question.task })}
          {asked && ` · ${t("asked", { ago: ago(asked) })}`}
        </div>
      </div>
      <div class="row options">
        {type === "approval" && (
          <>
            <button type="button" class="btn" disabled={!canAct} onClick={() => send({ no: true }, ["--no"])}>
              {t("no")}
            </button>
            <button type="button" class="btn askb" disabled={!canAct} onClick={() => send({ yes: true }, ["--yes"])}>
              {t("yes")}
            </button>
          </>
        )}
        {type === "text" && (
          <textarea
            rows={2}
            aria-label={t("answer")}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && event.ctrlKey && isReady) submit();
            }}
          />
        )}
        {(type === "selection" || type === "multi_selection") &&
          options.map((option, i) => (
            <label class={`option${chosen.includes(option) ? " on" : ""}`} key={option}>
              <input type={type === "selection" ? "radio" : "checkbox"} name={`q${question.id}`} checked={chosen.includes(option)} onChange={() => pick(option)} />
              <span>{option}</span>
              {i < 9 && <kbd aria-hidden="true">{i + 1}</kbd>}
            </label>
          ))}
        {type !== "approval" && (
          <button type="submit" class="btn askb" disabled={!isReady}>
            {t("answer")} <Icon name="enter" />
          </button>
        )}
      </div>
    </form>
  );
}

export function useQuestions(id: string): OpenQuestion[] {
  const all = useWorld((w) => w.questions);
  return all.filter((one) => one.run_id === id).map((question) => ({ run: question, question }));
}
