import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { run, startQueue, type QueueOptions } from "../actions";
import { t } from "../text";
import { Check, Field, Text } from "./form";
import { Dialog, openDialog } from "./overlays";

/** The limits of a queue run. */
function QueueForm({ onStart, onClose }: { onStart: (options: QueueOptions) => void; onClose: () => void }): JSX.Element {
  const [max, setMax] = useState("");
  const [time, setTime] = useState("");
  const [retry, setRetry] = useState(false);
  const options: QueueOptions = { ...(Number(max) > 0 ? { max: Number(max) } : {}), ...(time ? { for: time } : {}), ...(retry ? { retry } : {}) };
  return (
    <Dialog label={t("queue.options")} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onClose();
          onStart(options);
        }}
      >
        <div class="in">
          <h2>{t("queue.options")}</h2>
          <div class="fields">
            <Field label={t("queue.max")}>
              <Text value={max} onInput={setMax} first placeholder="5" />
            </Field>
            <Field label={t("queue.for")}>
              <Text value={time} onInput={setTime} placeholder="2h" />
            </Field>
            <Check value={retry} onChange={setRetry} label={t("queue.with_retry")} />
          </div>
        </div>
        <div class="foot">
          <span class="mono dim cut grow small">{startQueue(options).command}</span>
          <button type="button" class="btn" onClick={onClose}>
            {t("cancel")}
          </button>
          <button type="submit" class="btn pri">
            {t("queue.start")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export function openQueueForm(): void {
  openDialog((close) => <QueueForm onStart={(options) => void run(startQueue(options))} onClose={close} />);
}
