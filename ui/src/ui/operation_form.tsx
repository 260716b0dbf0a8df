// The form of any operation, made from its parameters. The answer is shown as it came.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { hasDialogue, quote, refused } from "../actions";
import { call, registerCaller } from "../api/http";
import { refresh } from "../live";
import type { Operation, Parameter } from "../operations";
import { useCanAct } from "../store";
import { capital, t } from "../text";
import { splitWords } from "../words";
import { Check, Choose, Field, Text } from "./form";
import { Dialog } from "./overlays";
import { copy, IconButton } from "./parts";
import { Problem } from "./problem";

type Values = Record<string, string | boolean>;

function valueOf(parameter: Parameter, value: string | boolean | undefined): unknown {
  if (value === undefined || value === "" || value === false) return undefined;
  if (typeof value === "boolean") return value;
  if (parameter.type === "integer") return Number(value);
  if (parameter.type === "list") return splitWords(value);
  if (parameter.type === "object") return Object.fromEntries(splitWords(value).map((one) => [one.split("=")[0] ?? "", one.slice(one.indexOf("=") + 1)]));
  return value;
}

/** Path, query and body of the request. */
function requestOf(operation: Operation, values: Values): { path: string; body: Record<string, unknown> | undefined } {
  let path = operation.path;
  const body: Record<string, unknown> = {};
  const query = new URLSearchParams();
  for (const one of operation.parameters) {
    const value = valueOf(one, values[one.name]);
    if (one.isPath) path = path.replace(`{${one.name}}`, encodeURIComponent(String(value ?? "")));
    else if (value !== undefined && operation.method === "GET") query.append(one.name, String(value));
    else if (value !== undefined) body[one.name] = value;
  }
  const text = query.toString();
  return { path: text ? `${path}?${text}` : path, body: operation.method === "GET" ? undefined : body };
}

/** The command line that does the same. */
function commandFor(operation: Operation, values: Values): string {
  const places: Record<"position" | "option" | "behind", string[]> = { position: [], option: [], behind: [] };
  for (const one of operation.parameters) {
    const value = values[one.name];
    if (value === undefined || value === "" || value === false || one.cli === "none") continue;
    const words = typeof value === "boolean" ? [] : one.type === "list" || one.type === "object" ? splitWords(value) : [value];
    if (one.cli === "position" || one.cli === "behind") places[one.cli].push(...words);
    else if (value === true) places.option.push(`--${one.cli.replace(/_/g, "-")}`);
    else places.option.push(...words.flatMap((word) => [`--${one.cli.replace(/_/g, "-")}`, word]));
  }
  const behind = places.behind.length > 0 ? ["--", ...places.behind] : [];
  return [operation.command, ...[...places.position, ...places.option, ...behind].map(quote)].join(" ");
}

/** What is known of the parameters already, as the form shows it. */
export function shownValues(operation: Operation, known: Record<string, unknown>): Values {
  const shown = (value: unknown): string | boolean => {
    if (typeof value === "boolean") return value;
    if (Array.isArray(value)) return value.map((one) => quote(String(one))).join(" ");
    if (typeof value === "object" && value !== null) return Object.entries(value).map(([key, one]) => quote(`${key}=${String(one)}`)).join(" ");
    return String(value);
  };
  const named = operation.parameters.filter((one) => known[one.name] !== undefined && known[one.name] !== null);
  return Object.fromEntries(named.map((one) => [one.name, shown(known[one.name])]));
}

function Input({ parameter, value, first, onInput }: { parameter: Parameter; value: string; first: boolean; onInput: (value: string) => void }): JSX.Element {
  if (parameter.choices.length > 0) return <Choose value={value} onChoose={onInput} options={["", ...parameter.choices].map((one) => [one, one])} />;
  return <Text value={value} onInput={onInput} mono first={first} required={parameter.isRequired} />;
}

export function OperationForm({ operation, known, onClose }: { operation: Operation; known?: Record<string, unknown>; onClose: () => void }): JSX.Element {
  const [values, setValues] = useState<Values>(() => shownValues(operation, known ?? {}));
  const [answer, setAnswer] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const canAct = useCanAct();
  const first = Math.max(0, operation.parameters.findIndex((one) => one.type !== "boolean" && known?.[one.name] === undefined));
  const set = (name: string, value: string | boolean): void => setValues({ ...values, [name]: value });
  const command = commandFor(operation, values);
  const send = async (): Promise<void> => {
    const { path, body } = requestOf(operation, values);
    try {
      if (operation.method !== "GET") await registerCaller("page");
      setAnswer(JSON.stringify(await call(operation.method, path, body), null, 2));
      setProblem(null);
    } catch (caught) {
      setAnswer("");
      if (hasDialogue(caught)) {
        onClose();
        await refused({ label: operation.summary, command, method: operation.method, path, body: body ?? {}, needsCaller: true, done: operation.summary }, caught, {});
      } else setProblem(caught);
    }
    void refresh();
  };
  return (
    <Dialog label={operation.summary} wide onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <div class="in">
          <h2>{operation.summary}</h2>
          {operation.description && <p class="mid">{operation.description}</p>}
          <div class="fields">
            {operation.parameters.map((one, i) =>
              one.type === "boolean" ? (
                <Check key={one.name} value={values[one.name] === true} onChange={(value) => set(one.name, value)} label={`${one.name} · ${one.description}`} />
              ) : (
                <Field key={one.name} label={one.name + (one.isRequired ? " *" : "")} hint={one.description}>
                  <Input parameter={one} value={String(values[one.name] ?? "")} first={i === first} onInput={(value) => set(one.name, value)} />
                </Field>
              ),
            )}
          </div>
          <Problem problem={problem} />
          {answer && <pre class="mono answer-json">{answer}</pre>}
        </div>
        <div class="foot">
          <span class="mono dim cut grow small form-command" title={command}>
            {command}
          </span>
          <IconButton icon="copy" small label={t("copy.command")} onClick={() => void copy(command)} />
          <button type="button" class="btn" onClick={onClose}>
            {t("close")}
          </button>
          <button type="submit" class="btn pri" disabled={!canAct}>
            {capital(t("palette.run_it"))}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
