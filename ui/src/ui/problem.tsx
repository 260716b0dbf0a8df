// What the server says when it refuses: what happened, what that means, what can be done, and the commands for it.
import type { JSX } from "preact";
import { ApiError } from "../api/http";
import type { ErrorBody } from "../api/types";
import { t } from "../text";
import { Command } from "./parts";

/** Everything but the message, which is a title or comes before. */
export function Reasons({ body }: { body: ErrorBody }): JSX.Element {
  const { message, summary, actions, next } = body.error;
  return (
    <>
      {summary && summary !== message && <p class="mid">{summary}</p>}
      {actions.length > 0 && (
        <ul class="bullets">
          {actions.map((one) => (
            <li key={one}>{one}</li>
          ))}
        </ul>
      )}
      {next.map((one) => (
        <Command key={one} text={one} />
      ))}
    </>
  );
}

/** In a form, which stays open. */
export function Problem({ problem }: { problem: unknown }): JSX.Element | null {
  if (problem === null) return null;
  return (
    <div class="problem" role="alert">
      {problem instanceof ApiError ? (
        <>
          <p>{problem.message}</p>
          <Reasons body={problem.body} />
        </>
      ) : (
        t("error.unreachable")
      )}
    </div>
  );
}
