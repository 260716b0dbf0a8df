// One process: state, what can be done, why it failed, its facts, its log.
import { openProcessForm } from "../ui/forms";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Act, commandOf, menuItem, removeProcess, restartProcess, startProcess, stopProcess } from "../actions";
import { call } from "../api/http";
import type { Probe, Process } from "../api/types";
import { useLastError } from "../lastline";
import { ProcessLog } from "../lazy";
import { href } from "../route";
import { processState } from "../states";
import { useCanAct, useTick, useWorld } from "../store";
import { t } from "../text";
import { bytes, duration, now, uptime } from "../time";
import { Menu } from "../ui/overlays";
import { Ago, By, copy, IconButton, StateText } from "../ui/parts";
import { Glyph, Icon } from "../ui/shapes";
import { directoryOf, urlOf } from "../where";
import { nameOfWho } from "../who";
import { commandLine } from "./overview";

/** What only `process.status` tells; read again when the process has another run or state. */
function useWhole(process: Process): Process {
  const [whole, setWhole] = useState<Process | null>(null);
  const key = `${process.run ?? 0} ${process.state_name} ${process.phase} ${process.updated_at}`;
  useEffect(() => {
    let isMine = true;
    call<Process>("GET", `/api/processes/${encodeURIComponent(process.id)}`).then((one) => isMine && setWhole(one), () => undefined);
    return () => void (isMine = false);
  }, [key]);
  return { ...process, leftovers: whole?.leftovers ?? [], last_exits: whole?.last_exits ?? [], branch: whole?.branch ?? null, log: whole?.log ?? process.log };
}

function probeText(probe: Probe): string {
  const url = probe.http ?? probe.url;
  if (typeof url === "string") return url;
  if (probe.port !== undefined) return `port:${probe.port}`;
  if (probe.command) return `exec:${probe.command.join(" ")}`;
  return probe.log !== undefined ? `log:${probe.log}` : Object.keys(probe)[0] ?? "";
}

const EXITS_SHOWN = 5;

/** The last ones, the newest first: code or signal, and when. */
function Exits({ process }: { process: Process }): JSX.Element {
  const all = [...(process.last_exits ?? [])].sort((a, b) => b.stopped_at.localeCompare(a.stopped_at)).slice(0, EXITS_SHOWN);
  return (
    <span class="exits">
      {all.map((one) => (
        <span key={`${one.run} ${one.stopped_at}`} class="exit nowrap">
          {one.raw_status?.signal ?? (one.exit_code === undefined || one.exit_code === null ? t("exit.unknown") : t("exit.code", { code: one.exit_code }))} <span class="dim"><Ago time={one.stopped_at} /></span>
        </span>
      ))}
    </span>
  );
}

function restartPolicy(process: Process): string {
  if (process.restart === "no") return t("process.never");
  return `${process.restart}, ${process.max_retries === null ? t("process.no_limit") : t("process.at_most", { n: process.max_retries })}`;
}

/** Label, value, and whether it has a line of its own. */
type Fact = [string, ComponentChildren, boolean?];

function useFacts(process: Process): Fact[] {
  const depends = useWorld((w) => w.processes.filter((one) => one.id in process.depends_on));
  const by = nameOfWho(process.started_by);
  const url = urlOf(process);
  const started = process.state?.["Running"]?.started_at;
  const facts: Fact[] = [[t("fact.directory"), <span class="mono cut" title={process.cwd ?? ""}>{directoryOf(process)}</span>]];
  if (process.branch) facts.push([t("fact.branch"), <span class="mono">{process.branch}</span>]);
  if (process.log.size) facts.push([t("fact.log_size"), <span class="num">{bytes(process.log.size)}</span>]);
  if (url) facts.push([t("fact.url"), <a class="link" href={url} target="_blank" rel="noreferrer noopener">{url} <Icon name="out" /></a>]);
  if (process.pid) facts.push(["pid", <span class="num">{process.pid}</span>]);
  if (started) facts.push([t("process.up"), <span class="num">{uptime(now() - Date.parse(started))}</span>]);
  facts.push([t("fact.restarts"), <>{process.restarts} <span class="dim">{restartPolicy(process)}</span></>]);
  if (process.restart !== "no") facts.push([t("fact.backoff"), <span class="num">{[...new Set([duration(process.backoff_ms, true), duration(process.backoff_max_ms, true)])].join(" – ")}</span>]);
  facts.push([t("fact.log_mode"), <span class="mono">{process.log.mode}</span>]);
  facts.push([t("fact.restore"), process.auto_start_on_restore ? t("process.restores") : t("process.restores_not")]);
  if (process.ready) facts.push([t("fact.ready"), <span class="mono cut">{probeText(process.ready)}</span>]);
  if (process.health) facts.push([t("fact.health"), <span class="mono cut">{probeText(process.health)}</span>]);
  if (by) facts.push([t("fact.started_by"), <span class="row"><By name={by} wide />{by.note && <span class="dim cut">{by.note}</span>}</span>]);
  if (depends.length > 0)
    facts.push([
      t("fact.waits_for"),
      <span class="row">
        {depends.map((one) => (
          <a key={one.id} href={href("processes", one.id)}>
            {one.id} <StateText state={processState(one)} />
          </a>
        ))}
      </span>,
    ]);
  const names = Object.keys(process.env);
  if (names.length > 0) facts.push([t("fact.env"), <span class="mono cut" title={names.map((name) => `${name}=${process.env[name]}`).join("\n")}>{names.join(" ")}</span>]);
  if ((process.leftovers?.length ?? 0) > 0) facts.push([t("fact.leftovers"), <span class="warn">{t("process.leftovers", { n: process.leftovers?.length ?? 0 })}</span>]);
  if (process.last_exits?.[0]) facts.push([t("fact.last_exit"), <Exits process={process} />, true]);
  return facts;
}

function Buttons({ process }: { process: Process }): JSX.Element {
  const isRunning = process.state_name === "Running", isWaiting = process.phase === "backoff";
  const canStart = !isRunning;
  const off = useCanAct() ? undefined : t("live.actions_off");
  return (
    <span class="row acts">
      {canStart && <Act action={{ ...startProcess(process), tone: "pri" }} />}
      {(isRunning || isWaiting) && <Act action={stopProcess(process)} />}
      {isRunning && <Act action={restartProcess(process)} />}
      <button type="button" class="btn" disabled={off !== undefined} title={off} onClick={() => void openProcessForm(process)}>
        <Icon name="edit" />
        {t("edit")}
      </button>
      <Menu
        label={t("more")}
        items={[
          menuItem(startProcess(process)),
          menuItem(stopProcess(process)),
          menuItem(restartProcess(process)),
          { label: t("copy.log_command"), hint: commandOf("proc", "logs", process.id, "-f"), run: () => void copy(commandOf("proc", "logs", process.id, "-f")) },
          menuItem(removeProcess(process)),
        ]}
      />
    </span>
  );
}

export function ProcessDetail({ process: short }: { process: Process }): JSX.Element {
  const process = useWhole(short);
  const line = useLastError(process);
  useTick();
  const state = processState(process);
  const tone = state.tone === "dim" || state.tone === "mid" ? "" : state.tone;
  const facts = useFacts(process);
  return (
    <section class="pane detail" aria-label={process.id}>
      <div class="head">
        <div class="row title-row">
          <a class="btn ghost ic back" href={href("processes")} aria-label={t("back")}>
            <Icon name="right" />
          </a>
          <h2 class="title cut">{process.id}</h2>
          <span class={`tag ${tone}`} title={state.wire}>
            <Glyph name={state.glyph} />
            {t(`process.state.${process.state_name}`)}
          </span>
          {process.state_name === "Running" && !state.loud ? null : <span class={`num nowrap ${state.loud ? state.tone : "dim"}`}>{state.word}</span>}
          <span class="grow" />
          <Buttons process={process} />
        </div>
        {line && (
          <div class="row lasterr">
            <span class="mono bad cut grow" title={line}>
              {line}
            </span>
            <span class="mid small nowrap">{t("log.last_error")}</span>
            <IconButton icon="copy" small label={t("copy")} onClick={() => void copy(line)} />
          </div>
        )}
        {state.tone === "warn" && process.detail && <div class="row lasterr warned"><span class="warn cut grow">{process.detail}</span></div>}
        <div class="row mono commandline">
          <span class="dim">$</span>
          <span class="cut" title={commandLine(process)}>
            {commandLine(process)}
          </span>
        </div>
        <dl class="kv two-kv">
          {facts.map(([label, value, isWide]) => (
            <div key={label} class={isWide ? "whole" : undefined}>
              <dt>{label}</dt>
              <dd class="cut">{value}</dd>
            </div>
          ))}
        </dl>
      </div>
      <ProcessLog ids={[process.id]} key={process.id} />
    </section>
  );
}
