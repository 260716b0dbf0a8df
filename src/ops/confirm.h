/* confirm.h - questions that a person must answer, kept in the workspace until they are.
 *
 * If a skin cannot ask at once (an agent without a terminal, a stateless connection), it leaves the question in
 * `.aiflow/confirm/<token>.json` and returns the token. The same call with the token gets the answer, which a person gives with
 * `tasuki confirm TOKEN`.
 *
 *  C1  A token is 128 random bits, and the file is 0600: only a caller that knows the token can ask for the answer.
 *  C2  An answer is used once: confirm_take removes the file, and of many callers only one succeeds (unlink decides). A yes
 *      renames the file (`<token>.yes.json`) and creates none, so that a used question does not come back.
 *  C3  A question expires after its time, on the boot clock; a reboot ends all questions. A later question removes the expired
 *      ones, CONFIRM_KEEP_MS later at the earliest, so that a lookout can report them before.
 *  C4  A yes counts only for what was asked: operation, arguments, caller and question are in the record, and the caller of
 *      confirm_take compares them. */
#ifndef OPS_CONFIRM_H
#define OPS_CONFIRM_H

#include "ops/ops.h"

#define CONFIRM_TOKEN_SIZE 33
#define CONFIRM_TTL_MS     30000
#define CONFIRM_KEEP_MS    10000
#define CONFIRM_ID_SIZE    17
#define CONFIRM_BY_TOKEN   "token" /* `way` of a record that a person answers by its token */

/* Keeps `record` (borrowed; an object with at least `question`) and makes its token. */
int confirm_ask(struct tsk_workspace *ws, const json_t *record, char ret_token[CONFIRM_TOKEN_SIZE],
                struct tsk_error *err);
/* A person's yes. *ret (owned) is the record. NOT_FOUND "confirm_gone" when it is unknown, used or too old. */
int confirm_approve(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err);
/* Looks, and leaves it there. */
int confirm_look(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err);
/* A person's no: the question is gone. *ret (owned) is the record. */
int confirm_deny(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err);
/* Takes it away; *ret (owned) has `approved`. */
int confirm_take(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err);

/* The confirmations that wait for a person, or (is_over) those that nobody answered in time: an array of {id token operation args
 * instance question asked_at expires_in_ms}, the oldest first; owned. A question that a client shows itself is not among them. */
json_t *confirm_list(struct tsk_workspace *ws, bool is_over);
/* An event about the question: `confirmation` (its id, never the token), operation, instance, question. */
int confirm_report(struct tsk_workspace *ws, const char *type, const char *token, const json_t *record,
                   struct tsk_error *err);

#endif
