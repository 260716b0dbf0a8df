// Examinations. The last report is that of this window, or the one that the server has kept; opening the page examines nothing.
import type { Action } from "./actions";
import { commandOf } from "./actions";
import type { DoctorReport } from "./api/types";
import { setWorld } from "./store";
import { t } from "./text";
import { now } from "./time";

export function examine(mode: "quick" | "full", fix = false): Action {
  return {
    label: mode === "full" ? t("doctor.full") : t("doctor.quick"),
    command: commandOf("doctor", ...(mode === "full" ? ["--full"] : []), ...(fix ? ["--fix"] : [])),
    method: "POST",
    path: "/api/doctor",
    body: { mode, ...(fix ? { fix: true } : {}) },
    then: (answer, ms) => setWorld({ doctor: { ...(answer as DoctorReport), at: now(), took: ms } }),
  };
}
