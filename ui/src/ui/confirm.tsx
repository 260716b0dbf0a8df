// Questions before something is lost, and what the server refuses.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ErrorBody, Holder } from "../api/types";
import { run } from "../actions";
import { examine } from "../doctor";
import { go } from "../route";
import { lifeState } from "../states";
import { getWorld } from "../store";
import { language, t } from "../text";
import { clock, left, span } from "../time";
import { nameOfHolder } from "../who";
import { Dialog, openDialog } from "./overlays";
import { Avatar, StateText } from "./parts";
import { Reasons } from "./problem";
import { Glyph } from "./shapes";

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

// ---- refusals ----

export function showProblem(body: ErrorBody): void {
  const { message, reason_code } = body.error;
  openDialog((close) => (
    <Dialog label={message} alert onClose={close}>
      <div class="in">
        <div class="row top">
          <Glyph name="triangle" tone="warn" />
          <div class="grow">
            <h2>{message}</h2>
            <Reasons body={body} />
          </div>
        </div>
      </div>
      <div class="foot">
        <span class="mono dim grow">{reason_code}</span>
        <button type="button" class="btn" data-first onClick={close}>
          {t("close")}
        </button>
      </div>
    </Dialog>
  ));
}

function queueFacts(body: ErrorBody): [string, ComponentChildren][] {
  const context = body.error.context;
  const holder = context["holder"] as Holder | undefined;
  const name = nameOfHolder(holder);
  const request = getWorld().requests.find((one) => one.id === context["request_id"]);
  const run = getWorld().openRuns[String(context["run_id"] ?? "")];
  const facts: [string, ComponentChildren][] = [
    [t("conflict.who"), <span class="row"><Avatar name={name} small />{name.label} <span class="dim">{[holder?.pid ? `pid ${holder.pid}` : "", holder?.hostname ?? ""].filter(Boolean).join(" · ")}</span></span>],
    [t("conflict.state"), <StateText state={lifeState(holder?.alive, holder?.how)} />],
  ];
  if (request) facts.push([t("conflict.runs"), <>{request.title} {run?.counts && <span class="dim num">{t("tasks.of", { n: run.counts.ok, total: run.counts.total })}</span>}</>]);
  const created = context["created_at"];
  const age = context["age_ms"];
  if (typeof created === "string" && typeof age === "number") facts.push([t("conflict.since"), <>{clock(created)} <span class="dim">{t("time.ago", { span: span(age) })}</span></>]);
  const expires = context["expires_in_ms"];
  if (typeof expires === "number") facts.push([t("conflict.until"), t("time.left", { left: left(expires) })]);
  return facts;
}

/** With its full stop. */
function sentence(text: string): string {
  return /[.。!?]$/.test(text) ? text : `${text}${t("stop")}`;
}

/** Nothing was started: a queue runs already, and this leads to it. */
export function showQueueConflict(body: ErrorBody): void {
  openDialog((close) => (
    <Dialog label={t("queue.conflict")} alert onClose={close}>
      <div class="in">
        <div class="row top">
          <Glyph name="arc" tone="run" />
          <div class="grow">
            <h2>{t("queue.conflict")}</h2>
            <p class="mid">
              {[sentence(body.error.message), body.error.summary ?? t("queue.conflict_text"), t("queue.conflict_nothing")].join(language() === "en" ? " " : "")}
            </p>
            <Facts facts={queueFacts(body)} />
            <ul class="bullets">
              {body.error.actions.map((one) => (
                <li key={one}>{one}</li>
              ))}
            </ul>
          </div>
        </div>
      </div>
      <div class="foot">
        <button
          type="button"
          class="btn ghost first"
          onClick={() => {
            close();
            go("doctor");
            void run(examine("full"));
          }}
        >
          {t("queue.conflict_doctor")}
        </button>
        <button type="button" class="btn" onClick={close}>
          {t("close")} <kbd>Esc</kbd>
        </button>
        <button
          type="button"
          class="btn pri"
          data-first
          onClick={() => {
            close();
            go("requests");
          }}
        >
          {t("queue.conflict_open")}
        </button>
      </div>
    </Dialog>
  ));
}
