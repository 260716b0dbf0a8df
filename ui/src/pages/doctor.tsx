// The last verdict, what needs attention and what to do about it. Opening the page examines nothing.
import type { JSX } from "preact";
import { Act } from "../actions";
import type { DoctorCheck, DoctorReport, Lock } from "../api/types";
import { examine } from "../doctor";
import { fixAll, fixOf } from "../fixes";
import { href, type PageName } from "../route";
import { lifeState } from "../states";
import { useTick, useWorld } from "../store";
import { t, titled } from "../text";
import { ago } from "../time";
import { Command, Empty, Section } from "../ui/parts";
import { Glyph } from "../ui/shapes";
import { nameOfHolder } from "../who";

/** The page that shows what a check is about. */
const places: Record<string, PageName> = { sprint: "locks", locks: "locks", owners: "locks", processes: "processes", process_dirs: "processes", requests: "requests", events: "events", runs: "runs", journals: "runs" };

/** A button for each command of a finding that is an operation; else the way to the page that shows what it is about. */
function Fixes({ check, report }: { check: DoctorCheck; report: DoctorReport }): JSX.Element | null {
  const world = useWorld((w) => w);
  const place = places[check.name];
  const actions = (check.fix ?? []).map((one) => fixOf(one, world, report)).filter((one) => one !== null);
  if (actions.length === 0) return place ? <a class="btn s" href={href(place)}>{t("look")}</a> : null;
  return (
    <div class="fixes">
      {actions.map((one) => (
        <>
          <Act small key={one.command} action={one} />
          {one.question && <span class="dim small">{t("doctor.asks")}</span>}
        </>
      ))}
    </div>
  );
}

function Finding({ check, report }: { check: DoctorCheck; report: DoctorReport }): JSX.Element {
  const isFail = check.status === "FAIL";
  return (
    <div class="card finding">
      <Glyph name={isFail ? "cross" : "triangle"} tone={isFail ? "bad" : "warn"} label={check.status} />
      <div class="cut">
        <div class="row">
          <b class="b big">{check.title}</b>
          <span class={`tag ${isFail ? "bad" : "warn"}`}>{check.status}</span>
          <span class="mid cut">{check.summary}</span>
        </div>
        {check.evidence.filter((one) => one !== check.summary).length > 0 && (
          <ul class="evidence mid">
            {check.evidence.filter((one) => one !== check.summary).map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        )}
        {(check.fix ?? []).map((one) => (
          <Command key={one} text={one} />
        ))}
      </div>
      <Fixes check={check} report={report} />
    </div>
  );
}

/** A lock that the examination has taken from a dead holder. */
function Recovered({ lock }: { lock: Lock }): JSX.Element {
  const holder = lock.holder;
  const name = nameOfHolder(holder);
  const who = name.isKnown && holder?.pid ? `${name.label}, pid ${holder.pid}` : name.label;
  return (
    <div class="row line">
      <Glyph name="broken" tone="warn" />
      <b class="b">
        {t(`lock.kind.${lock.kind}`)} {lock.id ?? ""}
      </b>
      <span class="mid">{t("doctor.was_held", { who, life: lifeState(holder?.alive ?? false, holder?.how).word })}</span>
      <span class="grow" />
      <span class="mono dim">LOCK_STALE_RECOVERED</span>
    </div>
  );
}

export function Doctor(): JSX.Element {
  const report = useWorld((w) => w.doctor);
  useTick();
  if (!report)
    return (
      <div class="page">
        <Empty icon="doctor" texts={titled("empty.doctor")} command="tasuki doctor">
          <Act action={examine("quick")} />
          <Act action={{ ...examine("full"), tone: "pri", icon: "doctor" }} />
        </Empty>
      </div>
    );
  const attention = report.checks.filter((one) => one.status !== "PASS");
  const passes = report.checks.filter((one) => one.status === "PASS");
  const tone = report.status === "FAIL" ? "bad" : report.status === "WARN" ? "warn" : "";
  return (
    <div class="page">
      <div class="row sentence-row">
        <p class="sentence">
          {attention.length > 0 ? <span class={tone}>{attention.length === 1 ? t("doctor.attention.one") : t("doctor.attention.many", { n: attention.length })} </span> : null}
          <span class={attention.length > 0 ? "dim" : ""}>{t("doctor.pass", { n: passes.length })}</span>
        </p>
        <span class="grow" />
        <span class="dim num">
          {report.mode} · {ago(new Date(report.at).toISOString())} · {t("doctor.took", { ms: Math.round(report.took) })}
        </span>
        <Act action={examine("quick")} />
        <Act action={{ ...examine("full"), tone: "pri", icon: "doctor" }} />
      </div>
      {attention.length > 0 && (
        <Section
          title={t("doctor.h_attention")}
          count={attention.length}
          more={<Act small action={{ ...fixAll(), label: t("doctor.fix") }} />}
        >
          <div class="stack">
            {attention.map((one) => (
              <Finding key={one.name} check={one} report={report} />
            ))}
          </div>
        </Section>
      )}
      {report.recovered.length > 0 && (
        <Section title={t("doctor.h_recovered")} count={report.recovered.length}>
          <div class="list">
            {report.recovered.map((one, i) => (
              <Recovered key={i} lock={one} />
            ))}
          </div>
        </Section>
      )}
      <Section title={t("doctor.h_passes")} count={passes.length}>
        <div class="list passes">
          {passes.map((one) => (
            <div class="row line cut" key={one.name}>
              <Glyph name="check" tone="ok" label="PASS" />
              <span class="b pass-name">{one.title}</span>
              <span class="dim cut">{one.summary}</span>
            </div>
          ))}
        </div>
      </Section>
    </div>
  );
}
