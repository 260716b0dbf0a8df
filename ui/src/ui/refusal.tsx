// What the server refuses, in a dialogue; loaded when it first refuses something.
import type { ComponentChildren } from "preact";
import { run } from "../actions";
import type { ErrorBody, Holder } from "../api/types";
import { examine } from "../doctor";
import { go } from "../route";
import { lifeState } from "../states";
import { getWorld } from "../store";
import { language, t } from "../text";
import { clock, left, span } from "../time";
import { nameOfHolder } from "../who";
import { Facts } from "./confirm";
import { Dialog, openDialog } from "./overlays";
import { Avatar, StateText } from "./parts";
import { Reasons } from "./problem";
import { Glyph } from "./shapes";

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
    <Dialog label={t("queue.conflict")} alert class="conflict" onClose={close}>
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
