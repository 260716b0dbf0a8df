// The frame of the page: side bar, bar, strips, the page itself, overlays.
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { useKeys } from "./keys";
import { Doctor, Events, Locks, Processes, Requests, RunPage, Runs, Workers } from "./lazy";
import { Overview } from "./pages/overview";
import { useRoute, type Route } from "./route";
import { useWorld } from "./store";
import { t, titled, useLanguage } from "./text";
import { useTab } from "./tab";
import { Bar } from "./ui/bar";
import { Overlays } from "./ui/overlays";
import { Empty, Skeleton } from "./ui/parts";
import { Side, Tabs } from "./ui/side";
import { Strips } from "./ui/strips";

function Page({ route }: { route: Route }): JSX.Element {
  switch (route.page) {
    case "":
      return <Overview />;
    case "processes":
      return <Processes id={route.parts[0]} />;
    case "requests":
      return <Requests id={route.parts[0]} />;
    case "runs":
      return route.parts[0] ? <RunPage id={route.parts[0]} task={route.parts[1]} /> : <Runs />;
    case "locks":
      return <Locks />;
    case "events":
      return <Events />;
    case "doctor":
      return <Doctor />;
    case "workers":
      return <Workers />;
    default:
      return <Empty icon="find" texts={titled("error.not_found")} />;
  }
}

export function App(): JSX.Element {
  useLanguage();
  useKeys();
  useTab();
  const route = useRoute();
  const live = useWorld((w) => w.live);
  const isLoaded = useWorld((w) => w.isLoaded);
  useEffect(() => document.documentElement.classList.toggle("stale", isLoaded && live !== "live") as never, [live, isLoaded]);
  if (live === "refused")
    return (
      <main class="refused">
        <h1 class="off-screen">tasuki</h1>
        <Empty icon="locks" texts={titled("error.token")} command="tasuki serve" />
      </main>
    );
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main")?.focus(); }}>
        {t("skip")}
      </a>
      <Side route={route} />
      <div class="main">
        <Bar route={route} />
        <Strips />
        <main class="content" tabIndex={-1}>{isLoaded ? <Page route={route} /> : <div class="page"><Skeleton /></div>}</main>
      </div>
      <Tabs route={route} />
      <Overlays />
    </div>
  );
}
