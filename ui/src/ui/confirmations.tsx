// What an agent may not decide alone: a strip on every page for 30 s of the server's time. It never takes the focus.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { Act, commandOf, run, type Action } from "../actions";
import type { OpenConfirmation } from "../api/types";
import { partyFacts } from "../facts";
import { lifeState } from "../states";
import { getWorld, useWorld, type World } from "../store";
import { hasText, t, type TextKey } from "../text";
import { ago } from "../time";
import { nameOfWho, type Name } from "../who";
import { Ring, type Question } from "./confirm";
import { StateText } from "./parts";

const TOTAL_S = 30;

const askedBy = (one: OpenConfirmation): string => nameOfWho(one.asked_by)?.label ?? one.instance;

function denyConfirmation(one: OpenConfirmation): Action {
  return { label: t("confirm.deny"), command: commandOf("confirm", one.token, "--deny"), method: "POST", path: "/api/confirm", body: { token: one.token, deny: true } };
}

const secondsLeft = (one: OpenConfirmation): number => Math.ceil((one.until - performance.now()) / 1000);

const isProcess = (one: OpenConfirmation): boolean => one.operation.startsWith("process.");

/** In the words of the page. What the agent was asked is in the agent's language: it is shown where the page has no words. */
function askAgain(one: OpenConfirmation, loser: Loser): Question {
  return {
    title: t(isProcess(one) ? "confirm.again_process" : "confirm.again", { who: loser.name.label }),
    text: ownText(one) ? wishOf(one) : `${wishOf(one)} ${one.question}`,
    facts: partyFacts(t(isProcess(one) ? "fact.started_by" : "fact.holder"), loser.name, loser.alive, loser.how),
    yes: t("confirm.allow").replace(/…$/, ""),
    danger: true,
    seconds: Math.max(1, secondsLeft(one)),
  };
}

/** A party that is not dead loses something by it: then the page asks once more. */
function allowConfirmation(one: OpenConfirmation): Action {
  const loser = loserOf(one, getWorld());
  const asksAgain = loser !== null && loser.alive !== false;
  return {
    label: asksAgain ? t("confirm.allow") : t("confirm.allow").replace(/…$/, ""),
    tone: "askb",
    command: commandOf("confirm", one.token),
    method: "POST",
    path: "/api/confirm",
    body: { token: one.token, confirm: true },
    ...(asksAgain ? { question: () => askAgain(one, loser) } : {}),
  };
}

interface Loser {
  name: Name;
  alive: boolean | null | undefined;
  how: string | undefined;
}

/** The party that loses something by a yes: a holder, an owner, or the agent that has started the process. */
function loserOf(one: OpenConfirmation, world: World): Loser | null {
  const holder = nameOfWho(one.from);
  if (holder) return { name: holder, alive: one.from_alive, how: one.how };
  const starter = isProcess(one) ? world.processes.find((process) => process.id === one.thing)?.started_by : null;
  const name = nameOfWho(starter);
  const agent = world.agents?.find((its) => its.instance === starter?.instance);
  return name && { name, alive: agent?.alive, how: agent?.how };
}

function lossOf(one: OpenConfirmation, loser: Loser | null): string {
  if (/^(request\.)?run$/.test(one.operation)) return t("confirm.loses_run");
  if (!loser) return "";
  if (loser.alive === false) return t("confirm.loses_nothing");
  return t(isProcess(one) ? "confirm.loses_process" : "confirm.loses", { who: loser.name.label });
}

const ownText = (one: OpenConfirmation): TextKey | null => (hasText(`confirm.what.${one.operation}`) ? (`confirm.what.${one.operation}` as TextKey) : null);

/** The party that asks, and its wish, as a sentence. */
function wishOf(one: OpenConfirmation): string {
  return t("confirm.asks", { who: askedBy(one), what: t(ownText(one) ?? "confirm.what.other", { thing: one.thing ?? "" }) });
}

/** What a person must know to decide. The age is not read out: it changes. */
function Wish({ one }: { one: OpenConfirmation }): JSX.Element {
  const world = useWorld((w) => w);
  const loser = loserOf(one, world);
  return (
    <div class="grow wish">
      <b class="b">{wishOf(one)}</b> {!ownText(one) && <bdi class="mid">{one.question}</bdi>}
      <div class="mid small">
        {loser && (
          <>
            {t(isProcess(one) ? "confirm.starter" : "confirm.holder", { who: loser.name.note ? `${loser.name.label} (${loser.name.note})` : loser.name.label })}, <StateText state={lifeState(loser.alive, loser.how)} />{" "}
            {"· "}
          </>
        )}
        {lossOf(one, loser)} {t("confirm.no")}
        {" · "}
        <span class="dim num" aria-hidden="true">
          {t("asked", { ago: ago(one.asked_at) })}
        </span>
      </div>
    </div>
  );
}

/** Seconds until it is too late, by the server's time. */
function useRest(one: OpenConfirmation): number {
  const [, again] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => again((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return secondsLeft(one);
}

/** As a strip it is read out, once: what changes each second is not. In lists it is a card among others. */
function Asked({ one, isStrip, isFirst }: { one: OpenConfirmation; isStrip: boolean; isFirst: boolean }): JSX.Element | null {
  const isLive = useWorld((w) => w.live === "live");
  const rest = useRest(one);
  if (rest <= 0) return null;
  return (
    <div class={isStrip ? "strip askfor" : "card askc question"} role={isStrip ? "alert" : undefined}>
      <span class="ask" aria-hidden="true">
        {isLive && <Ring total={TOTAL_S} rest={Math.min(rest, TOTAL_S)} />}
      </span>
      <Wish one={one} />
      <span class="row">
        <Act small action={{ ...denyConfirmation(one), ...(isStrip && isFirst ? { keys: "Ctrl ⌫" } : {}) }} />
        <Act small action={allowConfirmation(one)} />
      </span>
    </div>
  );
}

/** Ctrl-Backspace denies the oldest, wherever the focus is, but in a text field it deletes a word. */
function useDenyKey(): void {
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const first = getWorld().confirmations[0];
      const isText = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA)$/.test(event.target.tagName);
      if (!first || isText || !event.ctrlKey || event.key !== "Backspace") return;
      event.preventDefault();
      void run(denyConfirmation(first));
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

export function Confirmations(): JSX.Element {
  useDenyKey();
  return <ConfirmationList isStrip />;
}

export function ConfirmationList({ isStrip = false }: { isStrip?: boolean }): JSX.Element {
  const open = useWorld((w) => w.confirmations);
  return (
    <>
      {open.map((one, i) => (
        <Asked key={one.id} one={one} isStrip={isStrip} isFirst={i === 0} />
      ))}
    </>
  );
}
