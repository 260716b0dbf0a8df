// The palette: operations on things, then places. Enter runs, Tab opens the form of all parameters, Ctrl-Shift-C copies the command.
import { openProcessForm, openRequestForm } from "./forms";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as actions from "../actions";
import { callerInstance } from "../api/http";
import type { Process } from "../api/types";
import { openQuestions } from "../broke";
import { examine } from "../doctor";
import { forceQuestion, ownerQuestion, sprintQuestion } from "../pages/locks";
import { go, href, type PageName } from "../route";
import { processState, requestState, runState, sortProcesses, taskState } from "../states";
import { getWorld, type World } from "../store";
import { t, titled, type TextKey } from "../text";
import { operationOf, readOperations, type Operation } from "../operations";
import { now, uptime } from "../time";
import { nameOfHolder, nameOfOwner, nameOfWho } from "../who";
import { OperationForm } from "./operation_form";
import { Dialog, openDialog } from "./overlays";
import { copy } from "./parts";
import { Glyph, Icon, type GlyphName, type IconName, type Tone } from "./shapes";

interface Entry {
  key: string;
  title: string;
  detail: string;
  command: string;
  icon?: IconName;
  glyph?: [GlyphName, Tone];
  group: "operations" | "places" | "all";
  run: () => void;
  fill?: () => void; // a form of all parameters
}

const openForm = (operation: Operation, known?: Record<string, unknown>): void => openDialog((close) => <OperationForm operation={operation} {...(known ? { known } : {})} onClose={close} />);

/** The form of the action's operation, with what the action says already. */
async function fillAction(action: actions.Action): Promise<void> {
  const found = operationOf(await readOperations(), action.method, action.path);
  if (found) openForm(found.operation, { ...action.body, ...found.known });
  else await actions.run(action);
}

function fromAction(key: string, title: string, detail: string, action: actions.Action): Entry[] {
  if (action.disabled !== undefined) return [];
  return [{ key, title, detail, command: action.command, icon: action.icon ?? "right", group: "operations", run: () => void actions.run(action), fill: () => void fillAction(action) }];
}

/** State, how long it runs, and the party that has started it. */
function processDetail(process: Process): string {
  const started = process.state?.["Running"]?.started_at;
  return [process.state_name === "Running" ? t("process.state.Running") : "", processState(process).word, started ? uptime(now() - Date.parse(started)) : "", nameOfWho(process.started_by)?.label ?? ""].filter(Boolean).join(" · ");
}

function processEntries(world: World): Entry[] {
  return sortProcesses(world.processes).flatMap((one) => {
    const detail = processDetail(one);
    return [
      ...fromAction(`start ${one.id}`, t("palette.start", { id: one.id }), detail, actions.startProcess(one)),
      ...fromAction(`stop ${one.id}`, t("palette.stop", { id: one.id }), detail, actions.stopProcess(one)),
      ...fromAction(`restart ${one.id}`, t("palette.restart", { id: one.id }), detail, actions.restartProcess(one)),
      ...fromAction(`remove ${one.id}`, t("palette.remove", { id: one.id }), detail, actions.removeProcess(one)),
    ];
  });
}

function workEntries(world: World): Entry[] {
  const requests = world.requests.filter((one) => one.status !== "running").flatMap((one) => fromAction(`run ${one.id}`, t("palette.run", { title: one.title }), requestState(one.status).word, actions.runRequest(one)));
  const runs = world.runs.flatMap((one) => [
    ...fromAction(`cancel ${one.run_id}`, t("palette.cancel", { flow: one.flow }), one.run_id, actions.cancelRun(one)),
    ...(one.status === "FAILED" || one.status === "INTERRUPTED" ? fromAction(`resume ${one.run_id}`, t("palette.resume", { flow: one.flow }), one.run_id, actions.resumeRun(one)) : []),
  ]);
  const isRunning = world.queue?.status === "running";
  const title = world.requests.find((one) => one.id === world.queue?.request_id)?.title ?? "";
  const stopNow = actions.stopQueueNow(title, world.openRuns[world.queue?.run_id ?? ""]?.counts?.ok ?? 0);
  const queue = isRunning ? [...(world.queue?.stopping ? [] : fromAction("queue stop", t("palette.queue_stop"), "", actions.stopQueue())), ...fromAction("queue stop now", t("palette.queue_stop_now"), title, stopNow)] : [...fromAction("queue run", t("palette.queue_run"), "", actions.startQueue()), ...fromAction("queue next", t("queue.run_next"), "", actions.runNext())];
  return [...queue, ...requests, ...runs];
}

/** Locks, the sprint, owners, and questions that wait for an answer. */
function heldEntries(world: World): Entry[] {
  const locks = world.locks.flatMap((one) => {
    const name = one.id ?? one.kind, detail = nameOfHolder(one.holder).label;
    if (one.kind === "sprint") return fromAction("release sprint", t("palette.release", { name }), detail, actions.releaseSprint(one, () => sprintQuestion(one)));
    if (one.holder?.instance && one.holder.instance === callerInstance()) return fromAction(`release ${name}`, t("palette.release", { name }), detail, actions.releaseLock(one));
    return one.kind === "name" ? fromAction(`force ${name}`, t("palette.force", { name }), detail, actions.forceLock(one, () => forceQuestion(one))) : [];
  });
  const owners = world.workflows.flatMap((one) => {
    const isMine = one.ownerInstanceId !== null && one.ownerInstanceId === callerInstance();
    const action = isMine ? actions.releaseWorkflow(one) : actions.claimWorkflow(one, () => ownerQuestion(one));
    return fromAction(`own ${one.ulTaskId}`, t(isMine ? "palette.release" : "palette.claim", { name: one.ulTaskId }), nameOfOwner(one).label, action);
  });
  const answers = openQuestions(world).map(({ run, question }): Entry => ({ key: `answer ${run.run_id} ${question.id}`, title: t("palette.answer", { task: question.task }), detail: question.question.question, command: actions.commandOf("answer", run.run_id), icon: "right", group: "operations", run: () => go("runs", run.run_id, question.task) }));
  return [...answers, ...locks, ...owners];
}

function newEntries(): Entry[] {
  return [
    { key: "new process", title: t("process.new"), detail: "", command: "tasuki proc create", icon: "plus", group: "operations", run: () => void openProcessForm(null) },
    { key: "new request", title: t("request.new"), detail: "", command: "tasuki request add", icon: "plus", group: "operations", run: () => void openRequestForm(null) },
    ...fromAction("doctor full", t("doctor.full"), "", { ...examine("full"), icon: "doctor" }),
    ...fromAction("doctor quick", t("doctor.quick"), "", { ...examine("quick"), icon: "doctor" }),
  ];
}

const placeTexts: [PageName, TextKey, IconName][] = [
  ["", "nav.overview", "overview"],
  ["processes", "nav.processes", "processes"],
  ["requests", "nav.requests", "requests"],
  ["runs", "nav.runs", "runs"],
  ["locks", "nav.locks", "locks"],
  ["events", "nav.events", "events"],
  ["doctor", "nav.doctor", "doctor"],
  ["workers", "nav.workers", "workers"],
];

function placeEntries(world: World): Entry[] {
  const place = (key: string, title: string, detail: string, glyph: [GlyphName, Tone], to: string): Entry => ({ key, title, detail, command: "", glyph, group: "places", run: () => (location.hash = to) });
  return [
    ...placeTexts.filter(([page]) => page !== "workers" || world.pool !== null).map(([page, text, icon]): Entry => ({ key: `page ${page}`, title: t(text), detail: "", command: "", icon, group: "places", run: () => go(page) })),
    ...sortProcesses(world.processes).map((one) => place(`p ${one.id}`, one.id, t("thing.process"), [processState(one).glyph, processState(one).tone], href("processes", one.id))),
    ...world.requests.map((one) => place(`r ${one.id}`, one.title, t("thing.request"), [requestState(one.status).glyph, requestState(one.status).tone], href("requests", one.id))),
    ...world.runs.map((one) => place(`u ${one.run_id}`, one.flow, `${t("thing.run")} ${one.run_id}`, [runState(one.status).glyph, runState(one.status).tone], href("runs", one.run_id))),
    ...Object.values(world.openRuns).flatMap((run) => run.tasks.map((task) => {
      const state = taskState(task.state);
      return place(`t ${run.run_id} ${task.task}`, task.task, `${t("palette.task", { flow: run.flow })} · ${state.word}`, [state.glyph, state.tone], href("runs", run.run_id, task.task));
    })),
  ];
}

/** Every word must begin a word of the title, or be in it. */
function score(title: string, words: string[]): number {
  const low = title.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const at = low.indexOf(word);
    if (at < 0) return -1;
    sum += at === 0 ? 3 : /[\s/._-]/.test(low[at - 1] ?? " ") ? 2 : 1;
  }
  return sum;
}

function Marked({ text, words }: { text: string; words: string[] }): JSX.Element {
  const low = text.toLowerCase();
  const isHit = Array<boolean>(text.length).fill(false);
  for (const word of words) {
    const at = word ? low.indexOf(word) : -1;
    for (let i = at; i >= 0 && i < at + word.length; i++) isHit[i] = true;
  }
  const parts: { text: string; hit: boolean }[] = [];
  [...text].forEach((c, i) => {
    const lastPart = parts[parts.length - 1];
    if (lastPart && lastPart.hit === (isHit[i] ?? false)) lastPart.text += c;
    else parts.push({ text: c, hit: isHit[i] ?? false });
  });
  return <>{parts.map((one, i) => (one.hit ? <u key={i}>{one.text}</u> : one.text))}</>;
}

const SHOWN = 8, NEAR = 3;

function useEntries(query: string): Entry[] {
  const [operations, setOperations] = useState<Operation[]>([]);
  useEffect(() => void readOperations().then(setOperations, () => undefined), []);
  return useMemo(() => {
    const world = getWorld();
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const rank = (list: Entry[], most: number, by = words): Entry[] =>
      list.map((one) => ({ one, points: score(`${one.title} ${one.command}`, by) })).filter((x) => x.points >= 0).sort((a, b) => b.points - a.points).slice(0, most).map((x) => x.one);
    const found = rank(placeEntries(world), SHOWN), last = words[words.length - 1] ?? "";
    // "stop w": no place has both words, but the things that are meant can be looked at, too
    const near = found.length > 0 || words.length < 2 ? found : rank(placeEntries(world).filter((one) => one.title.toLowerCase().startsWith(last)), NEAR, [last]);
    const seen = new Set<string>(); // one operation may have two routes
    const all = operations.filter((one) => !seen.has(one.command + one.summary) && seen.add(one.command + one.summary)).map((one): Entry => ({ key: `op ${one.id}`, title: one.summary, detail: "", command: one.command, icon: "right", group: "all", run: () => openForm(one), fill: () => openForm(one) }));
    return [...rank([...newEntries(), ...workEntries(world), ...heldEntries(world), ...processEntries(world)], SHOWN), ...near, ...(words.length > 0 ? rank(all, SHOWN) : [])];
  }, [query, operations]);
}

const heads: Record<Entry["group"], TextKey> = { operations: "palette.operations", places: "palette.places", all: "palette.all" };

function Palette({ onClose }: { onClose: () => void }): JSX.Element {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const entries = useEntries(query);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = entries[Math.min(at, entries.length - 1)];
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [at]);
  const choose = (entry: Entry | undefined): void => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  /** Tab: the form of an operation; the name of a place. */
  const complete = (entry: Entry): void => {
    if (!entry.fill) {
      setQuery(entry.title);
      return;
    }
    onClose();
    entry.fill();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt(Math.min(entries.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") choose(chosen);
    else if (event.key === "Tab" && !event.shiftKey && chosen) complete(chosen);
    else if (event.key.toLowerCase() === "c" && event.ctrlKey && event.shiftKey && chosen?.command) void copy(chosen.command);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <Dialog label={t("palette.title")} class="palette" onClose={onClose}>
      <div class="palette-input">
        <Icon name="find" />
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={chosen ? `palette-${entries.indexOf(chosen)}` : undefined}
          aria-label={t("nav.find")}
          placeholder={t("nav.find")}
          data-first
          value={query}
          onInput={(event) => {
            setQuery(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
        <kbd aria-hidden="true">Esc</kbd>
      </div>
      <div class="palette-list" id="palette-list" role="listbox" aria-label={t("palette.title")} ref={list} tabIndex={-1}>
        {entries.map((one, i) => (
          <>
            {entries[i - 1]?.group !== one.group && (
              <div class="palette-head" role="presentation" key={`h${one.group}`}>
                {t(heads[one.group])}
              </div>
            )}
            <div class={`palette-row${one === chosen ? " pick-row" : ""}`} id={`palette-${i}`} role="option" aria-selected={one === chosen} key={one.key} onMouseMove={() => setAt(i)} onClick={() => choose(one)}>
              {one.glyph ? <Glyph name={one.glyph[0]} tone={one.glyph[1]} /> : <Icon name={one.icon ?? "right"} />}
              <span class="cut">
                <span class={one === chosen ? "b" : ""}>
                  <Marked text={one.title} words={words} />
                </span>{" "}
                <span class="dim">{one.detail}</span>
              </span>
              <span class="row command-of">
                <span class="mono dim small cut">{one.command}</span>
                {one === chosen && <kbd aria-hidden="true">↵</kbd>}
              </span>
            </div>
          </>
        ))}
        {entries.length === 0 && <p class="dim pad">{titled("empty.search", { q: query })[0]}</p>}
      </div>
      <div class="palette-foot row dim small">
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> {t("palette.choose")}
        </span>
        <span>
          <kbd>↵</kbd> {t("palette.run_it")}
        </span>
        <span>
          <kbd>Tab</kbd> {t("palette.fill")}
        </span>
        <span class="grow" />
        <span>
          <kbd>Ctrl Shift C</kbd> {t("palette.copy")}
        </span>
      </div>
    </Dialog>
  );
}

export function openPalette(): void {
  openDialog((close) => <Palette onClose={close} />);
}
