// Names for those who hold, own or start something.
import type { Agent, Holder, TrailEvent, Who, Workflow } from "./api/types";
import { calm, t } from "./text";

export interface Name {
  label: string;
  note: string;
  isPerson: boolean;
  isKnown: boolean; // it has a name of its own, not only a number
}

function fromWho(who: Who): Name {
  const label = who.label ?? who.program ?? who.instance ?? (who.pid ? `pid ${who.pid}` : "?");
  return { label: calm(label), note: calm(who.note ?? ""), isPerson: who.program === null, isKnown: Boolean(who.label) };
}

export function nameOfWho(who: Who | null | undefined): Name | null {
  return who && Object.keys(who).length > 0 ? fromWho(who) : null;
}

/** The party of an event: its actor; of a death, which nobody caused, the one that has died. */
export function nameOfEvent(event: TrailEvent): Name | null {
  const of = event.actor ?? (event.data["who"] as Who | null | undefined);
  return nameOfWho(of ?? (event.type === "instance.ended" ? (event.data as Who) : null));
}

export function nameOfHolder(holder: Holder | null | undefined): Name {
  const known = nameOfWho(holder?.who);
  if (known) return known;
  if (holder?.session_id) return { label: calm(holder.session_id), note: "", isPerson: false, isKnown: true };
  if (holder?.pid) return { label: `pid ${holder.pid}`, note: t("who.no_name"), isPerson: false, isKnown: false };
  return { label: holder?.instance ?? "?", note: t("who.no_name"), isPerson: false, isKnown: false };
}

export function nameOfOwner(workflow: Workflow): Name {
  return nameOfWho(workflow.who) ?? { label: workflow.ownerInstanceId ?? "?", note: t("who.no_name"), isPerson: false, isKnown: false };
}

export function nameOfAgent(agent: Agent): Name {
  return { ...fromWho(agent.who), isPerson: !agent.agent && agent.who.program === null };
}

/** Ids by their end: `…2ad7c9`. */
export function shortId(id: string): string {
  return id.length > 10 ? `…${id.slice(-6)}` : id;
}

/** A request by the end of its id, as in lists. */
export function shortRequest(id: string): string {
  const end = id.split("-").pop() ?? id;
  return end.length <= 12 ? end : end.slice(-6);
}
