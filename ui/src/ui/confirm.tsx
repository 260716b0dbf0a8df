// Questions before something is lost.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "../text";
import { span } from "../time";
import { Dialog, openDialog } from "./overlays";

export interface Question {
  title: string; // the question itself
  text: string;
  facts: [string, ComponentChildren][];
  bullets?: string[];
  yes: string;
  no?: string;
  danger?: boolean;
  seconds?: number; // then the answer is no
}

/** The ring that shrinks; `total` seconds, `rest` of them left. */
export function Ring({ total, rest }: { total: number; rest: number }): JSX.Element {
  const around = 2 * Math.PI * 11;
  return (
    <svg class="g ring" viewBox="0 0 26 26" role="img" aria-label={t("time.left", { left: span(rest * 1000) })}>
      <circle class="a" cx="13" cy="13" r="11" />
      <circle cx="13" cy="13" r="11" stroke-dasharray={`${(around * rest) / total} ${around}`} transform="rotate(-90 13 13)" />
      <text x="13" y="16.5">{rest}</text>
    </svg>
  );
}

function Ask({ question, onAnswer }: { question: Question; onAnswer: (yes: boolean) => void }): JSX.Element {
  const [rest, setRest] = useState(question.seconds ?? 0);
  useEffect(() => {
    if (!question.seconds) return;
    const began = performance.now();
    const timer = setInterval(() => {
      const now = (question.seconds ?? 0) - Math.floor((performance.now() - began) / 1000);
      setRest(Math.max(0, now));
      if (now <= 0) onAnswer(false);
    }, 250);
    return () => clearInterval(timer);
  }, []);
  return (
    <Dialog label={question.title} alert onClose={() => onAnswer(false)}>
      <div class="in">
        <h2>{question.title}</h2>
        {question.text && <p class="mid">{question.text}</p>}
        {question.facts.length > 0 && <Facts facts={question.facts} />}
        {question.bullets && question.bullets.length > 0 && (
          <ul class="bullets">
            {question.bullets.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        )}
      </div>
      <div class="foot">
        {question.seconds ? (
          <span class="row mid grow">
            <Ring total={question.seconds} rest={rest} />
            {t("confirm.then_no")}
          </span>
        ) : null}
        <button type="button" class="btn" data-first onClick={() => onAnswer(false)}>
          {question.no ?? t("cancel")}
        </button>
        <button type="button" class={`btn ${question.danger ? "danger" : "pri"}`} onClick={() => onAnswer(true)}>
          {question.yes}
        </button>
      </div>
    </Dialog>
  );
}

export function Facts({ facts }: { facts: [string, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="kv facts">
      {facts.map(([label, value]) => (
        <>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}

export function ask(question: Question): Promise<boolean> {
  return new Promise((resolve) =>
    openDialog((close) => (
      <Ask
        question={question}
        onAnswer={(yes) => {
          close();
          resolve(yes);
        }}
      />
    )),
  );
}
