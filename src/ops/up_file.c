/* up_file.c - the file of `up` and `down`: which one, and what of it is asked for. */
#include "base/fs.h"
#include "base/word.h"
#include "ops/proc_args.h"
#include "ops/up.h"
#include "proc/registry.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    enum exchange_format format;
} up_names[] = {
    {"tasuki.yaml", EXCHANGE_AUTO}, {"process-compose.yaml", EXCHANGE_COMPOSE}, {"Procfile", EXCHANGE_PROCFILE}};
enum { UP_NAMES = sizeof up_names / sizeof up_names[0], DOT_ENV_MAX = 1 << 20, UP_GUESSES = 100 };

void up_file_clear(struct up_file *file)
{
    exchange_clear(&file->found);
    json_free(&file->names);
    json_free(&file->ids);
}

/* ---- which file ---- */

static bool find_in(const char *dir, struct up_file *ret)
{
    struct stat st;
    for (size_t i = 0; i < UP_NAMES; i++)
        if (snprintf(ret->path, sizeof ret->path, "%s/%s", dir, up_names[i].name) < (int)sizeof ret->path &&
            fs->fstatat(AT_FDCWD, ret->path, &st, 0) == 0)
            return true;
    return false;
}

bool up_file_is_in(const char *dir)
{
    struct up_file file;
    return find_in(dir, &file);
}

/* Whether any process is registered: an export has something to write, and there is something to stop. */
static bool has_processes(struct op_call *call)
{
    REGISTRY(reg);
    struct tsk_error ignored;
    json_t *ids CLEANUP_JSON = NULL;
    return proc_args_open(call, &reg, &ignored) == 0 && proc_ids(&reg, &ids, &ignored) == 0 && json_array_size(ids) > 0;
}

static int refuse_no_file(struct op_call *call, const char *here, struct tsk_error *err)
{
    bool is_up = strcmp(call->op->verb, "up") == 0, has_some = has_processes(call);
    error_set(err, TSK_NOT_FOUND, "up_no_file", "path", here, NULL);
    error_add_next(err, "tasuki %s -f FILE", call->op->verb);
    if (is_up)
        error_add_next(err, has_some ? "tasuki proc export > tasuki.yaml" : "echo 'NAME: COMMAND' > Procfile");
    else if (has_some)
        error_add_next(err, "tasuki proc list");
    return -1;
}

static int find_file(struct op_call *call, struct up_file *ret, struct tsk_error *err)
{
    char here[PATH_MAX], dir[PATH_MAX];
    const char *given = json_get_string(call->args, "file", NULL), *root = call->ws->root;
    if (given) {
        snprintf(ret->path, sizeof ret->path, "%s", given);
        return 0;
    }
    snprintf(here, sizeof here, "%s", proc_args_directory(call, dir));
    size_t len = strlen(root);
    bool is_below = strncmp(here, root, len) == 0 && (!here[len] || here[len] == '/');
    snprintf(dir, sizeof dir, "%s", here);
    for (;;) {
        if (find_in(dir, ret)) {
            if (!call->is_remote && strcmp(dir, here) == 0)
                memmove(ret->path, ret->path + strlen(dir) + 1,
                        strlen(ret->path) - strlen(dir)); /* as the caller would name it */
            return 0;
        }
        char *slash = strrchr(dir, '/');
        if (!is_below || strlen(dir) <= len || !slash || slash == dir)
            break;
        *slash = '\0';
    }
    return refuse_no_file(call, here, err);
}

static enum exchange_format format_by_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < UP_NAMES; i++)
        if (strcmp(up_names[i].name, name) == 0)
            return up_names[i].format;
    return EXCHANGE_AUTO;
}

/* ---- .env ---- */

static bool is_variable(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    return len && !isdigit((unsigned char)*name);
}

/* NAME=VALUE, with `export` and quotes as a shell has them; no expansion. */
static bool take_variable(char *line, json_t *env)
{
    if (strncmp(line, "export ", 7) == 0)
        line += 7;
    line += strspn(line, " \t");
    char *equals = strchr(line, '=');
    size_t len = equals ? (size_t)(equals - line) : 0;
    if (!equals || !is_variable(line, len))
        return false;
    char *value = equals + 1, quote = *value;
    size_t end = strlen(value);
    if ((quote == '"' || quote == '\'') && end >= 2 && value[end - 1] == quote) {
        value[end - 1] = '\0';
        value++;
    }
    *equals = '\0';
    return json_object_set_new(env, line, json_string(value)) == 0;
}

static int dot_env_line(const char *path, char *line, unsigned number, json_t *env, struct tsk_error *err)
{
    size_t len = strlen(line);
    while (len && strchr(" \t\r", line[len - 1]))
        line[--len] = '\0';
    line += strspn(line, " \t");
    if (!*line || *line == '#' || take_variable(line, env))
        return 0;
    return error_set(err, TSK_INVALID_INPUT, "up_env_line", "source", path, "line", DIGITS(number), NULL);
}

/* The variables of the file `name` in `dir`; a later one counts. Without the file there are none, if it may be absent. */
static int read_env_file(const char *dir, const char *name, bool may_be_absent, json_t *env, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : dir, *name == '/' ? "" : "/", name);
    if (fs_read_file(AT_FDCWD, path, DOT_ENV_MAX, &text) < 0)
        return errno == ENOENT && may_be_absent ? 0 : error_errno(err, "read", path);
    unsigned number = 1;
    for (char *line = (char *)buf_str(&text), *end; line; line = end, number++) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        if (dot_env_line(path, line, number, env, err) < 0)
            return -1;
    }
    return 0;
}

/* The variables of .env and of the files that the process names, below those that it has. */
static int add_variables(const struct up_file *file, const char *id, json_t *spec, const json_t *dot_env,
                         struct tsk_error *err)
{
    const json_t *more = json_object_get(file->found.env_files, id);
    json_t *env CLEANUP_JSON = json_get_bool(more, "no_dot_env", false) ? json_object() : json_copy((json_t *)dot_env);
    json_t *own = json_object_get(spec, "env");
    json_each (json_object_get(more, "files"), i, name)
        if (read_env_file(file->dir, json_string_value(name), false, env, err) < 0)
            return -1;
    if (json_object_size(env) && !own)
        json_object_set(spec, "env", env);
    else if (own)
        json_object_update_missing(own, env);
    return 0;
}

/* As foreman and process-compose do: the variables of .env are those of every process. */
static int add_dot_env(struct up_file *file, struct tsk_error *err)
{
    json_t *env CLEANUP_JSON = json_object();
    if (file->found.format != EXCHANGE_PROCFILE && file->found.format != EXCHANGE_COMPOSE)
        return 0;
    if (read_env_file(file->dir, ".env", true, env, err) < 0)
        return -1;
    json_each_pair (file->found.processes, id, spec)
        if (add_variables(file, id, spec, env, err) < 0)
            return -1;
    return 0;
}

/* A process runs where its file is, unless the file says otherwise; so does one of a linked worktree, whose root is another. */
static void set_directories(const struct op_call *call, struct up_file *file)
{
    if (strcmp(file->dir, call->ws->root) == 0)
        return;
    json_each_pair (file->found.processes, id, spec)
        if (!json_get_string(spec, "cwd", NULL))
            json_object_set_new(spec, "cwd", json_string(file->dir));
}

/* ---- what of it ---- */

static void select_with_needs(const struct up_file *file, json_t *selected, const char *id)
{
    json_t *spec = json_object_get(file->found.processes, id);
    if (!spec || json_object_get(selected, id))
        return;
    json_object_set_new(selected, id, json_true());
    json_each_key (json_object_get(spec, "depends_on"), other)
        select_with_needs(file, selected, other);
}

/* Refuses an id that the file does not have. `next` has the one that was meant; where none is near it shows what there is: a
 * `down` without an id would stop all. */
static int refuse_id(const struct op_call *call, const struct up_file *file, const char *id, struct tsk_error *err)
{
    const char *known[UP_GUESSES];
    size_t count = 0;
    json_each_key (file->found.processes, name)
        if (count < UP_GUESSES)
            known[count++] = name;
    const char *meant = nearest_word(id, known, count);
    error_set(err, TSK_PROCESS_NOT_FOUND, "up_not_in_file", "id", id, "file", file->path, NULL);
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    const char *given = json_get_string(call->args, "file", NULL);
    if (meant)
        error_add_next(err, "tasuki %s %s%s%s%s", call->op->verb, given ? "-f " : "",
                       given ? shell_word(&word, given) : "", given ? " " : "", meant);
    else
        error_add_next(err, "tasuki proc list");
    return -1;
}

static int select_given(const struct op_call *call, const struct up_file *file, json_t *selected, struct tsk_error *err)
{
    const json_t *given = json_object_get(call->args, "id");
    json_t *list CLEANUP_JSON = json_is_array(given) ? json_copy((json_t *)given) : json_pack("[O]", given);
    json_each (list, i, id) {
        const char *name = json_string_value(id);
        if (!json_object_get(file->found.processes, name))
            return refuse_id(call, file, name, err);
        if (strcmp(call->op->name, "down") == 0) /* others may need what it depends on */
            json_object_set_new(selected, name, json_true());
        else
            select_with_needs(file, selected, name);
    }
    return 0;
}

/* A masked value of a process that is not asked for is no problem. */
static void drop_masked(struct up_file *file)
{
    for (size_t i = json_array_size(file->found.masked); i-- > 0;) {
        const json_t *one = json_array_get(file->found.masked, i);
        if (!json_get_bool(one, "is_template", false) &&
            !json_object_get(file->found.processes, json_get_string(one, "name", "")))
            json_array_remove(file->found.masked, i);
    }
}

static int select_processes(const struct op_call *call, struct up_file *file, struct tsk_error *err)
{
    json_t *selected CLEANUP_JSON = json_object(), *spec;
    bool is_all = !json_object_get(call->args, "id");
    const char *id;
    void *next;
    if (!is_all && select_given(call, file, selected, err) < 0)
        return -1;
    file->ids = json_array();
    file->names = json_object();
    json_object_foreach_safe(file->found.processes, next, id, spec)
    {
        json_object_set_new(file->names, id, json_true());
        if (is_all || json_object_get(selected, id))
            json_array_append_new(file->ids, json_string(id));
        else
            json_object_del(file->found.processes, id);
    }
    drop_masked(file);
    return 0;
}

int up_file_read(struct op_call *call, struct up_file *ret, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    char dir[PATH_MAX], command[32];
    if (find_file(call, ret, err) < 0)
        return -1;
    snprintf(command, sizeof command, "tasuki %s -f", call->op->verb);
    if (proc_file_read(ret->path, command, &text, err) < 0)
        return -1;
    const char *base = proc_file_directory(ret->path, dir, sizeof dir);
    snprintf(ret->dir, sizeof ret->dir, "%s", base ? base : call->ws->root);
    ret->from = (struct exchange_source){.name = ret->path,
                                         .path = ret->path,
                                         .format = format_by_name(ret->path),
                                         .cwd_base = ret->dir,
                                         .lang = call->lang,
                                         .is_up = true};
    if (exchange_read(&ret->from, buf_str(&text), text.len, &ret->found, err) < 0)
        return -1;
    if (json_object_size(ret->found.processes) == 0) {
        error_set(err, TSK_INVALID_INPUT, "up_empty", "file", ret->path, NULL);
        return error_add_next(err, "tasuki %s -f FILE", call->op->verb);
    }
    set_directories(call, ret);
    bool starts_them =
        strcmp(call->op->name, "up") == 0; /* `down` needs no variables, and a mistake in them does not stop it */
    return starts_them && add_dot_env(ret, err) < 0 ? -1 : select_processes(call, ret, err);
}
