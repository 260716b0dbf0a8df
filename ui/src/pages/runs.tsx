// Runs: those that ask or run, those that failed, then the finished ones by day.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api/http";
import type { Run } from "../api/types";
import { brokenRuns, isAsking, openRunsOf } from "../broke";
import { href } from "../route";
import { runState } from "../states";
import { useTick, useWorld } from "../store";
import { language, t, titled } from "../text";
import { ago, exact, tookOf } from "../time";
import { NewRows, useHold, type Group } from "../ui/hold";
import { By, Empty, Mark, Search, Section } from "../ui/parts";
import { Progress } from "../ui/progress";
import { useTint } from "../ui/tint";
import { nameOfHolder, nameOfWho, shortId } from "../who";

const PAGE = 100;

/** With older runs than those that the page keeps, page by page. */
function useHistory(): { runs: Run[]; more: (() => void) | null } {
  const fresh = useWorld((w) => w.runs);
  const [older, setOlder] = useState<{ runs: Run[]; cursor: string | null } | null>(null);
  const first = useWorld((w) => w.olderRuns);
  const cursor = older ? older.cursor : first;
  const load = (): void =>
    void call<{ runs: Run[]; cursor: string | null }>("GET", `/api/runs?limit=${PAGE}&cursor=${encodeURIComponent(cursor ?? "")}`).then(
      (page) => setOlder({ runs: [...(older?.runs ?? []), ...page.runs], cursor: page.cursor }),
      () => undefined,
    );
  const known = new Set(fresh.map((one) => one.run_id));
  return { runs: [...fresh, ...(older?.runs ?? []).filter((one) => !known.has(one.run_id))], more: cursor ? load : null };
}

function Row({ run }: { run: Run }): JSX.Element {
  const detail = useWorld((w) => w.openRuns[run.run_id]);
  const request = useWorld((w) => w.requests.find((one) => one.id === run.request_id));
  useTick();
  const tint = useTint(run.status);
  const asks = useWorld((w) => isAsking(w, run.run_id));
  const isOpen = run.status === "RUNNING" || run.status === "NEEDS_INPUT";
  const holder = isOpen && request?.lock ? nameOfHolder(request.lock.holder) : null;
  return (
    <a class={`item c-runs${tint}`} href={href("runs", run.run_id)} data-row>
      <Mark state={runState(asks ? "NEEDS_INPUT" : run.status)} />
      <div class="row cut">
        <span class="name cut">{run.flow}</span>
        <span class="mono dim tiny" title={run.run_id}>
          {shortId(run.run_id)}
        </span>
      </div>
      <span class="cut dim">{request?.title ?? ""}</span>
      <By name={nameOfWho(run.started_by) ?? holder} />
      <Progress run={detail ?? run} />
      <span class="mid num w1400 right">{run.counts && t("tasks.of", { n: run.counts.ok, total: run.counts.total })}</span>
      <span class="num mid right">{tookOf(run, isOpen)}</span>
      <time class="dim right num" dateTime={run.started_at} title={exact(run.started_at)}>
        {ago(run.started_at)}
      </time>
    </a>
  );
}

function dayOf(run: Run): string {
  const locale = { en: "en-GB", ja: "ja-JP", zh: "zh-CN" }[language()];
  return new Intl.DateTimeFormat(locale, { weekday: "short", day: "numeric", month: "short" }).format(Date.parse(run.started_at));
}

export function Runs(): JSX.Element {
  const world = useWorld((w) => w);
  const { runs, more } = useHistory();
  const [words, setWords] = useState("");
  const titles = new Map(world.requests.map((one) => [one.id, one.title]));
  const matches = (run: Run): boolean => `${run.flow} ${run.run_id} ${titles.get(run.request_id ?? "") ?? ""} ${run.started_by?.label ?? ""}`.toLowerCase().includes(words.toLowerCase());
  const open = openRunsOf(world).filter(matches);
  const broken = brokenRuns(world).filter(matches);
  const shown = new Set([...open, ...broken].map((one) => one.run_id));
  const days = new Map<string, Run[]>();
  for (const run of runs) if (!shown.has(run.run_id) && matches(run)) days.set(dayOf(run), [...(days.get(dayOf(run)) ?? []), run]);
  const groups: Group<Run>[] = [{ title: t("overview.h_runs"), list: open }, { title: t("runs.broken"), list: broken }, ...[...days].map(([title, list]) => ({ title, list }))];
  const hold = useHold(groups, (one) => one.run_id, words);
  if (runs.length === 0)
    return (
      <div class="page">
        <Empty icon="runs" texts={titled("empty.runs")} command="tasuki run FLOW" />
      </div>
    );
  const part = ({ title, list }: Group<Run>): JSX.Element | null =>
    list.length === 0 ? null : (
      <Section key={title} title={title} count={list.length}>
        <div class="list">
          {list.map((one) => (
            <Row key={one.run_id} run={one} />
          ))}
        </div>
      </Section>
    );
  return (
    <div class="page">
      <div class="row tools-row">
        <Search label={t("filter")} value={words} onInput={setWords} />
      </div>
      <NewRows hold={hold} />
      <div class="contents" {...hold.pointer}>
        {hold.groups.map(part)}
        {groups.every((one) => one.list.length === 0) && <p class="dim pad">{titled("empty.search", { q: words })[0]}</p>}
      </div>
      {more && (
        <button type="button" class="btn" onClick={more}>
          {t("runs.older")}
        </button>
      )}
    </div>
  );
}
