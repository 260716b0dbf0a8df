// New process (from a template, too), edited process, and the import of a file with many.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { commandOf, quote } from "../actions";
import { call } from "../api/http";
import type { Process, Template } from "../api/types";
import { go } from "../route";
import { t } from "../text";
import { splitWords } from "../words";
import { Area, Check, Choose, Field, FormDialog, Text } from "./form";
import { openDialog, toast } from "./overlays";

type Restart = "no" | "on-failure" | "always";

function envLines(env: Record<string, string>): string {
  return Object.entries(env).map(([name, value]) => `${name}=${value}`).join("\n");
}

function envOf(lines: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const line of lines.split("\n")) {
    const at = line.indexOf("=");
    if (at > 0) env[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return env;
}

const lineOf = (spec: Template["spec"]): string => [spec.command, ...(spec.args ?? [])].map(quote).join(" ");

function ProcessForm({ process, onClose }: { process: Process | null; onClose: () => void }): JSX.Element {
  const [id, setId] = useState(process?.id ?? "");
  const [line, setLine] = useState(process ? lineOf(process) : "");
  const [cwd, setCwd] = useState(process?.cwd ?? "");
  const [env, setEnv] = useState(envLines(process?.env ?? {}));
  const [restart, setRestart] = useState<Restart>(process?.restart ?? "no");
  const [restores, setRestores] = useState(process?.auto_start_on_restore ?? false);
  const [ready, setReady] = useState("");
  const [starts, setStarts] = useState(true);
  const [templates, setTemplates] = useState<Template[]>([]);
  const [template, setTemplate] = useState<Template | null>(null);
  const [values, setValues] = useState<Record<string, string>>({});
  useEffect(() => {
    if (!process) void call<{ templates: Template[] }>("GET", "/api/templates?limit=1000").then((all) => setTemplates(all.templates), () => undefined);
  }, []);
  const chooseTemplate = (name: string): void => {
    const chosen = templates.find((one) => one.name === name) ?? null;
    setTemplate(chosen);
    setValues({});
    setLine(chosen ? lineOf(chosen.spec) : "");
    setCwd(chosen?.spec.cwd ?? "");
    setRestart(chosen?.spec.restart ?? "no");
    setRestores(chosen?.spec.auto_start_on_restore ?? false);
  };
  const words = splitWords(line);
  // A field cannot show everything that it may hold: what was not changed is not sent.
  const base = process ?? template?.spec;
  const [wasEnv] = useState(env);
  const isSame = { line: base !== undefined && line === lineOf(base), cwd: cwd === (base?.cwd ?? ""), restart: restart === (base?.restart ?? "no"), restores: restores === (base?.auto_start_on_restore ?? false) };
  const body = (): object => ({
    ...(process ? { expected_updated_at: process.updated_at } : { id, start: starts }),
    ...(template ? { set: values } : {}),
    ...(isSame.line ? {} : { command: words[0] ?? "", args: words.slice(1) }),
    ...(env === wasEnv ? {} : env.trim() ? { env: envOf(env) } : { env_clear: true }),
    ...(isSame.cwd || !cwd ? {} : { cwd }),
    ...(isSame.restart ? {} : { restart }),
    ...(isSame.restores ? {} : { auto_start_on_restore: restores }),
    ...(ready ? { ready } : {}),
  });
  const verb = process ? ["update"] : template ? ["template", "use", template.name] : ["create"];
  const options = [
    ...(template?.variables ?? []).flatMap((name) => ["--set", `${name}=${values[name] ?? ""}`]),
    ...(isSame.cwd || !cwd ? [] : ["--cwd", cwd]),
    ...(env === wasEnv ? [] : env.trim() ? Object.entries(envOf(env)).flatMap(([name, value]) => ["--env", `${name}=${value}`]) : ["--env-clear"]),
    ...(isSame.restart ? [] : ["--restart", restart]),
    ...(ready ? ["--ready", ready] : []),
    ...(isSame.restores ? [] : [restores ? "--auto-start" : "--no-auto-start"]),
    ...(starts && !process ? ["--start"] : []),
    ...(isSame.line ? [] : ["--", ...words]),
  ];
  const path = process ? `/api/processes/${encodeURIComponent(process.id)}` : template ? `/api/templates/${encodeURIComponent(template.name)}/use` : "/api/processes";
  return (
    <FormDialog
      title={process ? t("process.edit_title", { id: process.id }) : t("process.new")}
      submit={process ? t("save") : t("create")}
      command={commandOf("proc", ...verb, id || "ID", ...options)}
      method={process ? "PUT" : "POST"}
      path={path}
      body={body}
      onDone={() => go("processes", id)}
      onClose={onClose}
    >
      {!process && (
        <Field label={t("form.name")}>
          <Text value={id} onInput={setId} mono first required placeholder="web" />
        </Field>
      )}
      {templates.length > 0 && (
        <Field label={t("form.template")}>
          <Choose value={template?.name ?? ""} onChoose={chooseTemplate} options={[["", t("form.template.none")], ...templates.map((one): [string, string] => [one.name, one.name])]} />
        </Field>
      )}
      {template?.variables.map((name) => (
        <Field key={name} label={name}>
          <Text value={values[name] ?? ""} onInput={(value) => setValues({ ...values, [name]: value })} mono required />
        </Field>
      ))}
      <Field label={t("form.command")} hint={template ? t("form.template_says") : process?.state_name === "Running" ? t("form.takes_effect") : t("form.no_shell")}>
        <Text value={line} onInput={setLine} mono required placeholder="npm run dev" first={process !== null} readOnly={template !== null} />
      </Field>
      <Field label={t("fact.directory")}>
        <Text value={cwd} onInput={setCwd} mono placeholder="." />
      </Field>
      <Field label={t("fact.env")} hint={template ? t("form.env_adds") : "NAME=value"}>
        <Area value={env} onInput={setEnv} rows={2} mono />
      </Field>
      <Field label={t("form.restart")}>
        <Choose value={restart} onChoose={setRestart} options={[["no", t("form.restart.no")], ["on-failure", t("form.restart.failure")], ["always", t("form.restart.always")]]} />
      </Field>
      {!process && (
        <Field label={t("fact.ready")} hint="port:3000 · http://localhost:3000/ · log:REGEX · exec:CMD">
          <Text value={ready} onInput={setReady} mono />
        </Field>
      )}
      <Check value={restores} onChange={setRestores} label={t("form.restores")} />
      {!process && <Check value={starts} onChange={setStarts} label={t("form.start_now")} />}
    </FormDialog>
  );
}

export function openProcessForm(process: Process | null): void {
  openDialog((close) => <ProcessForm process={process} onClose={close} />);
}

function Import({ onClose }: { onClose: () => void }): JSX.Element {
  const [content, setContent] = useState("");
  return (
    <FormDialog
      title={t("process.import")}
      submit={t("process.import_yes")}
      command={commandOf("proc", "import", "FILE")}
      method="POST"
      path="/api/processes/import"
      body={() => ({ content })}
      onDone={() => toast({ text: t("process.imported") })}
      onClose={onClose}
    >
      <Field label={t("form.file_text")} hint="Procfile · compose.yaml · tasuki proc export">
        <Area value={content} onInput={setContent} rows={8} mono />
      </Field>
    </FormDialog>
  );
}

export function openImport(): void {
  openDialog((close) => <Import onClose={close} />);
}
