/* who.h - the who (base/who.h) of instances: in the table `instance`, so that all calls of one agent, by its tools and by its
 * shell, have one label and one note.
 *
 *  B1  The name of an MCP client is numbered in one transaction: the smallest number that no living instance of that name has.
 *      The first one is `claude-code`, the second `claude-code#2`. TASUKI_AGENT is taken as it is.
 *  B2  An instance whose row has a who has a *card*, the file `.aiflow/agents/<pid>.<start>.<pid namespace>` (`http-…` for a
 *      client of the server). A command that finds no card does not open the database. The card's content is the last operation, its time of
 *      modification the time of that call; nothing is synced.
 *  B3  If a who cannot be stored, the operation continues: the label is only for people.
 *  B4  The row of an MCP client is for every command below its process. The row of a program with TASUKI_AGENT is for the commands
 *      with that name: the process may be a shell in which a person works, too. The next agent there replaces it, note and all. */
#ifndef OWN_WHO_H
#define OWN_WHO_H

#include "own/instance.h"

#include "base/who.h"

/* Stores *who for the instance and makes its card. `name` (may be NULL): the client's name; its label is numbered and *who gets it.
 * `directory` may be NULL. */
int who_register(struct tsk_workspace *ws, struct instance *instance, const char *name, const char *directory,
                 struct who *who, struct tsk_error *err);
/* The same for an instance that is known by its id; *ret_process (may be NULL) is its process, pid 0: none. */
int who_register_id(struct tsk_workspace *ws, const char *id, const char *name, const char *directory, struct who *who,
                    struct proc_id *ret_process, struct tsk_error *err);
/* The who of an instance: 1, 0 when it has none, -1. */
int who_load(struct db *db, const char *instance, struct who *ret, struct tsk_error *err);
/* The same for a look that does without it: the label is "" then. */
void who_look(struct tsk_workspace *ws, const char *instance, struct who *ret);
/* B4: whether the row `known` of its instance speaks of `who`. Two labels of one person (with and without a terminal) are the same. */
bool who_is_same(const struct who *who, const struct who *known);
/* Adds the present note of its instance to a who that was recorded without one. */
void who_add_note(struct tsk_workspace *ws, struct who *who);
/* The note of an instance from now on; "" removes it. NOT_FOUND "instance_gone" when it has no row. */
int who_write_note(struct tsk_workspace *ws, const char *instance, const char *note, struct tsk_error *err);

/* The who of a client of the server: of its row if it has said who it is (`instance`, may be ""), else what is known of it. The
 * call is noted in its card; `operation` NULL: it only looks. */
void who_of_client(struct tsk_workspace *ws, const char *instance, const char *label, bool is_agent,
                   const char *operation, struct who *ret);

/* A command begins an operation that changes something: the who of this process is what the environment says and the registry
 * knows (`given`: --instance, may be NULL). An agent that has no row yet is registered. */
void who_begin(struct tsk_workspace *ws, const char *given, const char *operation);
/* Notes the call in the card, if there is one (B2). `process` may have pid 0. */
void who_saw(struct tsk_workspace *ws, const char *instance, const struct proc_id *process, const char *operation);
/* The same for a server with one client, which keeps its card open (who_card; -1: there is none). False: the card was removed. */
int who_card(struct tsk_workspace *ws, const char *instance, const struct proc_id *process);
bool who_saw_at(int card, const char *operation);
/* The last call of an instance: its operation ("": none is known) and when, wall clock. */
void who_last_call(struct tsk_workspace *ws, const char *instance, const struct proc_id *process, char operation[64],
                   int64_t *ret_ms);

#endif
