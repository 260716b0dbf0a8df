// Fields of forms.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { call, type Method } from "../api/http";
import { refresh } from "../live";
import { useCanAct } from "../store";
import { t } from "../text";
import { Dialog } from "./overlays";
import { Problem } from "./problem";

export function Field(props: { label: string; hint?: string; children: ComponentChildren }): JSX.Element {
  return (
    <label class="field">
      <span class="label">{props.label}</span>
      {props.children}
      {props.hint && <small class="dim">{props.hint}</small>}
    </label>
  );
}

export function Text(props: { value: string; onInput: (value: string) => void; mono?: boolean; first?: boolean; placeholder?: string; required?: boolean; readOnly?: boolean }): JSX.Element {
  return (
    <input
      type="text"
      class={`field-input${props.mono ? " mono" : ""}`}
      value={props.value}
      placeholder={props.placeholder}
      required={props.required}
      readOnly={props.readOnly}
      spellcheck={false}
      autocomplete="off"
      {...(props.first ? { "data-first": true } : {})}
      onInput={(event) => props.onInput(event.currentTarget.value)}
    />
  );
}

export function Area(props: { value: string; onInput: (value: string) => void; rows?: number; mono?: boolean }): JSX.Element {
  return <textarea class={`field-input${props.mono ? " mono" : ""}`} rows={props.rows ?? 3} value={props.value} onInput={(event) => props.onInput(event.currentTarget.value)} />;
}

export function Choose<T extends string>(props: { value: T; options: [T, string][]; onChoose: (value: T) => void }): JSX.Element {
  return (
    <select class="field-input" value={props.value} onChange={(event) => props.onChoose(event.currentTarget.value as T)}>
      {props.options.map(([value, label]) => (
        <option key={value} value={value} selected={value === props.value}>
          {label}
        </option>
      ))}
    </select>
  );
}

export function Check(props: { value: boolean; label: string; onChange: (value: boolean) => void }): JSX.Element {
  return (
    <label class="row check">
      <input type="checkbox" checked={props.value} onChange={(event) => props.onChange(event.currentTarget.checked)} />
      {props.label}
    </label>
  );
}

/** A form in a dialogue. It stays open, with the server's words, when the server says no. */
export function FormDialog(props: { title: string; submit: string; command: string; method: Method; path: string; body: () => object; onDone: (answer: unknown) => void; onClose: () => void; children: ComponentChildren }): JSX.Element {
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const canAct = useCanAct();
  const send = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      const answer = await call(props.method, props.path, props.body());
      props.onClose();
      props.onDone(answer);
      void refresh();
    } catch (caught) {
      setProblem(caught);
      setBusy(false);
    }
  };
  return (
    <Dialog label={props.title} wide onClose={props.onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <div class="in">
          <h2>{props.title}</h2>
          <div class="fields">{props.children}</div>
          <Problem problem={problem} />
        </div>
        <div class="foot">
          <span class="mono dim cut grow small" title={props.command}>
            {props.command}
          </span>
          <button type="button" class="btn" onClick={props.onClose}>
            {t("cancel")}
          </button>
          <button type="submit" class="btn pri" disabled={isBusy || !canAct}>
            {props.submit}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
