// What a button does about a finding of doctor: the operation behind the command that doctor names, with the question that it has on its
// own page. A command that is no operation (an editor, chmod) has no button.
import { claimWorkflow, releaseSprint, removeProcess, resumeRun, run, stopProcess, type Action } from "./actions";
import type { DoctorReport } from "./api/types";
import { examine } from "./doctor";
import { ownerQuestion, sprintQuestion } from "./pages/locks";
import type { World } from "./store";
import { t } from "./text";
import { splitWords } from "./words";

export function fixAll(): Action {
  return { ...examine("full", true), question: () => ({ title: t("doctor.fix_q"), text: t("doctor.fix_text"), facts: [], yes: t("doctor.fix") }) };
}

function actionOf(command: string, world: World): Action | null {
  const [, noun = "", verb = "", id = ""] = splitWords(command);
  const process = world.processes.find((one) => one.id === id);
  const workflow = world.workflows.find((one) => one.ulTaskId === id);
  const sprint = world.locks.find((one) => one.kind === "sprint");
  switch (`${noun} ${verb}`) {
    case "doctor --fix":
      return { ...fixAll(), label: t("doctor.fix_this") };
    case "proc stop":
      return process ? stopProcess(process) : null;
    case "proc remove":
      return process ? removeProcess(process) : null;
    case "own claim":
      return workflow ? claimWorkflow(workflow, () => ownerQuestion(workflow)) : null;
    case "sprint release":
      return sprint && id === "" ? releaseSprint(sprint, () => sprintQuestion(sprint)) : null;
    default:
      return noun === "resume" ? resumeRun({ run_id: verb }) : null;
  }
}

/** Afterwards the examination is made again, as it was made; a run that goes on is shown instead. */
export function fixOf(command: string, world: World, report: DoctorReport): Action | null {
  const action = command.startsWith("tasuki ") && !/[&|;]/.test(command) ? actionOf(command, world) : null;
  if (!action || action.path === "/api/doctor" || action.path.endsWith("/resume")) return action;
  return { ...action, command, then: () => void run(examine(report.mode === "full" ? "full" : "quick")) };
}
