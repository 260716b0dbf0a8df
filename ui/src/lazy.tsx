// Parts that are loaded when they are first needed. One that the server did not give is asked for again when the page is live again;
// a live server that does not have it is another version, whose page is loaded then.
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { getWorld, useWorld } from "./store";
import { Skeleton } from "./ui/parts";

const SOON_MS = 500;
const RELOAD_AFTER_MS = 10_000; // a page that is new is not loaded again

/** `isSoon`: it comes by itself a moment after the first load, so that it can be shown when the server is away, too. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>, isSoon = false): (props: P) => JSX.Element {
  let loaded: ComponentType<P> | null = null;
  if (isSoon) setTimeout(() => void load().then((one) => (loaded = one), () => undefined), SOON_MS); // or when it is needed
  return function Lazy(props: P) {
    const [Part, setPart] = useState(() => loaded);
    const isLive = useWorld((w) => w.live === "live");
    useEffect(() => {
      if (loaded) return setPart(() => loaded); // it may have come since this was drawn
      load().then(
        (one) => setPart(() => (loaded = one)),
        () => getWorld().live === "live" && performance.now() > RELOAD_AFTER_MS && location.reload(),
      );
    }, [isLive]);
    return Part ? <Part {...props} /> : <Skeleton />;
  };
}

export const ProcessLog = lazy(async () => (await import("./log/process_log")).ProcessLog);
export const TaskLog = lazy(async () => (await import("./log/task_log")).TaskLog);
export const Processes = lazy(async () => (await import("./pages/processes")).Processes, true);
export const RunPage = lazy(async () => (await import("./pages/run")).RunPage);
export const Requests = lazy(async () => (await import("./pages/requests")).Requests);
export const Runs = lazy(async () => (await import("./pages/runs")).Runs);
export const Locks = lazy(async () => (await import("./pages/locks")).Locks);
export const Events = lazy(async () => (await import("./pages/events")).Events);
export const Workers = lazy(async () => (await import("./pages/workers")).Workers);
export const Doctor = lazy(async () => (await import("./pages/doctor")).Doctor);
