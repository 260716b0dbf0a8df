// New request, edited request.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { commandOf, quote } from "../actions";
import { call } from "../api/http";
import type { Request } from "../api/types";
import { t } from "../text";
import { splitWords } from "../words";
import { Area, Choose, Field, FormDialog, Text } from "./form";
import { openDialog, toast } from "./overlays";

type Priority = Request["priority"];
type FileStatus = "ready" | "draft" | "archived";

function fileStatus(request: Request | null): FileStatus {
  return request?.status === "draft" || request?.status === "archived" ? request.status : "ready";
}

function RequestForm({ request, onClose }: { request: Request | null; onClose: () => void }): JSX.Element {
  const [title, setTitle] = useState(request?.title ?? "");
  const [flow, setFlow] = useState(request?.flow ?? "");
  const [line, setLine] = useState(request?.run === undefined ? "" : Array.isArray(request.run) ? request.run.map(quote).join(" ") : request.run);
  const [priority, setPriority] = useState<Priority>(request?.priority ?? "P2");
  const [status, setStatus] = useState<FileStatus>(fileStatus(request));
  const [depends, setDepends] = useState(request?.depends_on.join(" ") ?? "");
  const [text, setText] = useState(request?.body ?? "");
  const [flows, setFlows] = useState<string[]>([]);
  useEffect(() => void call<{ flows: { name: string }[] }>("GET", "/api/flows?limit=1000").then((all) => setFlows(all.flows.map((one) => one.name)), () => undefined), []);
  const words = splitWords(line);
  const body = (): object => ({
    title,
    ...(flow ? { flow } : words.length > 0 ? { run: words } : {}),
    priority,
    status,
    depends_on: depends.split(/\s+/).filter(Boolean),
    ...(text || request?.body ? { body: text } : {}),
    ...(request ? { expected_updated_at: request.updated_at } : {}),
  });
  const options = [...(flow ? ["--flow", flow] : []), "--priority", priority, ...(status !== "ready" ? ["--status", status] : [])];
  return (
    <FormDialog
      title={request ? t("request.edit_title") : t("request.new")}
      submit={request ? t("save") : t("create")}
      command={request ? commandOf("request", "edit", request.id, "--title", title, ...options) : commandOf("request", "add", title, ...options, ...(words.length > 0 && !flow ? ["--", ...words] : []))}
      method={request ? "PUT" : "POST"}
      path={request ? `/api/requests/${encodeURIComponent(request.id)}` : "/api/requests"}
      body={body}
      onDone={() => toast({ text: t("request.saved", { title }) })}
      onClose={onClose}
    >
      <Field label={t("form.title")}>
        <Text value={title} onInput={setTitle} first required />
      </Field>
      <Field label={t("form.flow")} hint={flows.slice(0, 8).join(" · ")}>
        <Text value={flow} onInput={setFlow} mono />
      </Field>
      {!flow && (
        <Field label={t("form.or_command")}>
          <Text value={line} onInput={setLine} mono placeholder="make test" />
        </Field>
      )}
      <Field label={t("request.priority")}>
        <Choose<Priority> value={priority} onChoose={setPriority} options={[["P0", t("form.p0")], ["P1", "P1"], ["P2", "P2"], ["P3", "P3"]]} />
      </Field>
      <Field label={t("request.state")}>
        <Choose<FileStatus> value={status} onChoose={setStatus} options={[["ready", t("state.ready")], ["draft", t("state.draft")], ["archived", t("state.archived")]]} />
      </Field>
      <Field label={t("form.depends")} hint="RQ-… RQ-…">
        <Text value={depends} onInput={setDepends} mono />
      </Field>
      <Field label={t("form.body")}>
        <Area value={text} onInput={setText} />
      </Field>
    </FormDialog>
  );
}

export function openRequestForm(request: Request | null): void {
  openDialog((close) => <RequestForm request={request} onClose={close} />);
}
