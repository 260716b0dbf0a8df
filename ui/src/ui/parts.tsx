// The small parts that every page is made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { State } from "../states";
import { capital, t } from "../text";
import { ago, exact, left, leftOf } from "../time";
import { useTick } from "../store";
import type { Name } from "../who";
import type { Lock } from "../api/types";
import { Glyph, Icon, type IconName } from "./shapes";
import { toast } from "./overlays";

export function Mark({ state }: { state: State }): JSX.Element {
  return (
    <span class="mark" title={state.wire}>
      <Glyph name={state.glyph} tone={state.tone} label={state.word} />
    </span>
  );
}

/** Shape and word. */
export function StateText({ state }: { state: State }): JSX.Element {
  return (
    <span class={`state ${state.loud ? state.tone : ""}`} title={state.wire}>
      <Glyph name={state.glyph} tone={state.tone} />
      <span class="cut">{state.word}</span>
    </span>
  );
}

export function StateTag({ state }: { state: State }): JSX.Element {
  const tone = state.tone === "mid" || state.tone === "dim" ? "" : state.tone;
  return (
    <span class={`tag ${tone}`} title={state.wire}>
      <Glyph name={state.glyph} />
      {capital(state.word)}
    </span>
  );
}

const letters = new Map<string, string>(); // of each name: one of its own letters, the first that no other name has

function letterOf(label: string): string {
  const known = letters.get(label);
  if (known) return known;
  const own = [...label.toUpperCase()].filter((one) => /[\p{L}\p{N}]/u.test(one));
  const taken = new Set(letters.values());
  const found = own.find((one) => !taken.has(one)) ?? own[0] ?? "?";
  letters.set(label, found);
  return found;
}

export function Avatar({ name, small, gone }: { name: Name; small?: boolean; gone?: boolean }): JSX.Element {
  const letter = name.isKnown ? letterOf(name.label) : "?";
  return (
    <span class={`av${small ? " s" : ""}${name.isPerson ? " person" : ""}${gone ? " gone" : ""}`} aria-hidden="true">
      {letter}
    </span>
  );
}

/** Mark and name; the name is left out where there is little room. */
export function By({ name, wide }: { name: Name | null; wide?: boolean }): JSX.Element {
  if (!name) return <span />;
  return (
    <span class="row cut by" title={name.note ? `${name.label}: ${name.note}` : name.label}>
      <Avatar name={name} small />
      <span class={`cut mid${wide ? "" : " w1400"}`}>{name.label}</span>
    </span>
  );
}

export function Ago({ time }: { time: string }): JSX.Element {
  useTick();
  return (
    <time dateTime={time} title={exact(time)}>
      {ago(time)}
    </time>
  );
}

export function At({ time, children, class: name }: { time: string; children: ComponentChildren; class?: string }): JSX.Element {
  return (
    <time class={name} dateTime={time} title={exact(time)}>
      {children}
    </time>
  );
}

/** `LOCKED`, with what is left of its time as a line. */
export function LockedTag({ lock }: { lock: Lock }): JSX.Element {
  useTick();
  const total = lock.expires_at && lock.created_at ? Date.parse(lock.expires_at) - Date.parse(lock.created_at) : 0;
  const rest = leftOf(lock) ?? 0;
  const share = total > 0 ? rest / Math.max(total, rest) : 0;
  return (
    <span class="tag locked" style={{ "--left": `${Math.round(share * 100)}%` }}>
      <Glyph name="lock" />
      LOCKED
    </span>
  );
}

export function Left({ lock }: { lock: Lock }): JSX.Element | null {
  useTick();
  const rest = leftOf(lock);
  return rest === null ? null : <span class="dim num">{t("time.left", { left: left(rest) })}</span>;
}

export function Section(props: { title: string; count?: number | undefined; more?: ComponentChildren; children: ComponentChildren; id?: string }): JSX.Element {
  return (
    <section class="sec" aria-label={props.title} id={props.id}>
      <header>
        <h2>{props.title}</h2>
        {props.count !== undefined && <span class="c">{props.count}</span>}
        {props.more && <span class="more">{props.more}</span>}
      </header>
      {props.children}
    </section>
  );
}

export interface Choice<T extends string> {
  value: T;
  label: string;
  count?: number;
}

export function Seg<T extends string>(props: { label: string; choices: Choice<T>[]; value: T; onChoose: (value: T) => void }): JSX.Element {
  return (
    <div class="seg" role="group" aria-label={props.label}>
      {props.choices.map((one) => (
        <button type="button" key={one.value} class={one.value === props.value ? "on" : ""} aria-pressed={one.value === props.value} onClick={() => props.onChoose(one.value)}>
          {one.label}
          {one.count !== undefined && <sup>{one.count}</sup>}
        </button>
      ))}
    </div>
  );
}

export function IconButton(props: { icon: IconName; label: string; onClick: () => void; pressed?: boolean; ghost?: boolean; small?: boolean; disabled?: boolean }): JSX.Element {
  return (
    <button
      type="button"
      class={`btn ic${props.ghost === false ? "" : " ghost"}${props.small ? " s" : ""}${props.pressed ? " held" : ""}`}
      aria-label={props.label}
      title={props.label}
      {...(props.pressed !== undefined ? { "aria-pressed": props.pressed } : {})}
      disabled={props.disabled}
      onClick={props.onClick}
    >
      <Icon name={props.icon} />
    </button>
  );
}

export async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  toast({ text: t("copy.done") });
}

/** A command line that can be copied. */
export function Command({ text }: { text: string }): JSX.Element {
  return (
    <span class="command row">
      <span class="mono cut">
        <span class="dim">$ </span>
        {text}
      </span>
      <IconButton icon="copy" small label={t("copy.command")} onClick={() => void copy(text)} />
    </span>
  );
}

export function Empty(props: { texts: [string, string]; icon: IconName; command?: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <Icon name={props.icon} />
      <h3>{props.texts[0]}</h3>
      {props.texts[1] && <p>{props.texts[1]}</p>}
      {props.command && <Command text={props.command} />}
      {props.children && <div class="row center">{props.children}</div>}
    </div>
  );
}

/** Grey rows, but only when the answer takes long enough to notice. */
export function Skeleton(): JSX.Element {
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setDue(true), 150);
    return () => clearTimeout(timer);
  }, []);
  if (!isDue) return <span class="skeleton" hidden />;
  return (
    <div role="status" aria-label={t("loading")} class="skeleton">
      {[70, 52, 88].map((width) => (
        <div class="row" key={width}>
          <span class="sk round" />
          <span class="sk" style={{ width: `${width}px` }} />
          <span class="sk wide" />
        </div>
      ))}
    </div>
  );
}

export function Search(props: { label: string; value: string; onInput: (value: string) => void; extra?: ComponentChildren; onKeyDown?: (event: KeyboardEvent) => void }): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  return (
    <label class="input">
      <Icon name="find" />
      <input
        ref={input}
        type="search"
        aria-label={props.label}
        placeholder={props.label}
        value={props.value}
        data-search
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            if (props.value === "") input.current?.blur();
            props.onInput("");
            event.stopPropagation();
          }
          props.onKeyDown?.(event);
        }}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
      {props.extra}
    </label>
  );
}
