// What waits for a person, from every page.
import type { JSX } from "preact";
import { openQuestions } from "../broke";
import { useState } from "preact/hooks";
import { useWorld } from "../store";
import { toggleNotes, wantsNotes } from "../tab";
import { t } from "../text";
import { QuestionCard } from "./answer";
import { ConfirmationList } from "./confirmations";
import { Dialog, openDialog } from "./overlays";

function Inbox({ onClose }: { onClose: () => void }): JSX.Element {
  const world = useWorld((w) => w);
  const open = openQuestions(world), asked = world.confirmations.length;
  const [notes, setNotes] = useState(wantsNotes());
  return (
    <Dialog label={t("overview.h_asks")} wide onClose={onClose}>
      <div class="in">
        <h2>
          {t("overview.h_asks")} <span class="dim">{open.length + asked}</span>
        </h2>
        <div class="stack">
          <ConfirmationList />
          {open.map((one) => (
            <QuestionCard key={one.run.run_id + one.question.id} open={one} />
          ))}
          {open.length + asked === 0 && <p class="mid">{t("inbox.empty")}</p>}
        </div>
      </div>
      <div class="foot">
        {"Notification" in window && (
          <label class="row check first">
            <input type="checkbox" checked={notes} onChange={() => void toggleNotes().then(() => setNotes(wantsNotes()))} />
            {t("inbox.notify")}
          </label>
        )}
        <button type="button" class="btn" data-first onClick={onClose}>
          {t("close")}
        </button>
      </div>
    </Dialog>
  );
}

export function openInbox(): void {
  openDialog((close) => <Inbox onClose={close} />);
}
