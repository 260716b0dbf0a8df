// Facts for questions: whose something is, and whether that party is alive.
import type { Holder, Process, Run, Who } from "./api/types";
import { lifeState } from "./states";
import { getWorld } from "./store";
import { t } from "./text";
import { ago } from "./time";
import type { Question } from "./ui/confirm";
import { StateText } from "./ui/parts";
import { nameOfHolder, nameOfWho, type Name } from "./who";

type Facts = Question["facts"];

export function partyFacts(label: string, name: Name, alive: boolean | null | undefined, how: string | undefined, since?: string | null): Facts {
  return [
    [label, <>{name.label} <span class="mid">{name.note}</span> <span class="dim">{since ? ago(since) : ""}</span></>],
    [t("conflict.state"), <StateText state={lifeState(alive, how)} />],
  ];
}

export const holderFacts = (holder: Holder, since?: string): Facts => partyFacts(t("fact.started_by"), nameOfHolder(holder), holder.alive, holder.how, since);

export function whoFacts(who: Who | null | undefined, since: string | undefined): Facts {
  const name = nameOfWho(who);
  if (!name) return [];
  const agent = getWorld().agents?.find((one) => one.instance === who?.instance);
  const facts = partyFacts(t("fact.started_by"), name, agent?.alive, agent?.how, since);
  return agent ? facts : facts.slice(0, 1);
}

/** The party that has started a process, as a sentence; null where nothing says when, or whether it lives. */
export function starterOf(process: Process): string | null {
  const name = nameOfWho(process.started_by), startedAt = process.state?.[process.state_name]?.started_at;
  const agent = getWorld().agents?.find((one) => one.instance === process.started_by?.instance);
  if (!name || !startedAt || !agent) return null;
  return t("process.remove_who", { who: [name.label, name.note].filter(Boolean).join(", "), alive: lifeState(agent.alive, agent.how).word, ago: ago(startedAt) });
}

export function runFacts(run: Run): Facts {
  const lock = getWorld().locks.find((one) => one.holder?.run_id === run.run_id);
  const by = whoFacts(run.started_by, run.started_at);
  return by.length === 2 || !lock?.holder ? by : holderFacts({ ...lock.holder, who: run.started_by ?? lock.holder.who ?? null }, run.started_at);
}
