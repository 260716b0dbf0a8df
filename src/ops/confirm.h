/* confirm.h - questions that a person must answer, kept in the workspace until they are.
 *
 * Where a skin cannot ask at once (an agent without a terminal, a stateless connection), it leaves the question in
 * `.aiflow/confirm/<token>.json` and returns the token. The same call with the token gets the answer, which a person gives with
 * `tasuki confirm TOKEN`.
 *
 *  C1  A token is 128 random bits, the file is 0600: knowing the token is the right to ask for the answer, nothing else is.
 *  C2  An answer is used once: confirm_take removes the file, and of many that try only one succeeds (unlink decides). A yes
 *      renames the file (`<token>.yes.json`) and makes none, so that what was used does not come back.
 *  C3  A question ends by itself after its time, on the boot clock; a reboot ends all of them. The next question removes them.
 *  C4  A yes is for what was asked: operation, arguments, caller and question are in the record, and compared by who takes it. */
#ifndef OPS_CONFIRM_H
#define OPS_CONFIRM_H

#include "ops/ops.h"

#define CONFIRM_TOKEN_SIZE 33
#define CONFIRM_TTL_MS     30000

/* Keeps `record` (borrowed; an object with at least `question`) and makes its token. */
int confirm_ask(struct tsk_workspace *ws, const json_t *record, char ret_token[CONFIRM_TOKEN_SIZE],
                struct tsk_error *err);
/* A person's yes. *ret (owned) is the record. NOT_FOUND "confirm_gone" when it is unknown, used or too old. */
int confirm_approve(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err);
/* Looks, and leaves it there. */
int confirm_look(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err);
/* Takes it away; *ret (owned) has `approved`. */
int confirm_take(struct tsk_workspace *ws, const char *token, json_t **ret, struct tsk_error *err);

#endif
