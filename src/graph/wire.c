#include "graph/wire.h"

#include <stdlib.h>
#include <string.h>

void wire_put_spec(struct buf *b, const struct wire_spec *spec)
{
    const char *pair = spec->env;
    parcel_put_int(b, WIRE_VERSION);
    parcel_puts(b, spec->run);
    parcel_puts(b, spec->session);
    parcel_puts(b, spec->task);
    parcel_puts(b, spec->chain);
    parcel_put_int(b, spec->attempt);
    parcel_puts(b, spec->cwd);
    parcel_put_int(b, spec->timeout_ms);
    parcel_put_int(b, spec->grace_ms);
    parcel_put_int(b, spec->channel);
    parcel_puts(b, spec->values);
    parcel_puts(b, spec->answer);
    parcel_puts(b, spec->files);
    parcel_put_int(b, (int64_t)spec->argc);
    for (size_t i = 0; i < spec->argc; i++)
        parcel_puts(b, spec->argv[i]);
    parcel_put_int(b, (int64_t)spec->env_count);
    for (size_t i = 0; i < spec->env_count; i++, pair += strlen(pair) + 1)
        parcel_puts(b, pair);
}

static const char *text_or_null(struct parcel *p)
{
    const char *text = parcel_text(p);
    return *text ? text : NULL;
}

static bool read_words(struct parcel *p, struct wire_spec *ret)
{
    struct piece piece;
    int64_t count = parcel_int(p);
    if (count < 1 || (size_t)count > p->len)
        return false;
    ret->argv = memory_zeroed((size_t)count + 1, sizeof *ret->argv);
    for (; ret->argc < (size_t)count && parcel_next(p, &piece); ret->argc++)
        ret->argv[ret->argc] = (char *)piece.data;
    return ret->argc == (size_t)count;
}

static bool read_env(struct parcel *p, struct buf *env, struct wire_spec *ret)
{
    struct piece piece;
    if (!parcel_next(p, &piece)) /* cut off: no count is not 0 */
        return false;
    int64_t count = strtoll(piece.data, NULL, 10);
    buf_reset(env);
    for (int64_t i = 0; i < count; i++, ret->env_count++) {
        if (!parcel_next(p, &piece))
            return false;
        buf_put(env, piece.data, strlen(piece.data) + 1);
    }
    ret->env = buf_str(env);
    return !env->failed;
}

int wire_read_spec(struct parcel p, struct buf *env, struct wire_spec *ret)
{
    *ret = (struct wire_spec){0};
    int64_t version = parcel_int(&p);
    if (version != WIRE_VERSION)
        return version > 0 && version < WIRE_VERSIONS ? 1 : -1;
    ret->run = parcel_text(&p);
    ret->session = parcel_text(&p);
    ret->task = parcel_text(&p);
    ret->chain = parcel_text(&p);
    ret->attempt = (unsigned)parcel_int(&p);
    ret->cwd = text_or_null(&p);
    ret->timeout_ms = parcel_int(&p);
    ret->grace_ms = parcel_int(&p);
    ret->channel = parcel_int(&p);
    ret->values = text_or_null(&p);
    ret->answer = text_or_null(&p);
    ret->files = text_or_null(&p);
    if (*ret->run && *ret->task && read_words(&p, ret) && read_env(&p, env, ret))
        return 0;
    free(ret->argv);
    ret->argv = NULL;
    return -1;
}

void wire_put_result(struct buf *b, const struct wire_result *result)
{
    parcel_put_int(b, WIRE_VERSION);
    parcel_put_int(b, result->end);
    parcel_put_int(b, result->status);
    parcel_put_int(b, result->has_timed_out);
    parcel_put_int(b, result->ms);
    parcel_put_int(b, result->is_output_too_large);
    parcel_put(b, result->output, result->output_len);
}

int wire_read_result(struct parcel p, struct wire_result *ret)
{
    struct piece output;
    *ret = (struct wire_result){0};
    if (parcel_int(&p) != WIRE_VERSION)
        return -1;
    ret->end = (enum wire_end)parcel_int(&p);
    ret->status = (int)parcel_int(&p);
    ret->has_timed_out = parcel_int(&p) != 0;
    ret->ms = parcel_int(&p);
    ret->is_output_too_large = parcel_int(&p) != 0;
    if (!parcel_next(&p, &output))
        return -1;
    ret->output = output.data;
    ret->output_len = output.len;
    return 0;
}
