/* tool_texts.h - what agents read of each tool, in one place, because they read them side by side.
 *
 * First what it does and when to use it; then its side effect and what a refusal means; then how long it lasts. Every byte
 * costs in each conversation (the working set has at most 24 KB). Each macro is the part of a row's .mcp that is words. */
#ifndef OPS_TOOL_TEXTS_H
#define OPS_TOOL_TEXTS_H

#define TOOL_EVENTS                                                                                                    \
    .text = "Read what happened in this workspace, the newest last. It changes nothing; to read on, pass the id "      \
            "of the last event as after."
#define TOOL_LOCK_ACQUIRE                                                                                              \
    .refusal = "NOT ACQUIRED",                                                                                         \
    .text = "Take a lock before you change what others may change too; kind name is any name that you agree on. "      \
            "NOT ACQUIRED says who holds it: wait (wait: \"45s\", repeated), do something else, or ask the "           \
            "person; do not go on without it. It stays until lock_release, or until your program ends."
#define TOOL_LOCK_RELEASE                                                                                              \
    .refusal = "NOT RELEASED",                                                                                         \
    .text = "Release a lock as soon as the work is done. Succeeds if it is not held; NOT RELEASED (LOCK_LOST) means "  \
            "that it is somebody else's now."
#define TOOL_LOCK_RENEW                                                                                                \
    .refusal = "NOT RENEWED",                                                                                          \
    .text = "Extend the TTL of a lock that you hold, and learn whether you still hold it. NOT RENEWED: stop what "     \
            "you do, it is not yours any more. This connection renews its locks by itself."
#define TOOL_LOCK_CHECK                                                                                                \
    .text = "Say whether a lock is free, held, or left behind by a dead holder (stale, zombie). It changes "           \
            "nothing: only lock_acquire gives it to you."
#define TOOL_LOCK_LIST                                                                                                 \
    .text = "Show all locks of the workspace: who holds what, since when, alive or dead. It changes nothing."
#define TOOL_CREATE_PROCESS                                                                                            \
    .refusal = "NOT CREATED",                                                                                          \
    .text = "Register a command as a process that is started, stopped and watched by its id. start: true starts "      \
            "it at once; an id that exists is refused (ProcessAlreadyExists). It outlives this connection; only "      \
            "stop_process ends it."
#define TOOL_START_PROCESS                                                                                             \
    .refusal = "NOT STARTED",                                                                                          \
    .text = "Start registered processes, and first what they depend on; returns when they run. A second copy is "      \
            "never started: ProcessAlreadyRunning means it runs. They live on when you disconnect."
#define TOOL_STOP_PROCESS                                                                                              \
    .refusal = "NOT STOPPED",                                                                                          \
    .text = "Stop processes with everything they started; returns when all of it is gone. SIGTERM, and SIGKILL "       \
            "after grace_period_ms. No restart policy revives them; ProcessNotRunning: there was nothing to stop."
#define TOOL_RESTART_PROCESS                                                                                           \
    .refusal = "NOT RESTARTED",                                                                                        \
    .text = "Stop processes and start them again with their present settings, after update_process for example. "      \
            "One that does not run is simply started."
#define TOOL_GET_PROCESS_STATUS                                                                                        \
    .text = "Show one process: state, pid, exit code, restarts, log files. It changes nothing; to wait for a "         \
            "change use wait_for."
#define TOOL_LIST_PROCESSES                                                                                            \
    .text = "List all processes with their true states; look here before you create or start one. It changes "         \
            "nothing."
#define TOOL_REMOVE_PROCESS                                                                                            \
    .refusal = "NOT REMOVED",                                                                                          \
    .text = "Remove processes with their logs, for good. A running one is refused (NEEDS_CONFIRMATION) unless "        \
            "force: true, which stops it first."
#define TOOL_UPDATE_PROCESS                                                                                            \
    .refusal = "NOT UPDATED",                                                                                          \
    .text = "Change a process's command or settings; what is not named stays, env replaces all variables. What "       \
            "runs keeps the old ones until restart_process. With expected_updated_at, CONFLICT means that "            \
            "somebody else changed it."
#define TOOL_GET_PROCESS_OUTPUT                                                                                        \
    .text = "Read what a process wrote, also after its end: the last 100 lines, or a part. It changes nothing; to "    \
            "read on, pass the answer's cursor."
#define TOOL_WAIT_FOR                                                                                                  \
    .refusal = "NOT YET",                                                                                              \
    .text = "Wait until a process has ended or is ready, a run has ended, or a lock is free. "                         \
            "It changes nothing (a lock is not taken); NOT YET: the time is up, repeat the call. One call "            \
            "waits 45 s at most, and fails at once when that cannot happen any more."
#define TOOL_UL_WORKFLOW_CHECK                                                                                         \
    .text = "Say whether you own a workflow, before you go on with it. A dead owner's claim moves to you; owned: "     \
            "false with an "                                                                                           \
            "owner: do not touch it."
#define TOOL_UL_WORKFLOW_CLAIM                                                                                         \
    .refusal = "NOT CLAIMED", .text = "Become the one who drives a workflow, before you begin it. Refused while "      \
                                      "another living instance owns it: wait, or ask "                                 \
                                      "the person. Yours until ul_workflow_release, or until your program ends."
#define TOOL_UL_WORKFLOW_RELEASE                                                                                       \
    .refusal = "NOT RELEASED", .text = "Give a workflow back when your part of it is done, so that another instance "  \
                                       "can go on. That nobody owned it is "                                           \
                                       "success; somebody else's is refused."
#define TOOL_UL_WORKFLOW_FORCE_CLAIM                                                                                   \
    .refusal = "NOT CLAIMED", .text = "Take a workflow from an owner that does not work on it any more. A living "     \
                                      "owner's needs a person's yes; what it "                                         \
                                      "writes afterwards is refused. Yours until ul_workflow_release."
#define TOOL_RELEASE_ALL                                                                                               \
    .refusal = "NOT RELEASED",                                                                                         \
    .text = "Release everything that you locked and claimed, when your work here is done. Over HTTP your instance "    \
            "ends with it: register again to come back; refused while you work in the name of a living agent. What "   \
            "you started goes on."
#define TOOL_UL_WORKFLOW_LIST                                                                                          \
    .text = "List all workflows that have an owner: whose, since when, alive or dead. It changes nothing."
#define TOOL_SUBAGENT_RUN                                                                                              \
    .refusal = "NOT DONE", .text = "Give a task to another agent (get_status names them); returns its outcome and "    \
                                   "the end of its output. With ulTaskId "                                             \
                                   "you must own that workflow. After 45 s the answer is status RUNNING: wait_for "    \
                                   "the run_id; it goes on by itself."
#define TOOL_SUBAGENT_RUN_PARALLEL                                                                                     \
    .refusal = "NOT DONE",                                                                                             \
    .text = "As subagent_run, to several agents at once: one task for all, or tasks. All must succeed."
#define TOOL_SUBAGENT_RUN_DAG                                                                                          \
    .refusal = "NOT DONE",                                                                                             \
    .text = "As subagent_run, several tasks, each after those it needs; what needs a failed one is not started."
#define TOOL_AGENT_TEAM_RUN                                                                                            \
    .refusal = "NOT DONE",                                                                                             \
    .text = "As subagent_run, to all agents of a team (get_status names them); its policy says what is success."
#define TOOL_AGENT_TEAM_RUN_PARALLEL                                                                                   \
    .refusal = "NOT DONE", .text = "As agent_team_run, to several teams at once; all must succeed."
#define TOOL_LOOP_RUN                                                                                                  \
    .refusal = "NOT DONE",                                                                                             \
    .text = "As subagent_run, the same task again until a command succeeds; CYCLE_LIMIT_EXCEEDED when it never does."
#define TOOL_EXPORT_PROCESSES                                                                                          \
    .text = "Write processes and templates as YAML or JSON, to be imported elsewhere or kept in the repository. It "   \
            "changes nothing; values of variables that look secret are *** unless secrets: true."
#define TOOL_CREATE_TEMPLATE                                                                                           \
    .refusal = "NOT CREATED",                                                                                          \
    .text = "Keep settings under a name, to make processes of them later. {{NAME}} in the command, its arguments, "    \
            "the values of its environment or its directory is a variable, whose value create_process_from_template "  \
            "is given. Nothing is started."
#define TOOL_CREATE_PROCESS_FROM_TEMPLATE                                                                              \
    .refusal = "NOT CREATED",                                                                                          \
    .text =                                                                                                            \
        "Make a process of a template, with a value for each of its variables. What else is given takes the place of " \
        "what the template says; env adds to its variables. A variable without a value is an error that names it."
#define TOOL_SPRINT_ACQUIRE                                                                                            \
    .refusal = "NOT ACQUIRED",                                                                                         \
    .text = "Take the project's sprint lock (.sprint-running), so that only one sprint runs. NOT ACQUIRED names "      \
            "the holder; a dead one's needs confirm: true, a living one's force: true and a person's yes. It "         \
            "stays until sprint_release."
#define TOOL_SPRINT_RELEASE                                                                                            \
    .refusal = "NOT RELEASED",                                                                                         \
    .text = "Release the sprint lock at the end of the sprint. Succeeds if it is not held; another session's is "      \
            "released with a warning, or refused with strict: true."
#define TOOL_SPRINT_CHECK .text = "Say whether a sprint runs: clean, blocked or zombie-detected. It changes nothing."
#define TOOL_GET_STATUS                                                                                                \
    .text = "Show the whole workspace: who holds which lock, what runs, alive or dead. Call it before you start "      \
            "or change anything; it changes nothing."
#define TOOL_DOCTOR                                                                                                    \
    .text = "Examine the workspace when something seems stuck or broken: each check with evidence and the command "    \
            "that fixes it. Locks of dead holders are recovered; fix: true also repairs what is safe. A FAIL is an "   \
            "answer, not an error; nothing that lives is touched."
#define TOOL_FLOW_RUN                                                                                                  \
    .refusal = "NOT DONE",                                                                                             \
    .text = "Run the tasks of a flow file, in parallel where it allows that. NOT DONE says what failed; run_resume "   \
            "goes on from there. After 45 s the answer is RUNNING, and it goes on without this connection."
#define TOOL_RUN_RESUME                                                                                                \
    .refusal = "NOT DONE",                                                                                             \
    .text = "Go on with a run that was interrupted, cancelled or has failed; what was completed is not run "           \
            "again. Refused while somebody runs it. It outlives this connection, as flow_run does."
#define TOOL_RUN_ANSWER                                                                                                \
    .refusal = "NOT ANSWERED",                                                                                         \
    .text = "Answer what a run asks (its questions are in run_show), so that it goes on. The answer is "               \
            "recorded first; a second one is refused (ALREADY_ANSWERED)."
#define TOOL_REQUEST_ADD                                                                                               \
    .refusal = "NOT ADDED",                                                                                            \
    .text = "Write down something to be done as a request: a title and a flow or a command. It is a file in "          \
            ".aiflow/requests/ that people see and edit; nothing is run by adding it. It stays until it is removed."
#define TOOL_REQUEST_LIST                                                                                              \
    .text = "List the requests in the queue's order, with their state and why one would not be taken. Look "           \
            "here for work before you begin any. It changes nothing."
#define TOOL_REQUEST_SHOW                                                                                              \
    .text = "Show a request: what its file says, its state and why, its last runs. It changes nothing."
#define TOOL_REQUEST_RUN                                                                                               \
    .refusal = "NOT STARTED",                                                                                          \
    .text = "Run a request now, alone on it, or go on with its interrupted run; the answer is that run (wait_for, "    \
            "run_show). NOT STARTED (RUN_IN_PROGRESS) names the run that is there already: do not start another. It "  \
            "goes on without this connection."
#define TOOL_QUEUE_NEXT                                                                                                \
    .text = "Say which request the queue would take next, and for each other one why not. It changes nothing."
#define TOOL_QUEUE_RUN                                                                                                 \
    .refusal = "NOT STARTED",                                                                                          \
    .text = "Run the ready requests one after the other, until one asks, fails, or none is left. NOT STARTED "         \
            "(QUEUE_IN_PROGRESS): another queue runs; leave it alone. It goes on without this connection."
#define TOOL_QUEUE_STOP                                                                                                \
    .text = "Stop the queue after the request that it runs; with now, cancel that one, too. Requests that were "       \
            "not run stay ready. Nothing is lost."
#define TOOL_RUN_LIST .text = "List runs, the newest first, with their status. It changes nothing."
#define TOOL_RUN_SHOW .text = "Show a run: its status, its tasks, what failed and what it asks. It changes nothing."
#define TOOL_RUN_LOGS .text = "Read what the tasks of a run have printed, also while it runs. It changes nothing."
#define TOOL_RUN_CANCEL                                                                                                \
    .refusal = "NOT CANCELLED",                                                                                        \
    .text = "Cancel a run: its tasks get SIGTERM, after 3 s SIGKILL, with everything they started. "                   \
            "run_resume can go on with it later."

#endif
