import { useEffect, useRef, useState } from "preact/hooks";

const TINT_MS = 600;

/** A class for a row whose state has just changed. */
export function useTint(state: string): string {
  const [isNew, setNew] = useState(false);
  const before = useRef(state);
  useEffect(() => {
    if (before.current === state) return;
    before.current = state;
    setNew(true);
    const timer = setTimeout(() => setNew(false), TINT_MS);
    return () => clearTimeout(timer);
  }, [state]);
  return isNew ? " changed" : "";
}
