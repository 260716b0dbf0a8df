// The list of keys (`?`).
import type { JSX } from "preact";
import { t, type TextKey } from "../text";
import { Dialog, openDialog } from "./overlays";

/** `…`: the next keys come after it. */
const rows: [string, TextKey][] = [
  ["Ctrl K", "keys.palette"],
  ["/", "keys.search"],
  ["?", "keys.title"],
  ["g … o p r u l e d w", "keys.pages"],
  ["j k", "keys.rows"],
  ["Enter", "keys.open"],
  ["Esc", "keys.close"],
  ["s x r", "keys.process"],
  ["a 1–9", "keys.answer"],
  ["f w t", "keys.log"],
  ["n N", "keys.hits"],
  ["[ ]", "keys.tasks"],
  ["+ − 0", "keys.zoom"],
  ["← ↑ → ↓", "keys.arrows"],
  [".", "keys.menu"],
  ["Ctrl Shift C", "keys.copy"],
  ["Ctrl ⌫", "keys.deny"],
];

function Keys({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog label={t("keys.title")} onClose={onClose}>
      <div class="in">
        <h2>{t("keys.title")}</h2>
        <dl class="kv keys">
          {rows.map(([keys, text]) => (
            <>
              <dt>
                {keys.split(" ").map((key) => (key === "…" ? key : <kbd key={key}>{key}</kbd>))}
              </dt>
              <dd>{t(text)}</dd>
            </>
          ))}
        </dl>
      </div>
      <div class="foot">
        <button type="button" class="btn" data-first onClick={onClose}>
          {t("close")}
        </button>
      </div>
    </Dialog>
  );
}

export function openKeys(): void {
  openDialog((close) => <Keys onClose={close} />);
}
