// The workers that the Redis server of this workspace knows. Nothing announces them: they are read once per connection, and by their
// page while it is shown. Without a server there is no such page.
import { ApiError, call } from "./api/http";
import type { ErrorBody, Worker } from "./api/types";
import { getWorld, setWorld } from "./store";

export interface Pool {
  server: string;
  workers: Worker[];
  problem: ErrorBody | null; // the server cannot be asked
}

export async function readWorkers(): Promise<void> {
  try {
    const { server, workers } = await call<{ server: string | null; workers: Worker[] }>("GET", "/api/workers");
    setWorld({ pool: server === null ? null : { server, workers, problem: null } });
  } catch (problem) {
    if (!(problem instanceof ApiError)) return; // the page is not live, and says so
    setWorld({ pool: { server: getWorld().pool?.server ?? "", workers: [], problem: problem.body } });
  }
}
