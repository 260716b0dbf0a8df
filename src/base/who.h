/* who.h - the party that acts, for people: a label, and the facts behind it.
 *
 * Every holder, owner, starter, waiter and event has a *who*: label, user, program, pid, host, instance, and where they are
 * known session, subagent and note. Texts for people show the label and the note first (`claude-code#2: refactoring auth`),
 * then the pid.
 *
 *  A1  The label is TASUKI_AGENT; else the name of the MCP client, with a number if several living clients have it (own/who.h);
 *      else the nearest ancestor program that is neither a shell nor a terminal; else user and terminal.
 *  A2  The who of this process is computed at its first use: a command that changes nothing does not pay for it.
 *  A3  A server sets the who of a caller for the thread that works for it. It takes precedence over that of the process.
 *  A4  Text from outside is made safe where it comes in: no control characters, valid UTF-8, cut at its maximum. Of the
 *      environment only TASUKI_AGENT, TASUKI_AGENT_SESSION, TASUKI_SUBAGENT, TASUKI_NOTE and TASUKI_INSTANCE_ID are read. */
#ifndef BASE_WHO_H
#define BASE_WHO_H

#include "base/ident.h"
#include "base/json.h"

#define WHO_LABEL_SIZE    97  /* 96 bytes */
#define WHO_NAME_SIZE     65  /* user, program */
#define WHO_ID_SIZE       129 /* session, subagent */
#define WHO_INSTANCE_SIZE 257
#define WHO_NOTE_CHARS    200
#define WHO_NOTE_SIZE     (4 * WHO_NOTE_CHARS + 1)

struct who {
    char label[WHO_LABEL_SIZE];
    char user[WHO_NAME_SIZE], program[WHO_NAME_SIZE]; /* program "": a person's shell */
    pid_t pid;                                        /* of the instance's process; 0: it has none here */
    char host[HOSTNAME_SIZE];
    char instance[WHO_INSTANCE_SIZE]; /* "": not known */
    char session[WHO_ID_SIZE], subagent[WHO_ID_SIZE], note[WHO_NOTE_SIZE];
    bool is_agent;  /* an MCP client, or a program with TASUKI_AGENT */
    bool is_client; /* an MCP client: its process is the agent, and so is every command below it */
    bool is_whole;  /* it acts for all of its instance: a command below an MCP client, or one that names its instance */
};

/* ---- the acting party ---- */

/* This process is the command `tasuki`, which acts for the program above it. Without this call it acts for itself (a program that
 * uses the library). Before the first use. */
void who_is_command(void);
/* What the environment and the processes above say of this process (A1), not cached. *ret_process (may be NULL): the process
 * that a lock would be recorded for; pid 0: unknown. */
void who_of_environment(struct who *ret, struct proc_id *ret_process);
/* The who of this process from now on: what who_of_environment says with what a registry adds. */
void who_set(const struct who *who);
/* A3: from now on this thread works for `who` (NULL: for the process again). Copied. */
void who_enter(const struct who *who);
/* The same for a party that is found when it is first asked for, which most calls never do. */
typedef void who_find(void *data, struct who *ret);
void who_enter_later(who_find *find, void *data);
/* That of the thread, else that of the process. Borrowed until who_enter in this thread. */
const struct who *who_current(void);
/* The same as JSON text on one line. Borrowed. */
const char *who_current_text(void);
/* Whether the current who is `other`, of which only the label is known, and that both have the same instance. One program may run
 * commands for several agents, each with its own TASUKI_AGENT: these are not each other. A person is every one of them. */
bool who_current_is(const struct who *other);
/* The note of the current who; "" removes it. Already checked. */
void who_set_note(const char *note);

/* ---- text ---- */

/* Whether it may be a label: nobody has an empty name, or one of blanks. `text` may be NULL. */
bool who_is_name(const char *text);

/* INVALID_INPUT for a note over WHO_NOTE_CHARS characters, or with control characters or invalid UTF-8. */
int who_check_note(const char *note, struct tsk_error *err);
/* A4: copies what fits and is harmless; `from` may be NULL. */
void who_copy(char *to, size_t size, const char *from);

/* {label user program pid host instance session? subagent? note?} */
void who_put(struct buf *b, const struct who *who);
json_t *who_json(const struct who *who); /* owned */
void who_of_json(const json_t *json, struct who *ret);
/* "claude-code#2: refactoring auth" of a who object; "" if it has no label. Not made safe for a terminal. */
void who_put_label(struct buf *b, const json_t *who);

#endif
