/* doctor.h - checks whether a workspace is in order, and says how to fix it if it is not.
 *
 * A check is one row of checks.def and one function, which examines one subject. Its status is PASS, WARN (something is wrong,
 * but work can continue) or FAIL (something cannot work, or has been lost), with evidence and, if there is one, a command that
 * fixes it and can be typed as shown.
 *
 *  D1  A check changes nothing, with two exceptions, which the report lists: *full* recovers the locks of dead holders, *quick*
 *      those of requests and of the queue; and with `fixes` a check repairs what it can repair without losing anything that a
 *      user may want. (Guard files and the shared memory of the database belong to the protocols; reading touches them, too.)
 *  D2  No finding ends the examination: garbage in a file is a finding like any other.
 *  D3  *Quick* runs before every run. It checks only what would make a run impossible, and nothing that grows with the
 *      workspace.
 *
 * The report: {"status", "mode", "checks": [{"name", "title", "status", "summary", "evidence": [], "fix"?: [], "fixed"?: []}],
 * "recovered": [lock]}. Sentences are in the language of the call. */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "base/json.h"
#include "base/text.h"
#include "store/workspace.h"

enum doctor_mode { DOCTOR_QUICK, DOCTOR_FULL };
enum doctor_status { DOCTOR_PASS, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_options {
    enum doctor_mode mode;
    bool fixes;       /* --fix */
    enum lang lang;   /* of the sentences */
    const char *root; /* --root as given, for the commands; may be NULL */
    const char
        *request_id; /* quick: the request whose lock is checked beside the queue's; NULL: the locks of all requests */
};

/* Examines; the report in *ret (owned). Fails only when there is nothing to report on (out of memory). */
int doctor_examine(struct tsk_workspace *ws, const struct doctor_options *options, json_t **ret, struct tsk_error *err);

/* The quick examination before a run: 0, or -1 with DOCTOR_FAILED, which names the check, the reason and the command that fixes it.
 * Locks that dead holders left on the request (NULL: on all requests) and on the queue are recovered. */
int doctor_quick(struct tsk_workspace *ws, const char *request_id, enum lang lang, struct tsk_error *err);

const char *doctor_status_name(enum doctor_status status); /* "PASS" … */

#endif
