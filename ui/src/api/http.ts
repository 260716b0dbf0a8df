// Requests to the server. The token is in the address that `tasuki serve` prints; this tab keeps it.
import { language } from "../text";
import type { ErrorBody } from "./types";

const TOKEN = "tasuki.token";
const INSTANCE = "tasuki.instance";

export function takeToken(): void {
  const found = /^#token=([0-9a-f]+)/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(TOKEN, found[1] ?? "");
  history.replaceState(null, "", "#/");
}

export function hasToken(): boolean {
  return sessionStorage.getItem(TOKEN) !== null;
}

/** The server said no, with its reasons. */
export class ApiError extends Error {
  constructor(readonly status: number, readonly body: ErrorBody) {
    super(body.error.message);
  }
  get code(): string {
    return this.body.error.reason_code;
  }
}

/** The server did not answer. */
export class Unreachable extends Error {}

function headers(more: Record<string, string> = {}): Record<string, string> {
  const all: Record<string, string> = { "Accept-Language": language(), ...more };
  const token = sessionStorage.getItem(TOKEN);
  if (token) all["Authorization"] = `Bearer ${token}`;
  return all;
}

export interface Caller {
  instance: string;
  secret: string;
}

function savedCaller(): Caller | null {
  const text = sessionStorage.getItem(INSTANCE);
  return text ? (JSON.parse(text) as Caller) : null;
}

export function callerInstance(): string | null {
  return savedCaller()?.instance ?? null;
}

/** This tab as one that can hold locks: it registers when it first takes one. */
export async function registerCaller(label: string): Promise<Caller> {
  const saved = savedCaller();
  if (saved) return saved;
  const made = await call<Caller>("GET", `/api/status?register=true&label=${encodeURIComponent(label)}`);
  const caller = { instance: made.instance, secret: made.secret };
  sessionStorage.setItem(INSTANCE, JSON.stringify(caller));
  return caller;
}

/** The server does not know this tab's registration any more (a day of sleep, `release-all`): it is dropped, and the call may be repeated. */
export function dropGoneCaller(problem: unknown): boolean {
  if (!(problem instanceof ApiError) || problem.status !== 401 || !savedCaller()) return false;
  sessionStorage.removeItem(INSTANCE);
  return true;
}

function callerHeaders(): Record<string, string> {
  const caller = savedCaller();
  return caller ? { "Tasuki-Instance": caller.instance, "Tasuki-Secret": caller.secret } : {};
}

/** Also with 200: a run that waits for an answer is not begun anew. The record of a process has an `error`, too, which is a text. */
function isRefusal(json: unknown): json is ErrorBody {
  return typeof (json as ErrorBody | null)?.error?.reason_code === "string";
}

export type Method = "GET" | "POST" | "PUT" | "DELETE";

export async function call<T>(method: Method, path: string, body?: object, timeoutMs = 50_000, signal?: AbortSignal): Promise<T> {
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  const timer = setTimeout(abort, timeoutMs);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  let answer: Response, text: string;
  try {
    answer = await fetch(path, {
      method,
      headers: headers({ Accept: "application/json", ...(method === "GET" ? {} : callerHeaders()) }),
      body: body === undefined ? null : JSON.stringify(body),
      signal: stop.signal,
      credentials: "omit",
    });
    text = await answer.text();
  } catch (problem) {
    throw new Unreachable(String(problem));
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Unreachable(`${answer.status}: not JSON`);
  }
  if (isRefusal(json)) throw new ApiError(answer.status, json);
  return json as T;
}

export interface Frame {
  event: string;
  id: string;
  data: string;
}

/** Reads a stream of server-sent events until it ends; throws when it cannot be opened. `onByte` hears of comments, too. */
export async function readStream(
  path: string,
  options: { signal: AbortSignal; lastId?: string | undefined; onOpen?: () => void; onByte?: () => void; onFrame: (frame: Frame) => void },
): Promise<void> {
  const more: Record<string, string> = { Accept: "text/event-stream", ...callerHeaders() };
  if (options.lastId !== undefined) more["Last-Event-ID"] = options.lastId;
  const answer = await fetch(path, { headers: headers(more), signal: options.signal, credentials: "omit", cache: "no-store" });
  if (!answer.ok || !answer.body) {
    const body = (await answer.json()) as ErrorBody;
    throw new ApiError(answer.status, body);
  }
  options.onOpen?.();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    options.onByte?.();
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const frame = parseFrame(part);
      if (frame) options.onFrame(frame);
    }
  }
}

function parseFrame(text: string): Frame | null {
  const frame: Frame = { event: "message", id: "", data: "" };
  for (const line of text.split("\n")) {
    if (line.startsWith("data: ")) frame.data += line.slice(6);
    else if (line.startsWith("id: ")) frame.id = line.slice(4);
    else if (line.startsWith("event: ")) frame.event = line.slice(7);
  }
  return frame.data || frame.id || frame.event !== "message" ? frame : null;
}
