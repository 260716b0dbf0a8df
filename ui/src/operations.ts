// All operations of the server, from its OpenAPI document: what the palette offers beyond the buttons.
import { call, type Method } from "./api/http";

export interface Parameter {
  name: string;
  isPath: boolean;
  isRequired: boolean;
  description: string;
  type: "string" | "boolean" | "integer" | "list" | "object";
  choices: string[];
  cli: string; // on the command line: "position", "behind" (behind `--`), "none", or the name of its option
}

export interface Operation {
  id: string;
  summary: string;
  description: string;
  method: Method;
  path: string;
  command: string;
  parameters: Parameter[];
}

interface Schema {
  type?: string;
  enum?: string[];
  anyOf?: Schema[];
  properties?: Record<string, Schema & { description?: string }>;
  required?: string[];
  items?: Schema;
  "x-cli"?: string;
}

interface RawOperation {
  operationId: string;
  summary?: string;
  description?: string;
  parameters?: { name?: string; in?: string; required?: boolean; description?: string; schema?: Schema; "x-cli"?: string }[];
  requestBody?: { content?: Record<string, { schema?: Schema }> };
}

const SKIPPED = /^(events|status|wait)$/;
const nouns: Record<string, string> = { process: "proc", template: "proc template" };

function typeOf(schema: Schema | undefined): Parameter["type"] {
  const type = schema?.type ?? schema?.anyOf?.find((one) => one.type === "array")?.type ?? schema?.anyOf?.[0]?.type;
  if (type === "boolean" || type === "integer" || type === "object") return type;
  return type === "array" ? "list" : "string";
}

function commandOf(id: string): string {
  if (id === "process.restore") return "tasuki restore";
  if (id === "agents.list") return "tasuki agents";
  const [noun = "", verb] = id.split(".");
  return verb === undefined ? `tasuki ${noun}` : `tasuki ${nouns[noun] ?? noun} ${verb}`;
}

function parametersOf(raw: RawOperation): Parameter[] {
  const own = (raw.parameters ?? []).flatMap((one): Parameter[] =>
    one.name && one.in !== "header" ? [{ name: one.name, isPath: one.in === "path", isRequired: one.required ?? false, description: one.description ?? "", type: typeOf(one.schema), choices: one.schema?.enum ?? [], cli: one["x-cli"] ?? one.name }] : [],
  );
  const schema = raw.requestBody?.content?.["application/json"]?.schema;
  const body = Object.entries(schema?.properties ?? {}).map(([name, one]): Parameter => ({ name, isPath: false, isRequired: schema?.required?.includes(name) ?? false, description: one.description ?? "", type: typeOf(one), choices: one.enum ?? [], cli: one["x-cli"] ?? name }));
  const known = new Set(own.map((one) => one.name));
  return [...own, ...body.filter((one) => !known.has(one.name) && one.name !== "instance" && one.name !== "secret")].filter((one) => one.name !== "mode" || one.choices.length !== 1);
}

/** The operation behind a request, and what its path says of the parameters. */
export function operationOf(all: Operation[], method: Method, path: string): { operation: Operation; known: Record<string, string> } | null {
  const segments = (path.split("?")[0] ?? "").split("/");
  for (const operation of all) {
    const pattern = operation.path.split("/");
    if (operation.method !== method || pattern.length !== segments.length) continue;
    if (!pattern.every((one, i) => one.startsWith("{") || one === segments[i])) continue;
    const known = pattern.flatMap((one, i) => (one.startsWith("{") ? [[one.slice(1, -1), decodeURIComponent(segments[i] ?? "")]] : []));
    return { operation, known: Object.fromEntries(known) as Record<string, string> };
  }
  return null;
}

let known: Promise<Operation[]> | null = null;

export function readOperations(): Promise<Operation[]> {
  known ??= call<{ paths: Record<string, Record<string, RawOperation>> }>("GET", "/api/openapi.json").then((document) => {
    const found = new Map<string, Operation>();
    for (const [path, methods] of Object.entries(document.paths))
      for (const [method, raw] of Object.entries(methods)) {
        if (!raw.operationId || SKIPPED.test(raw.operationId) || !path.startsWith("/api/") || path.endsWith("/stream") || found.has(raw.operationId)) continue;
        found.set(raw.operationId, { id: raw.operationId, summary: raw.summary ?? raw.operationId, description: raw.description ?? "", method: method.toUpperCase() as Method, path, command: commandOf(raw.operationId), parameters: parametersOf(raw) });
      }
    return [...found.values()];
  });
  known.catch(() => (known = null));
  return known;
}
