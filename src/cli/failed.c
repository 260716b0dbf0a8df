/* failed.c - `tasuki --root ROOT __failed ID N`: what a holder starts when its process has failed for good (proc/failure.h). Nobody
 * reads its output: a problem becomes an event. `__failed {…} CODE`: a command of `notify:` has ended with that code (store/notify.h);
 * no id begins with a brace. */
#include "base/log.h"
#include "cli/cli.h"
#include "proc/failure.h"
#include "store/notify.h"

#include <stdlib.h>

struct teller {
    struct tsk_workspace *ws;
    const char *process_id;
};

static void teller_problem(const struct tsk_error *problem, void *data)
{
    const struct teller *teller = data;
    struct tsk_error ignored; /* there is no other place to report it */
    struct now now = clock_now();
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_t *document CLEANUP_JSON = json_of_error(problem, "en");
    json_t *json CLEANUP_JSON =
        json_pack("{s:s, s:O}", "process_id", teller->process_id, "error", json_object_get(document, "error"));
    json_write(&text, json, false);
    struct event event = {.type = "notify.failed", .data = buf_str(&text), .actor = "null"};
    workspace_event(teller->ws, &now, &event, &ignored);
}

static void tell_unsent(struct tsk_workspace *ws, const char *text, const char *code)
{
    json_t *subject CLEANUP_JSON = json_loads(text, 0, NULL);
    if (subject)
        notice_tell_failed(ws, subject, "exit_code", json_integer(strtoll(code, NULL, 10)));
}

int cli_failed(const char *root, const char *id, const char *start)
{
    struct tsk_error err;
    struct teller teller = {.process_id = id};
    if (tsk_workspace_open(root, &teller.ws, &err) < 0)
        return code_info(err.code)->exit_code;
    log_to(teller_problem, &teller);
    if (id[0] == '{')
        tell_unsent(teller.ws, id, start);
    else
        proc_failure_tell(teller.ws, id, strtoll(start, NULL, 10), true);
    tsk_workspace_close(teller.ws);
    return 0;
}
