/* caller.c - clients of the server have no process that we could look at: what proves who they are is a secret (spec 8). */
#include "ops/ops.h"
#include "own/instance.h"

#include <string.h>

int op_verify_caller(struct tsk_workspace *ws, const json_t *args, const char *secret, struct tsk_error *err)
{
    const char *instance = json_get_string(args, "instance", NULL);
    if (!ws || !instance || !instance_is_http(instance))
        return 0;
    if (instance_verify_http(ws, instance, secret ? secret : "", err) < 0)
        return -1;
    return instance_renew(ws, instance, err); /* whoever is heard of lives */
}

char *op_take_secret(const struct op *op, json_t *args)
{
    const char *secret = json_get_string(args, OP_SECRET, NULL);
    char *copy = secret && op_param_find(op, "instance") && !op_param_find(op, OP_SECRET) ? strdup(secret) : NULL;
    if (copy)
        json_object_del(args, OP_SECRET);
    return copy;
}
