#include "ops/detached.h"
#include "base/who.h"
#include "ops/run_args.h"
#include "run/detach.h"

#include <string.h>

bool op_is_apart(const struct op_call *call)
{
    return !call->decided && (!call->is_cli || json_get_bool(call->args, "detach", false));
}

void op_decided(struct op_call *call, const json_t *stage)
{
    if (call->decided)
        call->decided(call, stage);
}

static bool detached_is_cancelled(void *data)
{
    struct op_call *call = data;
    return call->is_cancelled && call->is_cancelled(call);
}

int op_follow(struct op_call *call, const char *run_id, json_t **ret, struct tsk_error *err)
{
    int64_t timeout = call->is_cli ? -1 : REMOTE_WAIT_MAX_MS;
    if (run_follow(call->ws, run_id, NULL, timeout, detached_is_cancelled, call, ret, err) < 0)
        return -1;
    run_judge(call, *ret);
    call->goes_on = json_text_is(*ret, "status", "RUNNING");
    return 0;
}

int op_run_apart_as(struct op_call *call, const char *op, const json_t *args, bool waits, json_t **ret,
                    struct tsk_error *err)
{
    json_t *job CLEANUP_JSON =
        json_pack("{s:s, s:s, s:O, s:s}", "name", op, "op", op, "args", args, "lang", lang_name(call->lang));
    json_t *answer CLEANUP_JSON = NULL;
    json_object_set_new(job, "who", who_json(who_current()));
    json_object_del(json_object_get(job, "args"), "output"); /* nobody sees it */
    if (run_detach(call->ws, job, &answer, err) < 0)
        return -1;
    const char *run = json_get_string(answer, "run_id", NULL);
    if (waits && run)
        return op_follow(call, run, ret, err);
    *ret = json_incref(answer);
    if (run)
        run_judge(call, answer);
    call->goes_on = json_text_is(answer, "status", "RUNNING");
    return 0;
}

int op_run_apart(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    json_t *args CLEANUP_JSON = json_deep_copy(call->args);
    return op_run_apart_as(call, call->op->name, args, !call->is_cli, ret, err);
}
