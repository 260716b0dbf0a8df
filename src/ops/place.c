#include "ops/place.h"
#include "base/fs.h"
#include "base/listing.h"
#include "base/word.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATE_PREFIX ".aiflow/"

/* Whether `path` is that directory or below it. */
static bool is_within(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || !path[len]);
}

/* From `here` up to the last directory that both have, and down again. */
static void put_way(struct buf *place, const char *here, const char *path)
{
    size_t shared = 0;
    for (size_t i = 0; here[i] == path[i] || !here[i] || !path[i]; i++) {
        bool here_ends = here[i] == '/' || !here[i], path_ends = path[i] == '/' || !path[i];
        if (here_ends && path_ends)
            shared = i;
        if (!here[i] || !path[i])
            break;
    }
    for (const char *c = here + shared; *c; c++)
        if (*c == '/')
            buf_puts(place, "../");
    const char *rest = path + shared;
    buf_puts(place, *rest == '/' ? rest + 1 : rest);
    if (place->len == 0)
        buf_puts(place, ".");
}

bool place_from_here(const struct tsk_workspace *ws, const char *path, struct buf *place)
{
    char here[PATH_MAX];
    struct buf whole CLEANUP(buf_clear) = BUF_INIT;
    if (strncmp(path, STATE_PREFIX, strlen(STATE_PREFIX)) == 0)
        buf_printf(&whole, "%s/%s", ws->state_path, path + strlen(STATE_PREFIX));
    else if (path[0] == '/' && is_within(path, ws->root))
        buf_puts(&whole, path);
    if (!whole.len || !getcwd(here, sizeof here))
        return false;
    bool is_near = is_within(here, ws->root) || is_within(ws->root, here);
    if (is_near && is_within(buf_str(&whole), ws->root))
        put_way(place, here, buf_str(&whole));
    else
        buf_puts(place, buf_str(&whole));
    return strcmp(buf_str(place), path) != 0;
}

static bool is_given(const struct op_call *call, const char *text)
{
    json_each_pair (call->args, key, value)
        if (json_is_string(value) && strcmp(json_string_value(value), text) == 0)
            return true;
    return false;
}

/* The flow that a run's lock names, from the root. */
static void place_flow_from_here(const struct op_call *call, const char *flow, struct tsk_error *err)
{
    struct buf place CLEANUP(buf_clear) = BUF_INIT, whole CLEANUP(buf_clear) = BUF_INIT;
    buf_printf(&whole, "%s/%s", call->ws->root, flow);
    if (place_from_here(call->ws, flow[0] == '/' ? flow : buf_str(&whole), &place))
        error_replace(err, "flow", buf_str(&place));
}

void place_errors_from_here(const struct op_call *call, struct tsk_error *err)
{
    struct buf place CLEANUP(buf_clear) = BUF_INIT;
    const char *source = tsk_error_context(err, "source");
    if (source && !is_given(call, source) && place_from_here(call->ws, source, &place))
        error_replace(err, "source", buf_str(&place));
    buf_reset(&place);
    const char *path = err->sys_errno ? tsk_error_context(err, "path") : NULL;
    if (path && strncmp(path, STATE_PREFIX, strlen(STATE_PREFIX)) == 0 && place_from_here(call->ws, path, &place))
        error_replace(err, "path", buf_str(&place));
    const char *flow =
        err->code == TSK_RUN_IN_PROGRESS || err->code == TSK_NEEDS_CONFIRMATION ? tsk_error_context(err, "flow") : NULL;
    if (flow && !is_given(call, flow))
        place_flow_from_here(call, flow, err);
}

/* Whether the error is about a file that the caller can edit. */
static bool names_file(const struct tsk_error *err)
{
    struct stat st;
    const char *source = tsk_error_context(err, "source");
    return source && fs->fstatat(AT_FDCWD, source, &st, 0) == 0 && S_ISREG(st.st_mode);
}

/* The path of such an error may also be a word for something else, as a process. */
static bool is_denied_file(const struct tsk_error *err)
{
    struct stat st;
    const char *path = tsk_error_context(err, "path");
    bool is_denied = err->sys_errno == EACCES || err->sys_errno == EPERM || err->sys_errno == ENOTDIR;
    return is_denied && path && (fs->fstatat(AT_FDCWD, path, &st, 0) == 0 || errno == EACCES || errno == ENOTDIR);
}

/* Not a command that a task gives: its refusal is about a value. */
static bool is_for_people(const struct op *op)
{
    static const char *const nouns[] = {"proc", "flow", "request", "queue", "runs", "workers", "agent", "own"};
    for (size_t i = 0; op->noun && i < sizeof nouns / sizeof nouns[0]; i++)
        if (op_has_noun(op, nouns[i]))
            return true;
    return !op->noun;
}

void place_propose(const struct op_call *call, struct tsk_error *err)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    const char *line = tsk_error_context(err, "line");
    bool has_line = line && strcmp(line, "0") != 0, is_cycle = err->text && strcmp(err->text, "depend_cycle") == 0;
    if (is_denied_file(err) && !tsk_error_next(err, 0))
        error_add_next(err, "namei -l %s", shell_word(&word, tsk_error_context(err, "path")));
    if ((err->code != TSK_INVALID_INPUT && err->code != TSK_FLOW_INVALID) || tsk_error_next(err, 0))
        return;
    if (names_file(err) && (has_line || is_cycle))
        error_add_next(err, "${EDITOR:-vi} %s%s%s%s", has_line ? "+" : "", has_line ? line : "", has_line ? " " : "",
                       shell_word(&word, tsk_error_context(err, "source")));
    else if (err->code == TSK_INVALID_INPUT && is_for_people(call->op))
        error_add_next(err, "tasuki %s --help", OP_WORDS(call->op));
}

void place_put_aside(struct op_call *call)
{
    struct buf place CLEANUP(buf_clear) = BUF_INIT;
    if (!call->is_cli || !place_from_here(call->ws, STATE_PREFIX, &place))
        return;
    if (!call->aside)
        call->aside = json_object();
    json_object_set_new(call->aside, "state_place", json_string(buf_str(&place)));
}

/* ---- a file that almost exists ---- */

#define NEAR_FILES_MAX 512 /* names that are compared; a larger directory gets no suggestion */

bool place_nearest_name(int parent, const char *folder, const char *name, char near[256])
{
    char names[NEAR_FILES_MAX][64];
    const char *list[NEAR_FILES_MAX], *found;
    size_t count = 0;
    struct listing files CLEANUP(listing_close);
    listing_open(&files, parent, folder, 0);
    for (const char *file; count < NEAR_FILES_MAX && (file = listing_next(&files));)
        if (file[0] != '.' && strlen(file) < sizeof names[0]) {
            memcpy(names[count], file, strlen(file) + 1);
            list[count] = names[count];
            count++;
        }
    found = nearest_word(name, list, count);
    snprintf(near, 256, "%s", found ? found : "");
    return found;
}

bool place_nearest(const char *given, char near[PATH_MAX])
{
    char name[256], folder[PATH_MAX];
    const char *slash = strrchr(given, '/');
    size_t len = slash ? (size_t)(slash - given) + 1 : 0;
    if (len >= sizeof folder - 256)
        return false;
    char whole[256];
    snprintf(folder, sizeof folder, "%.*s", (int)len, given);
    snprintf(whole, sizeof whole, "%.200s.yaml", given + len);
    if (!place_nearest_name(AT_FDCWD, len ? folder : ".", given + len, name) &&
        !place_nearest_name(AT_FDCWD, len ? folder : ".", whole, name))
        return false;
    snprintf(near, PATH_MAX, "%.3800s%s", folder, name);
    return true;
}
