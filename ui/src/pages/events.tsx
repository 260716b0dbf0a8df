// What happened: filters, the last hour in 120 bars, the list. New rows wait while the list is hovered or scrolled.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api/http";
import type { TrailEvent } from "../api/types";
import { useKey } from "../keys";
import { groupOf, isBad, placeOf, sentenceOf, type EventGroup } from "../sentences";
import { useTick, useWorld } from "../store";
import { grouped, t, titled } from "../text";
import { clock, exact, now } from "../time";
import { Menu } from "../ui/overlays";
import { By, Empty, Search, Seg } from "../ui/parts";
import { Glyph, Icon } from "../ui/shapes";
import { nameOfEvent } from "../who";

type Filter = "all" | EventGroup;
const SHOWN_MAX = 500, OLDER = 500;
const KEPT_LEAST = 1000; // fewer are all that there are
const HOUR_MS = 3600_000, BINS = 120;

interface Bin {
  all: number;
  bad: number;
}

/** How many events there were in each part of the hour before the ones that the page keeps: the server has counted them. */
function useCounts(before: number): { time: number; bin: Bin }[] {
  const [counts, setCounts] = useState<{ time: number; bin: Bin }[]>([]);
  const isShort = before > now() - HOUR_MS;
  useEffect(() => {
    if (!isShort) return;
    let isMine = true;
    call<{ from: string; to: string; bins: Bin[] }>("GET", `/api/events/counts?since=1h&until=${encodeURIComponent(new Date(before - 1).toISOString())}&bins=${BINS}`).then(
      ({ from, to, bins }) => {
        const step = (Date.parse(to) - Date.parse(from)) / bins.length;
        if (isMine) setCounts(bins.map((bin, i) => ({ time: Date.parse(from) + (i + 0.5) * step, bin })));
      },
      () => undefined,
    );
    return () => void (isMine = false);
  }, [isShort, isShort ? Math.floor(before / 60_000) : 0]); // at most once a minute, however fast they come
  return isShort ? counts : [];
}

function HourBars({ events }: { events: TrailEvent[] }): JSX.Element {
  useTick();
  const end = now();
  const counts = useCounts(events.length >= KEPT_LEAST ? Date.parse(events[0]?.time ?? "") : 0);
  const bins = Array.from({ length: BINS }, () => ({ all: 0, bad: 0 }));
  const add = (time: number, bin: Bin): void => {
    const into = bins[Math.floor(((time - end + HOUR_MS) / HOUR_MS) * BINS)];
    if (!into) return;
    into.all += bin.all;
    into.bad += bin.bad;
  };
  for (const { time, bin } of counts) add(time, bin);
  for (const event of events) add(Date.parse(event.time), { all: 1, bad: isBad(event) ? 1 : 0 });
  const most = Math.max(4, ...bins.map((one) => one.all));
  const high = (n: number): number => (n === 0 ? 0 : Math.max(2, (32 * Math.log1p(n)) / Math.log1p(most)));
  const total = bins.reduce((sum, one) => sum + one.all, 0);
  return (
    <div class="hourbars">
      <svg viewBox="0 0 1200 36" preserveAspectRatio="none" role="img" aria-label={t("events.hour", { n: total })}>
        <rect class="base" x="0" y="35" width="1200" height="1" />
        {bins.map((one, i) => (
          <g key={i}>
            <rect class="all" x={i * 10 + 1} y={35 - high(one.all)} width="8" height={high(one.all)} rx="1" />
            {one.bad > 0 && <rect class="bad" x={i * 10 + 1} y={35 - high(one.all)} width="8" height="4" rx="1" />}
          </g>
        ))}
      </svg>
      <div class="row dim num small between" aria-hidden="true">
        {[60, 45, 30, 15].map((minutes) => (
          <span key={minutes}>{clock(end - minutes * 60_000).slice(0, 5)}</span>
        ))}
        <span class="run">{t("events.now")}</span>
      </div>
    </div>
  );
}

function Row({ event, isOpen, onToggle }: { event: TrailEvent; isOpen: boolean; onToggle: () => void }): JSX.Element {
  const one = sentenceOf(event);
  const place = placeOf(event);
  return (
    <div class="event">
      <div class={`item c-event opens${isOpen ? " sel" : ""}`} onClick={(event) => event.target instanceof Element && !event.target.closest("a, button") && onToggle()}>
        <time class="dim mono" title={exact(event.time)} dateTime={event.time}>
          {clock(event.time, true)}
        </time>
        <Glyph name={one.glyph} tone={one.tone} />
        <span class="cut">
          {one.before}
          {place ? <a class="b" href={place}>{one.thing}</a> : <b class="b">{one.thing}</b>}
          {one.after}
        </span>
        <By name={nameOfEvent(event)} wide />
        <span class="mono dim cut type">{event.type}</span>
        <button type="button" class="btn ghost ic s" aria-expanded={isOpen} aria-label={`${t("events.json")} ${event.id}`} data-row onClick={onToggle}>
          <Icon name={isOpen ? "open" : "right"} />
        </button>
      </div>
      {isOpen && <pre class="mono json">{JSON.stringify(event, null, 2)}</pre>}
    </div>
  );
}

/** Events before those that the page keeps, when they are asked for. From then on none is dropped, so that there is no gap. */
function useOlder(newer: TrailEvent[]): { events: TrailEvent[]; more: (() => void) | null } {
  const all = useRef<TrailEvent[]>([]);
  const [isBegun, setBegun] = useState(false);
  const [, again] = useState(0);
  const last = all.current[all.current.length - 1]?.id;
  if (last !== undefined) all.current.push(...newer.filter((one) => one.id > last));
  const events = last === undefined ? newer : all.current;
  const first = events[0]?.id;
  const more = (): void => {
    call<{ events: TrailEvent[] }>("GET", `/api/events?before=${first ?? 0}&limit=${OLDER}`).then(
      (got) => {
        const known = all.current.length > 0 ? all.current : events;
        if (known[0]?.id !== first) return; // asked twice
        if (got.events.length === 0) setBegun(true);
        else all.current = [...got.events, ...known];
        again((n) => n + 1);
      },
      () => undefined,
    );
  };
  const areAll = last === undefined && newer.length < KEPT_LEAST;
  return { events, more: isBegun || areAll || first === undefined ? null : more };
}

export function Events(): JSX.Element {
  const { events, more } = useOlder(useWorld((w) => w.events));
  const [most, setMost] = useState(SHOWN_MAX);
  const [filter, setFilter] = useState<Filter>("all");
  const [words, setWords] = useState("");
  const [actor, setActor] = useState("");
  const [open, setOpen] = useState<number | null>(null);
  const [follows, setFollows] = useState(true);
  const [held, setHeld] = useState<number | null>(null); // the newest id that is shown while the list stands still
  const list = useRef<HTMLDivElement>(null);
  useKey("f", () => setFollows(!follows));
  const newest = events[events.length - 1]?.id ?? 0;
  const isStill = !follows || held !== null;
  const limit = isStill ? (held ?? newest) : Infinity;
  useEffect(() => {
    if (!follows && held === null) setHeld(newest);
    if (follows && held !== null && !list.current?.matches(":hover")) setHeld(null);
  }, [follows]);
  const query = words.toLowerCase();
  const actors = [...new Set(events.flatMap((one) => nameOfEvent(one)?.label ?? []))].sort();
  const matching = events.filter((one) => (actor === "" || nameOfEvent(one)?.label === actor) && (filter === "all" || groupOf(one.type) === filter) && (query === "" || `${JSON.stringify(one)}${sentenceOf(one).thing}`.toLowerCase().includes(query)));
  const shown = matching.filter((one) => one.id <= limit).slice(-most).sort((a, b) => b.time.localeCompare(a.time) || b.id - a.id); // ids are places in the trail
  const waiting = matching.filter((one) => one.id > limit).length;
  const today = new Date(now()).toDateString();
  const ofToday = events.filter((one) => new Date(one.time).toDateString() === today).length;
  const areMore = ofToday === events.length && more !== null; // midnight is before the ones that the page has
  const choices: { value: Filter; label: string }[] = [
    { value: "all", label: t("filter.all") },
    { value: "processes", label: t("nav.processes") },
    { value: "runs", label: t("nav.runs") },
    { value: "queue", label: t("events.queue") },
    { value: "locks", label: t("locks.title") },
    { value: "owners", label: t("locks.owners") },
    { value: "confirmations", label: t("events.confirmations") },
  ];
  return (
    <div class="page">
      <div class="row tools-row">
        <Seg label={t("filter")} value={filter} onChoose={setFilter} choices={choices} />
        <Search label={t("events.search")} value={words} onInput={setWords} />
        {actors.length > 0 && (
          <Menu label={t("events.anyone")} items={["", ...actors.slice(0, 20)].map((one) => ({ label: one || t("events.anyone"), run: () => setActor(one) }))}>
            <Icon name="people" />
            {actor || t("events.anyone")}
          </Menu>
        )}
        <span class="grow" />
        <span class="dim num">{t("events.today", { n: areMore ? `${grouped(ofToday)}+` : ofToday })}</span>
        <button type="button" class={`btn${follows ? " held" : ""}`} aria-pressed={follows} onClick={() => setFollows(!follows)}>
          <Icon name="down" />
          {t("log.follow")}
        </button>
      </div>
      <HourBars events={events} />
      <div class="list-wrap" ref={list} onMouseEnter={() => setHeld(newest)} onMouseLeave={() => follows && setHeld(null)}>
      {waiting > 0 && (
        <button
          type="button"
          class="btn new-rows"
          onClick={() => {
            setHeld(null);
            setFollows(true);
          }}
        >
          {t("list.new", { n: waiting })}
        </button>
      )}
      {shown.length === 0 ? (
        <Empty icon="events" texts={titled("empty.events")} />
      ) : (
        <div class="list">
          {shown.map((one) => (
            <Row key={one.id} event={one} isOpen={open === one.id} onToggle={() => setOpen(open === one.id ? null : one.id)} />
          ))}
        </div>
      )}
      {(more || matching.length > most) && (
        <button
          type="button"
          class="btn older-rows"
          onClick={() => {
            setMost(most + OLDER);
            if (matching.length < most + OLDER) more?.();
          }}
        >
          {t("events.older")}
        </button>
      )}
      </div>
    </div>
  );
}
