// The side bar, and the tabs at the bottom of a narrow screen.
import { openKeys } from "./forms";
import type { JSX } from "preact";
import { allBroken, brokenLocks, brokenProcesses, openQuestions, openRunsOf } from "../broke";
import { href, type PageName, type Route } from "../route";
import { lifeState } from "../states";
import { useWorld } from "../store";
import { chooseLanguage, language, languages, t, titled, type Language, type TextKey } from "../text";
import { isDark, toggleTheme } from "../theme";
import { nameOfAgent } from "../who";
import { Menu } from "./overlays";
import { Avatar } from "./parts";
import { Icon, type IconName } from "./shapes";
import { useState } from "preact/hooks";

interface Entry {
  page: PageName;
  icon: IconName;
  text: TextKey;
}

const all: Entry[] = [
  { page: "", icon: "overview", text: "nav.overview" },
  { page: "processes", icon: "processes", text: "nav.processes" },
  { page: "requests", icon: "requests", text: "nav.requests" },
  { page: "runs", icon: "runs", text: "nav.runs" },
  { page: "locks", icon: "locks", text: "nav.locks" },
  { page: "events", icon: "events", text: "nav.events" },
  { page: "doctor", icon: "doctor", text: "nav.doctor" },
  { page: "workers", icon: "workers", text: "nav.workers" },
];

/** Workers are there when Redis is. */
function useEntries(): Entry[] {
  const hasPool = useWorld((w) => w.pool !== null);
  return all.filter((one) => hasPool || one.page !== "workers");
}

interface Pips {
  tone?: "ask" | "bad" | "warn";
  pip: number;
  count?: number;
}

function usePips(): Record<PageName, Pips> {
  const processes = useWorld((w) => w.processes.length);
  const failed = useWorld((w) => brokenProcesses(w).length);
  const requests = useWorld((w) => w.requests.filter((one) => one.status !== "done" && one.status !== "archived").length);
  const runs = useWorld((w) => openRunsOf(w).length);
  const asks = useWorld((w) => openQuestions(w).length);
  const locks = useWorld((w) => w.locks.length);
  const dead = useWorld((w) => brokenLocks(w).length);
  const attention = useWorld((w) => (w.doctor?.checks ?? []).filter((one) => one.status !== "PASS").length);
  const workers = useWorld((w) => w.pool?.workers.length ?? 0);
  const unreachable = useWorld((w) => (w.pool?.problem ? 1 : 0));
  return {
    "": { pip: 0 },
    processes: { tone: "bad", pip: failed, count: processes },
    requests: { pip: 0, count: requests },
    runs: { tone: "ask", pip: asks, count: runs },
    locks: { tone: "warn", pip: dead, count: locks },
    events: { pip: 0 },
    doctor: { tone: "warn", pip: attention },
    workers: { tone: "warn", pip: unreachable, ...(unreachable > 0 ? {} : { count: workers }) },
  };
}

function Pip({ pips }: { pips: Pips }): JSX.Element | null {
  return pips.pip > 0 ? <span class={`pip ${pips.tone}`}>{pips.pip}</span> : null;
}

function Here(): JSX.Element | null {
  const agents = useWorld((w) => w.agents);
  if (!agents) return null;
  const [none, why] = titled("empty.here");
  return (
    <section aria-label={t("nav.here")} class="here">
      <h3>{t("nav.here")}</h3>
      {agents.length === 0 && <p class="dim" title={why}>{none}</p>}
      {agents.slice(0, 12).map((agent) => {
        const name = nameOfAgent(agent);
        return (
          <div class="who" key={agent.instance} title={lifeState(agent.alive, agent.how).word}>
            <Avatar name={name} gone={agent.alive === false} />
            <div class="cut">
              <b class="cut">{name.label}</b>
              <small class="cut">{name.note}</small>
            </div>
          </div>
        );
      })}
    </section>
  );
}

/** The end of a path is its name: of a deep one, the last two parts. */
function shortRoot(root: string): string {
  const path = root.replace(/^\/(home\/[^/]+|root)(?=\/|$)/, "~"), parts = path.split("/");
  return parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : path;
}

export function Logo(): JSX.Element {
  return (
    <svg class="logo" width="26" height="26" viewBox="0 0 26 26" aria-hidden="true">
      <clipPath id="lg">
        <rect width="26" height="26" rx="7" />
      </clipPath>
      <g clip-path="url(#lg)">
        <rect width="26" height="26" fill="var(--ink)" />
        <path d="M-3 1.5L3.5-4l27 26-6.5 6.5z" fill="var(--inv)" />
      </g>
    </svg>
  );
}

export function Languages(): JSX.Element {
  return (
    <Menu
      label={t("language")}
      items={(Object.keys(languages) as Language[]).map((one) => ({ label: languages[one], run: () => void chooseLanguage(one) }))}
    >
      <Icon name="globe" />
      <span>{languages[language()]}</span>
    </Menu>
  );
}

export function ThemeButton(): JSX.Element {
  const [, again] = useState(0);
  return (
    <button type="button" class="btn ghost ic" aria-label={t("theme")} title={t("theme")} onClick={() => { toggleTheme(); again((n) => n + 1); }}>
      <Icon name={isDark() ? "sun" : "moon"} />
    </button>
  );
}

export function Side({ route }: { route: Route }): JSX.Element {
  const pips = usePips(), entries = useEntries();
  const root = useWorld((w) => w.root), host = useWorld((w) => w.host);
  return (
    <nav class="side" aria-label={t("nav.main")}>
      <div class="brand" title={[root, host].filter(Boolean).join(" · ")}>
        <Logo />
        <div class="cut">
          <b>tasuki</b>
          <small class="place">
            <span class="cut">{shortRoot(root)}</span>
            {host && <span class="cut host"> · {host.split(".")[0]}</span>}
          </small>
        </div>
      </div>
      {entries.map((one) => (
        <a key={one.page} class={`nav${route.page === one.page ? " on" : ""}`} href={href(one.page)} aria-current={route.page === one.page ? "page" : undefined} title={t(one.text)}>
          <Icon name={one.icon} />
          <span>{t(one.text)}</span>
          <span class="n">
            <Pip pips={pips[one.page]} />
            {pips[one.page].count}
          </span>
        </a>
      ))}
      <Here />
      <footer>
        <Languages />
        <ThemeButton />
        <button type="button" class="btn ghost ic" aria-label={t("keys.title")} title={t("keys.title")} onClick={() => void openKeys()}>
          <kbd>?</kbd>
        </button>
      </footer>
    </nav>
  );
}

export function Tabs({ route }: { route: Route }): JSX.Element {
  const pips = usePips(), entries = useEntries();
  const broke = useWorld((w) => allBroken(w).length);
  const [isMore, setMore] = useState(false);
  const first = entries.slice(0, 4), rest = entries.slice(4);
  const inRest = rest.some((one) => one.page === route.page);
  return (
    <nav class="tabs" aria-label={t("nav.tabs")} data-broke={broke}>
      {first.map((one) => (
        <a key={one.page} class={route.page === one.page ? "on" : ""} href={href(one.page)} aria-current={route.page === one.page ? "page" : undefined} onClick={() => setMore(false)}>
          <Icon name={one.icon} />
          {t(one.text)}
          <Pip pips={pips[one.page]} />
        </a>
      ))}
      <button type="button" class={inRest || isMore ? "on" : ""} aria-expanded={isMore} onClick={() => setMore(!isMore)}>
        <Icon name="menu" />
        {t("nav.more")}
      </button>
      {isMore && (
        <div class="more-sheet">
          {rest.map((one) => (
            <a key={one.page} class={`nav${route.page === one.page ? " on" : ""}`} href={href(one.page)} onClick={() => setMore(false)}>
              <Icon name={one.icon} />
              <span>{t(one.text)}</span>
              <span class="n">
                <Pip pips={pips[one.page]} />
                {pips[one.page].count}
              </span>
            </a>
          ))}
          <div class="row">
            <Languages />
            <ThemeButton />
          </div>
        </div>
      )}
    </nav>
  );
}
