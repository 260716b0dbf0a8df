// Forms and refusals are loaded when one is first shown.
import type { ErrorBody, Process, Request } from "../api/types";
import { t } from "../text";
import { toast } from "./overlays";

async function open<T>(load: Promise<T>, show: (part: T) => void): Promise<void> {
  const part = await load.catch(() => null);
  if (part === null) toast({ text: t("error.unreachable") });
  else show(part);
}

export const openProcessForm = (process: Process | null): Promise<void> => open(import("./process_form"), (part) => part.openProcessForm(process));
export const openImport = (): Promise<void> => open(import("./process_form"), (part) => part.openImport());
export const openRequestForm = (request: Request | null): Promise<void> => open(import("./request_form"), (part) => part.openRequestForm(request));
export const openQueueForm = (): Promise<void> => open(import("./queue_form"), (part) => part.openQueueForm());
export const openKeys = (): Promise<void> => open(import("./keysheet"), (part) => part.openKeys());
export const openPalette = (): Promise<void> => open(import("./palette"), (part) => part.openPalette());
export const showProblem = (body: ErrorBody): Promise<void> => open(import("./refusal"), (part) => part.showProblem(body));
export const showQueueConflict = (body: ErrorBody): Promise<void> => open(import("./refusal"), (part) => part.showQueueConflict(body));
