// Dialogues, toasts and menus. One dialogue at a time; it gives the focus back where it was.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../text";
import { copy } from "./parts";
import { Icon } from "./shapes";

// ---- toasts ----

export interface Toast {
  text: string;
  action?: { label: string; run: () => void };
}

interface Shown extends Toast {
  key: number;
}

let toasts: Shown[] = [];
let nextKey = 1;
const listeners = new Set<() => void>();
const tellAll = (): void => listeners.forEach((tell) => tell());

export function toast(one: Toast): void {
  const key = nextKey++;
  toasts = [...toasts.slice(-2), { ...one, key }];
  tellAll();
  setTimeout(() => drop(key), 6000);
}

function drop(key: number): void {
  toasts = toasts.filter((one) => one.key !== key);
  tellAll();
}

// ---- dialogues ----

type Draw = (close: () => void) => ComponentChildren;
let dialog: { draw: Draw; before: Element | null } | null = null;

export function openDialog(draw: Draw): void {
  dialog = { draw, before: dialog?.before ?? document.activeElement };
  tellAll();
}

export function closeDialog(): void {
  const before = dialog?.before;
  dialog = null;
  tellAll();
  if (before instanceof HTMLElement && before.isConnected) before.focus();
}

export function hasDialog(): boolean {
  return dialog !== null;
}

function useOverlays(): void {
  const [, again] = useState(0);
  useEffect(() => {
    const tell = (): void => again((n) => n + 1);
    listeners.add(tell);
    return () => void listeners.delete(tell);
  }, []);
}

export function Overlays(): JSX.Element {
  useOverlays();
  return (
    <>
      {dialog && <>{dialog.draw(closeDialog)}</>}
      <div class="toasts" role="status" aria-live="polite">
        {toasts.map((one) => (
          <div class="toast" key={one.key}>
            <span class="cut">{one.text}</span>
            {one.action && (
              <button
                type="button"
                class="btn s"
                onClick={() => {
                  drop(one.key);
                  one.action?.run();
                }}
              >
                {one.action.label}
              </button>
            )}
            <button type="button" class="btn s ic" aria-label={t("close")} onClick={() => drop(one.key)}>
              <Icon name="close" />
            </button>
          </div>
        ))}
      </div>
    </>
  );
}

const FOCUSABLE = "button:not([disabled]), [href], input:not([disabled]), select:not([disabled]), textarea:not([disabled]), [tabindex]:not([tabindex='-1'])";

/** The frame of a dialogue: keeps the focus inside, ends with Escape, takes the focus to [data-first]. */
export function Dialog(props: { label: string; alert?: boolean; wide?: boolean; class?: string; onClose: () => void; children: ComponentChildren }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const first = box.current?.querySelector<HTMLElement>("[data-first]") ?? box.current?.querySelector<HTMLElement>(FOCUSABLE);
    first?.focus();
  }, []);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      event.stopPropagation();
      props.onClose();
    } else if (event.key === "Tab") {
      const all = [...(box.current?.querySelectorAll<HTMLElement>(FOCUSABLE) ?? [])];
      const at = all.indexOf(document.activeElement as HTMLElement);
      const to = event.shiftKey ? at - 1 : at + 1;
      event.preventDefault();
      all[(to + all.length) % all.length]?.focus();
    }
  };
  // A button that was pressed and is off now has lost the focus to the page below.
  const latest = useRef(onKeyDown);
  latest.current = onKeyDown;
  useLayoutEffect(() => {
    const stray = (event: KeyboardEvent): void => void (box.current?.contains(event.target as Node) || latest.current(event));
    addEventListener("keydown", stray);
    return () => removeEventListener("keydown", stray);
  }, []);
  return (
    <div class="shade" onMouseDown={(event) => event.target === event.currentTarget && props.onClose()}>
      <div ref={box} class={`dlg ${props.wide ? "wide" : ""} ${props.class ?? ""}`} role={props.alert ? "alertdialog" : "dialog"} aria-modal="true" aria-label={props.label} onKeyDown={onKeyDown}>
        {props.children}
      </div>
    </div>
  );
}

// ---- menus ----

export interface MenuItem {
  label: string;
  hint?: string | undefined; // the command line
  disabled?: string | undefined; // why not
  danger?: boolean;
  run: () => void;
}

export function Menu(props: { label: string; icon?: "more" | "filter"; items: MenuItem[]; small?: boolean; children?: ComponentChildren }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!isOpen) return;
    root.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const away = (event: MouseEvent): void => void (root.current?.contains(event.target as Node) || setOpen(false));
    addEventListener("mousedown", away);
    return () => removeEventListener("mousedown", away);
  }, [isOpen]);
  const close = (): void => {
    setOpen(false);
    root.current?.querySelector<HTMLElement>("button")?.focus();
  };
  const copyHint = (item: MenuItem | undefined): void => {
    if (item?.hint === undefined) return;
    close();
    void copy(item.hint);
  };
  const onFocusOut = (event: FocusEvent): void => {
    if (event.relatedTarget instanceof Node && !root.current?.contains(event.relatedTarget)) setOpen(false); // Tab has left it
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!isOpen) return;
    const all = [...(root.current?.querySelectorAll<HTMLElement>("[data-item]") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const isCopy = event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "c";
    if (event.key === "Escape") close();
    else if (isCopy) copyHint(props.items[at]);
    else if (event.key === "ArrowDown") all[(at + 1) % all.length]?.focus();
    else if (event.key === "ArrowUp") all[(at - 1 + all.length) % all.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu-root" ref={root} onKeyDown={onKeyDown} onFocusOut={onFocusOut}>
      <button type="button" class={`btn${props.children ? "" : " ic"}${props.small ? " s" : ""}`} aria-haspopup="menu" aria-expanded={isOpen} aria-label={props.children ? undefined : props.label} title={props.label} data-menu onClick={() => setOpen(!isOpen)}>
        {props.children ?? <Icon name={props.icon ?? "more"} />}
      </button>
      {isOpen && (
        <div class="menu" role="menu" aria-label={props.label}>
          {props.items.map((item) => (
            <div role="none" class="menu-row" key={item.label}>
              <button
                type="button"
                role="menuitem"
                data-item
                class={item.danger ? "bad" : ""}
                aria-disabled={item.disabled !== undefined}
                title={item.disabled}
                onClick={() => {
                  if (item.disabled !== undefined) return;
                  close();
                  item.run();
                }}
              >
                <span>{item.label}</span>
                {item.disabled !== undefined ? <small>{item.disabled}</small> : item.hint !== undefined && <small class="mono">{item.hint}</small>}
              </button>
              {item.hint !== undefined && (
                <button type="button" role="menuitem" class="copy-hint" tabIndex={-1} aria-label={t("copy.command")} title={`${t("copy.command")}: ${item.hint}`} onClick={() => copyHint(item)}>
                  <Icon name="copy" />
                </button>
              )}
            </div>
          ))}
        </div>
      )}
    </div>
  );
}
