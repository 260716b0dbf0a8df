// Processes: the list, and beside it the one that is chosen.
import { openImport, openProcessForm } from "../ui/forms";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { run, startProcess, stopProcess, restartProcess } from "../actions";
import type { Process } from "../api/types";
import { useUsage } from "../cpu";
import { useKey } from "../keys";
import { useLastError } from "../lastline";
import { ProcessLog } from "../lazy";
import { go, href } from "../route";
import { processState, sortProcesses } from "../states";
import { getWorld, useCanAct, useTick, useWorld } from "../store";
import { t, titled } from "../text";
import { ago, now, uptime } from "../time";
import { NewRows, useHold, useStill } from "../ui/hold";
import { Hour } from "../ui/hour";
import { Menu } from "../ui/overlays";
import { By, Empty, Mark, Search, Seg } from "../ui/parts";
import { Icon } from "../ui/shapes";
import { useTint } from "../ui/tint";
import { directoryOf, urlOf } from "../where";
import { nameOfWho } from "../who";
import { ProcessDetail } from "./process_detail";

type Filter = "all" | "running" | "failed" | "stopped";

function isIn(process: Process, filter: Filter): boolean {
  if (filter === "all") return true;
  if (filter === "running") return process.state_name === "Running";
  if (filter === "failed") return process.state_name === "Failed";
  return process.state_name === "Stopped" || process.state_name === "NotStarted";
}

function lastTime(process: Process): string {
  const state = process.state?.[process.state_name];
  if (process.state_name === "Running" && state?.started_at) return uptime(now() - Date.parse(state.started_at));
  if (process.phase === "backoff") return t("process.again", { n: process.restarts });
  return state?.stopped_at ? ago(state.stopped_at) : "";
}

/** A countdown, or the first minute: its seconds are shown. */
function changesFast(process: Process): boolean {
  const since = process.state?.[process.state_name];
  const at = since?.stopped_at ?? since?.started_at;
  return process.phase === "backoff" || (at !== undefined && now() - Date.parse(at) < 60_000);
}

function Row({ process, isChosen, isMarked, hasPlace, isHeld, onMark }: { process: Process; isChosen: boolean; isMarked: boolean; hasPlace: boolean; isHeld: boolean; onMark: (() => void) | null }): JSX.Element {
  const usage = useUsage(process);
  const line = useLastError(process);
  useTick(changesFast(process) ? 1 : 15);
  const state = processState(process);
  const tint = useTint(state.wire);
  const url = urlOf(process);
  const second = useStill(line || (state.tone === "warn" ? (process.detail ?? "") : ""), isHeld);
  return (
    <a class={`item c-list${isChosen ? " sel" : ""}${tint}`} href={href("processes", process.id)} aria-current={isChosen} data-row data-id={process.id}>
      {onMark ? (
        <input type="checkbox" aria-label={process.id} checked={isMarked} onClick={(event) => event.stopPropagation()} onChange={onMark} />
      ) : (
        <Mark state={state} />
      )}
      <div class="cut named">
        <span class="name cut">{process.id}</span> <span class={`word ${state.loud ? state.tone : "dim"}`}>{state.word}</span>
        {url && <span class="word dim mono small">{url.replace(/^http:\/\/localhost/, "")}</span>}
      </div>
      <Hour process={process} />
      <By name={nameOfWho(process.started_by)} />
      <span class="num mid w1400 right">{usage.cpu}</span>
      <span class="num mid w1400 right">{usage.memory}</span>
      <span class="dim cut right num">{lastTime(process)}</span>
      {hasPlace && <div class="second cut dim mono small place">{directoryOf(process)}</div>}
      {second && (
        <div class={`second cut ${state.tone === "warn" ? "warn" : "err"}`} title={second}>
          {second}
        </div>
      )}
    </a>
  );
}

const distinct = (words: string[]): string[] => [...new Set(words)].filter(Boolean).sort();
const starterOf = (process: Process): string => nameOfWho(process.started_by)?.label ?? "";

/** Only those of one directory, or of one agent; a choice only where there are several. */
function Only(props: { label: string; value: string; values: string[]; onChoose: (value: string) => void }): JSX.Element | null {
  if (props.values.length < 2) return null;
  return (
    <select class={`field-input only${props.values.includes(props.value) ? " held" : ""}`} aria-label={props.label} onChange={(event) => props.onChoose(event.currentTarget.value)}>
      <option value="">{props.label}</option>
      {props.values.map((one) => (
        <option key={one} value={one} selected={one === props.value}>
          {one}
        </option>
      ))}
    </select>
  );
}

/** They act on the row that has the focus, else on the process that is shown. */
function useProcessKeys(chosen: Process | undefined): void {
  const act = (make: (process: Process) => Parameters<typeof run>[0]) => () => {
    const row = document.activeElement?.closest<HTMLElement>("main [data-row]");
    const process = row ? getWorld().processes.find((one) => one.id === row.dataset["id"]) : chosen;
    if (process) void run(make(process));
  };
  useKey("s", act(startProcess));
  useKey("x", act(stopProcess));
  useKey("r", act(restartProcess));
}

export function Processes({ id }: { id: string | undefined }): JSX.Element {
  const all = useWorld((w) => w.processes);
  const [filter, setFilter] = useState<Filter>("all");
  const [words, setWords] = useState("");
  const [directory, setDirectory] = useState("");
  const [agent, setAgent] = useState("");
  const [marked, setMarked] = useState<string[] | null>(null);
  const directories = distinct(all.map(directoryOf)), agents = distinct(all.map(starterOf));
  const sorted = sortProcesses(all);
  const isHere = (one: Process): boolean => (!directories.includes(directory) || directoryOf(one) === directory) && (!agents.includes(agent) || starterOf(one) === agent);
  const shown = sorted.filter((one) => isIn(one, filter) && isHere(one) && `${one.id} ${one.command} ${one.args.join(" ")} ${one.cwd ?? ""} ${one.started_by?.label ?? ""}`.toLowerCase().includes(words.toLowerCase()));
  const hold = useHold([{ title: "", list: shown }], (one) => one.id, `${filter} ${words} ${directory} ${agent} ${id ?? ""}`);
  const isWide = innerWidth > 1100;
  const chosen = id ? all.find((one) => one.id === id) : isWide ? sorted[0] : undefined;
  const off = useCanAct() ? undefined : t("live.actions_off");
  useProcessKeys(chosen);
  useKey("Escape", () => id && !isWide && go("processes"));
  useEffect(() => {
    const row = document.querySelector<HTMLElement>(".list-pane .item.sel");
    row?.scrollIntoView({ block: "nearest" });
    if (document.activeElement?.closest(".list-pane [data-row]")) row?.focus({ preventScroll: true }); // the keys act on the row that has the focus
  }, [id]);
  const n = (one: Filter): number => all.filter((process) => isIn(process, one)).length;
  if (all.length === 0)
    return (
      <div class="page">
        <Empty icon="processes" texts={titled("empty.processes")} command="tasuki proc create web --start -- npm run dev">
          <button type="button" class="btn pri" disabled={off !== undefined} title={off} onClick={() => void openProcessForm(null)}>
            <Icon name="plus" />
            {t("process.new")}
          </button>
          <button type="button" class="btn" disabled={off !== undefined} title={off} onClick={() => void openImport()}>
            {t("process.import")}
          </button>
        </Empty>
      </div>
    );
  const isCombined = marked !== null && marked.length > 1;
  return (
    <div class={`split${isCombined ? " combined" : id ? " has-detail" : ""}`}>
      <section class="pane list-pane" aria-label={t("nav.processes")}>
        <div class="row tools-row">
          <Seg
            label={t("filter")}
            value={filter}
            onChoose={setFilter}
            choices={[
              { value: "all", label: t("filter.all"), count: n("all") },
              { value: "running", label: t("filter.running"), count: n("running") },
              { value: "failed", label: t("filter.failed"), count: n("failed") },
              { value: "stopped", label: t("filter.stopped"), count: n("stopped") },
            ]}
          />
          <span class="grow" />
          <Menu
            label={t("more")}
            items={[
              { label: marked ? t("process.combine_end") : t("process.combine"), hint: "tasuki up", run: () => setMarked(marked ? null : []) },
              { label: t("process.import"), hint: "tasuki proc import FILE", disabled: off, run: () => void openImport() },
            ]}
          />
          <button type="button" class="btn pri" disabled={off !== undefined} title={off} onClick={() => void openProcessForm(null)}>
            <Icon name="plus" />
            {t("new")}
            <span class="w1400">{t("process.new_thing")}</span>
          </button>
        </div>
        <div class="row filters">
          <Search label={t("filter")} value={words} onInput={setWords} />
          <Only label={t("fact.directory")} value={directory} values={directories} onChoose={setDirectory} />
          <Only label={t("filter.agent")} value={agent} values={agents} onChoose={setAgent} />
        </div>
        <div class="item th c-list" aria-hidden="true">
          <span />
          <span>{t("thing.process_head")}</span>
          <span>{t("process.last_hour")}</span>
          <span>{t("process.by_short")}</span>
          <span class="w1400 right">cpu</span>
          <span class="w1400 right">{t("process.memory")}</span>
          <span class="right">{t("process.up")}</span>
        </div>
        <NewRows hold={hold} />
        <div class="list" {...hold.pointer}>
          {hold.groups.flatMap((group) => group.list).map((one) => (
            <Row
              key={one.id}
              process={one}
              isHeld={hold.isHeld}
              hasPlace={directories.length > 1}
              isChosen={one.id === chosen?.id}
              isMarked={marked?.includes(one.id) ?? false}
              onMark={marked ? () => setMarked(marked.includes(one.id) ? marked.filter((x) => x !== one.id) : [...marked, one.id]) : null}
            />
          ))}
          {shown.length === 0 && <p class="dim pad">{titled("empty.search", { q: words })[0]}</p>}
        </div>
        {marked && (
          <p class="row dim small pad">
            {!isCombined && t("process.combine_hint")}
            <button type="button" class="btn s" onClick={() => setMarked(null)}>
              {t("process.combine_end")}
            </button>
          </p>
        )}
      </section>
      {isCombined ? (
        <section class="pane detail" aria-label={t("process.combined")}>
          <ProcessLog key={marked.join()} ids={marked} />
        </section>
      ) : chosen ? (
        <ProcessDetail key={chosen.id} process={chosen} />
      ) : (
        <section class="pane detail">{id && <Empty icon="find" texts={titled("error.not_found")} />}</section>
      )}
    </div>
  );
}
