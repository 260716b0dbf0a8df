#include "proc/actor.h"
#include "base/fs.h"

int proc_actor_write(int dir, const char *name, int64_t n, struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    const struct who *who = who_current();
    buf_puts(&b, "{");
    buf_json_pair_int(&b, "n", n);
    buf_json_key(&b, "agent");
    buf_puts(&b, who->is_agent ? "true" : "false");
    buf_json_key(&b, "who");
    who_put(&b, who);
    buf_puts(&b, "}\n");
    return fs_replace_file(dir, name, 0600, b.data, b.len) < 0 ? fs_error(err, "write", dir, name) : 0;
}

bool proc_actor_read(int dir, const char *name, struct who *ret, int64_t *ret_n)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored;
    json_t *json CLEANUP_JSON = NULL;
    if (dir < 0 || fs_read_file(dir, name, 64 << 10, &b) < 0 ||
        json_parse(buf_str(&b), b.len, name, &json, &ignored) < 0)
        return false;
    who_of_json(json_object_get(json, "who"), ret);
    ret->is_agent = json_get_bool(json, "agent", false);
    *ret_n = json_get_int(json, "n", 0);
    return ret->label[0] != '\0';
}

bool proc_starter(int dir, int64_t n, struct who *ret)
{
    int64_t started;
    return n > 0 && proc_actor_read(dir, PROC_STARTED_BY, ret, &started) && started <= n;
}

int proc_guarding_read(struct tsk_workspace *ws, enum proc_guarding *ret, struct tsk_error *err)
{
    static const char *const names[] = {[GUARD_ASK] = "ask", [GUARD_WARN] = "warn", [GUARD_OFF] = "off", NULL};
    unsigned guard = GUARD_ASK;
    int result = workspace_config_word(ws, "processes", "guard", names, &guard, err);
    *ret = guard;
    return result;
}

void error_add_starter(struct tsk_error *err, const struct who *starter)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    who_put(&text, starter);
    error_add_json(err, "started_by", buf_str(&text));
}
