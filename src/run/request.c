#include "run/request.h"
#include "base/ident.h"
#include "base/listing.h"
#include "base/utf8.h"
#include "base/word.h"
#include "base/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_EXCERPT_MAX 160

const char *const request_status_names[REQUEST_STATUS_COUNT + 1] = {"draft", "ready", "archived", NULL};
const char *const request_priorities[] = {"P0", "P1", "P2", "P3", NULL};

const char *const request_keys[REQUEST_KEY_COUNT] = {"id",         "title", "status", "priority",
                                                     "depends_on", "flow",  "run",    "body"};

void request_clear(struct request *request)
{
    json_decref(request->json);
    json_decref(request->problems);
    buf_clear(&request->text);
    request->json = request->problems = NULL;
}

/* ---- problems ------------------------------------------------------------------------------------------- */

struct reader {
    struct request *request;
    const char *text;
    size_t len;
    enum lang lang;
};

static void request_excerpt(const struct reader *r, unsigned line, char out[REQUEST_EXCERPT_MAX + 8])
{
    const char *at = r->text, *end = r->text + r->len;
    for (; line > 1 && at; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    size_t n = 0;
    while (at && at + n < end && n < REQUEST_EXCERPT_MAX && at[n] != '\n' && at[n] != '\r' && at[n])
        n++;
    if (n == REQUEST_EXCERPT_MAX) /* not in the middle of a character */
        while (n > 0 && at + n < end && utf8_is_inside(at[n]))
            n--;
    memcpy(out, at ? at : "", n);
    out[n] = '\0';
}

static void request_add_problem(struct reader *r, unsigned line, unsigned column, const char *reason)
{
    char shown[REQUEST_EXCERPT_MAX + 8];
    request_excerpt(r, line, shown);
    json_t *problem =
        json_pack("{s:i, s:i, s:s, s:s}", "line", (int)line, "column", (int)column, "reason", reason, "excerpt", shown);
    if (!problem) /* the line is not UTF-8 */
        problem = json_pack("{s:i, s:i, s:s}", "line", (int)line, "column", (int)column, "reason", reason);
    json_array_append_new(r->request->problems, problem);
}

/* The sentence `key` with its pairs, at the place of a node's value (NULL: the beginning). */
static void __attribute__((sentinel)) req_problem(struct reader *r, const struct yaml_node *node, const char *key, ...)
{
    struct buf reason CLEANUP(buf_clear) = BUF_INIT;
    va_list pairs;
    va_start(pairs, key);
    text_put_list(&reason, r->lang, key, &pairs);
    va_end(pairs);
    request_add_problem(r, node ? node->line : 1, node ? node->column : 1, buf_str(&reason));
}

/* ---- values --------------------------------------------------------------------------------------------- */

static void read_request_text(struct reader *r, const struct yaml_node *node)
{
    const char *text = yaml_text(node);
    if (text)
        json_object_set_new(r->request->json, node->key, json_string(text));
    else if (!yaml_is_null(node))
        req_problem(r, node, "req_text", "key", node->key, NULL);
}

/* The index of the text in `words`; -1 with a problem. */
static int request_read_word(struct reader *r, const struct yaml_node *node, const char *const *words, const char *want)
{
    const char *text = yaml_text(node);
    for (int i = 0; text && words[i]; i++)
        if (strcmp(words[i], text) == 0) {
            json_object_set_new(r->request->json, node->key, json_string(text));
            return i;
        }
    req_problem(r, node, "req_word", "key", node->key, "want", want, NULL);
    return -1;
}

static void read_depends(struct reader *r, const struct yaml_node *node)
{
    json_t *list = json_array();
    json_object_set_new(r->request->json, "depends_on", list);
    if (yaml_is_null(node))
        return;
    const struct yaml_node *one = node->type == YAML_LIST ? node->first : node;
    for (; one; one = node->type == YAML_LIST ? one->next : NULL) {
        const char *id = yaml_text(one);
        if (id && id_is_valid(id))
            json_array_append_new(list, json_string(id));
        else
            req_problem(r, one, "req_depends", NULL);
    }
}

static void request_read_run(struct reader *r, const struct yaml_node *node)
{
    if (node->type == YAML_SCALAR) {
        read_request_text(r, node);
        return;
    }
    json_t *words = json_array();
    for (const struct yaml_node *one = node->type == YAML_LIST ? node->first : NULL; one; one = one->next) {
        if (one->type != YAML_SCALAR)
            req_problem(r, one, "req_run", NULL);
        else
            json_array_append_new(words, json_string(one->text));
    }
    if (json_array_size(words) == 0)
        req_problem(r, node, "req_run", NULL);
    json_object_set_new(r->request->json, "run", words);
}

static void read_unknown(struct reader *r, const struct yaml_node *node)
{
    struct yaml_node at_key = {.line = node->key_line, .column = node->key_column};
    const char *near = nearest_word(node->key, request_keys, REQUEST_KEY_COUNT);
    req_problem(r, &at_key, near ? "req_unknown_near" : "req_unknown", "key", node->key, near ? "near" : NULL, near,
                NULL);
}

static void request_read_key(struct reader *r, const struct yaml_node *node)
{
    struct request *request = r->request;
    if (strcmp(node->key, "title") == 0 || strcmp(node->key, "flow") == 0 || strcmp(node->key, "body") == 0) {
        read_request_text(r, node);
    } else if (strcmp(node->key, "id") == 0) {
        if (!yaml_text(node) || strcmp(yaml_text(node), request->id) != 0)
            req_problem(r, node, "req_id", "id", request->id, NULL);
    } else if (strcmp(node->key, "status") == 0) {
        int status = request_read_word(r, node, request_status_names, "draft, ready, archived");
        request->status = status < 0 ? REQUEST_DRAFT : (enum request_status)status;
    } else if (strcmp(node->key, "priority") == 0) {
        int priority = request_read_word(r, node, request_priorities, "P0, P1, P2, P3");
        request->priority = priority < 0 ? REQUEST_PRIORITY_DEFAULT : priority;
    } else if (strcmp(node->key, "depends_on") == 0) {
        read_depends(r, node);
    } else if (strcmp(node->key, "run") == 0) {
        request_read_run(r, node);
    } else {
        read_unknown(r, node);
    }
}

/* What the keys must be together, and what those that are missing stand for. */
static void request_settle(struct reader *r, const struct yaml_node *root)
{
    struct request *request = r->request;
    const struct yaml_node *status = yaml_get(root, "status"), *run = yaml_get(root, "run");
    bool has_flow = json_object_get(request->json, "flow"), has_run = json_object_get(request->json, "run");
    if (!json_string_length(json_object_get(request->json, "title")))
        req_problem(r, yaml_get(root, "title"), "req_title", NULL);
    if (has_flow && has_run)
        req_problem(r, run, "req_flow_and_run", NULL);
    if (!status)
        request->status = has_flow || has_run ? REQUEST_READY : REQUEST_DRAFT;
    if (request->status == REQUEST_READY && !has_flow && !has_run && !request_is_broken(request))
        req_problem(r, status, "req_nothing", NULL);
    json_object_set_new(request->json, "status", json_string(request_status_names[request->status]));
    json_object_set_new(request->json, "priority", json_string(request_priorities[request->priority]));
    if (!json_object_get(request->json, "depends_on"))
        json_object_set_new(request->json, "depends_on", json_array());
}

/* What libyaml says becomes the one problem. */
static void reader_refused(struct reader *r, const struct tsk_error *err)
{
    const char *line = tsk_error_context(err, "line"), *column = tsk_error_context(err, "column"),
               *reason = tsk_error_context(err, "reason");
    struct buf words CLEANUP(buf_clear) = BUF_INIT;
    text_put_reason(&words, r->lang, reason ? reason : "?");
    request_add_problem(r, line ? (unsigned)strtoul(line, NULL, 10) : 1,
                        column ? (unsigned)strtoul(column, NULL, 10) : 1, buf_str(&words));
}

static void request_begin(struct request *request, const char *id)
{
    *request = (struct request){.priority = REQUEST_PRIORITY_DEFAULT, .problems = json_array()};
    request->text = (struct buf){.max = REQUEST_SIZE_MAX + 1};
    snprintf(request->id, sizeof request->id, "%s", id);
    snprintf(request->source, sizeof request->source, ".aiflow/" REQUEST_FOLDER "/%s" REQUEST_SUFFIX, id);
    request->json = json_pack("{s:s}", "id", id);
}

static void request_parse_text(struct request *request, const char *text, size_t len, enum lang lang)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    struct tsk_error err;
    struct reader r = {.request = request, .text = text, .len = len, .lang = lang};
    if (yaml_parse(text, len, request->source, &doc, &err) < 0) {
        reader_refused(&r, &err);
        return;
    }
    const struct yaml_node *root = yaml_root(doc);
    if (root->type != YAML_MAP) {
        req_problem(&r, root, "req_no_map", NULL);
        return;
    }
    if (strncmp(request->id, REQUEST_PREFIX, strlen(REQUEST_PREFIX)) != 0 || !id_is_valid(request->id))
        req_problem(&r, NULL, "req_name", NULL);
    request->is_map = true;
    for (size_t i = 0; i < REQUEST_KEY_COUNT; i++)
        request->given |= yaml_get(root, request_keys[i]) ? 1u << i : 0;
    for (const struct yaml_node *node = root->first; node; node = node->next)
        request_read_key(&r, node);
    request_settle(&r, root);
}

void request_parse(const char *id, const char *text, size_t len, enum lang lang, struct request *ret)
{
    request_begin(ret, id);
    buf_put(&ret->text, text, len);
    request_parse_text(ret, text, len, lang);
}

int request_need_whole(const struct request *request, struct tsk_error *err)
{
    if (!request_is_broken(request))
        return 0;
    errno = request->read_errno;
    if (errno && errno != ELOOP && errno != EINVAL && errno != EFBIG)
        return error_errno(err, "read", request->source);
    const json_t *first = json_array_get(request->problems, 0);
    struct buf all CLEANUP(buf_clear) = {.max = 4000};
    error_set(err, TSK_INVALID_INPUT, "request_problem", "source", request->source, NULL);
    error_add_int(err, "line", json_get_int(first, "line", 1));
    error_add_int(err, "column", json_get_int(first, "column", 1));
    error_add(err, "reason", json_get_string(first, "reason", ""));
    error_add(err, "excerpt", json_get_string(first, "excerpt", ""));
    error_add(err, "request_id", request->id);
    error_add_int(err, "count", (int64_t)json_array_size(request->problems));
    json_write(&all, request->problems, false);
    if (!all.failed)
        error_add_json(err, "problems", buf_str(&all));
    return error_add_next(err, "tasuki request show %s", request->id);
}

/* ---- files ---------------------------------------------------------------------------------------------- */

static int look_in_folder(struct tsk_workspace *ws)
{
    return fs->openat(ws->state_dir, REQUEST_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t len = strlen(name), tail = strlen(suffix);
    return len > tail && strcmp(name + len - tail, suffix) == 0;
}

/* The id in a file's name; false: it can have none. */
static bool id_of_file(const char *name, char id[LOCK_ID_MAX])
{
    size_t len = strlen(name) - strlen(REQUEST_SUFFIX);
    if (!ends_with(name, REQUEST_SUFFIX) || len >= LOCK_ID_MAX)
        return false;
    snprintf(id, LOCK_ID_MAX, "%.*s", (int)len, name);
    return id_is_valid(id);
}

/* Meant to be a request's, but called so that it cannot be one. */
static bool is_stray(const char *name)
{
    return ends_with(name, REQUEST_SUFFIX) ||
           (ends_with(name, ".yml") && strncmp(name, REQUEST_PREFIX, strlen(REQUEST_PREFIX)) == 0);
}

static void list_file(const char *name, json_t *ids, json_t *strays)
{
    char id[LOCK_ID_MAX];
    struct buf shown CLEANUP(buf_clear) = BUF_INIT;
    if (name[0] == '.')
        return;
    if (id_of_file(name, id)) {
        json_array_append_new(ids, json_string(id));
    } else if (is_stray(name)) {
        utf8_put_visible(&shown, name, false);
        json_array_append_new(strays, json_string(buf_str(&shown)));
    }
}

int request_list(struct tsk_workspace *ws, json_t **ret, json_t **ret_strays, struct tsk_error *err)
{
    struct listing names CLEANUP(listing_close);
    if (listing_open(&names, ws->state_dir, REQUEST_FOLDER, LISTING_SORTED) < 0 && errno != ENOENT)
        return fs_error(err, "open", ws->state_dir, REQUEST_FOLDER);
    *ret = json_array();
    *ret_strays = json_array();
    for (const char *name; (name = listing_next(&names));)
        list_file(name, *ret, *ret_strays);
    return 0;
}

static int request_not_found(const char *id, const char *key, const char *near, struct tsk_error *err)
{
    error_set(err, TSK_REQUEST_NOT_FOUND, key, "request", id, near ? "near" : NULL, near, NULL);
    error_add(err, "request_id", id);
    return error_add_next(err, "tasuki request list");
}

int request_refuse_unknown(const char *id, struct tsk_error *err)
{
    return request_not_found(id, "request_unknown", NULL, err);
}

/* How many requests begin so, and the id of the last one; -1 if they cannot be listed. */
static int count_beginning(struct tsk_workspace *ws, const char *start, char id[LOCK_ID_MAX], struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL, *strays CLEANUP_JSON = NULL;
    int found = 0;
    if (request_list(ws, &ids, &strays, err) < 0)
        return -1;
    json_each (ids, i, one) {
        if (strncmp(json_string_value(one), start, strlen(start)) != 0)
            continue;
        found++;
        snprintf(id, LOCK_ID_MAX, "%s", json_string_value(one));
    }
    return found;
}

/* Describes in plain words what is there instead of a regular file (a link, a directory), not by the system's error
 * text. */
static void add_unreadable(struct reader *r, int reason)
{
    const char *key = reason == ELOOP    ? "req_symlink"
                      : reason == EINVAL ? "req_no_file"
                      : reason == EFBIG  ? "req_too_long"
                                         : NULL;
    if (key)
        req_problem(r, NULL, key, NULL);
    else
        request_add_problem(r, 1, 1, strerrordesc_np(reason));
}

static int request_read_file(int folder, struct request *request, enum lang lang, struct tsk_error *err)
{
    char name[LOCK_ID_MAX + 8];
    struct stat st;
    snprintf(name, sizeof name, "%s" REQUEST_SUFFIX, request->id);
    int fd CLEANUP_FD = fs->openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT)
        return request_not_found(request->id, "request_unknown", NULL, err);
    bool is_file = fd >= 0 && fs->fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || (errno = EINVAL, false));
    if (!is_file || fs_read_fd(fd, REQUEST_SIZE_MAX, &request->text) < 0) {
        /* Q1: what cannot be read is broken, and no reason to stop. */
        struct reader r = {.request = request, .text = "", .lang = lang};
        request->read_errno = errno;
        add_unreadable(&r, errno);
        return 0;
    }
    request->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    time_format_exact(request->mtime_ns / 1000000, request->updated_at);
    request_parse_text(request, buf_str(&request->text), request->text.len, lang);
    return 0;
}

static void finish_json(struct request *request)
{
    json_object_set_new(request->json, "path", json_string(request->source));
    json_object_set_new(request->json, "updated_at", json_string(request->updated_at));
    if (request_is_broken(request))
        json_object_set(request->json, "problems", request->problems);
}

int request_read(struct tsk_workspace *ws, const char *id, enum lang lang, struct request *ret, struct tsk_error *err)
{
    char near[LOCK_ID_MAX];
    if (!id_is_valid(id))
        return request_not_found(id, "request_unknown", NULL, err);
    int folder CLEANUP_FD = look_in_folder(ws);
    if (folder < 0)
        return errno == ENOENT ? request_not_found(id, "request_unknown", NULL, err)
                               : fs_error(err, "open", ws->state_dir, REQUEST_FOLDER);
    struct request request;
    request_begin(&request, id);
    if (request_read_file(folder, &request, lang, err) < 0) {
        request_clear(&request);
        struct tsk_error ignored; /* the file itself is missing: a failed search only costs the hint */
        return count_beginning(ws, id, near, &ignored) == 1 ? request_not_found(id, "request_unknown_near", near, err)
                                                            : -1;
    }
    finish_json(&request);
    *ret = request;
    return 0;
}

/* @1 is the request that was added last; 0: it is no such name. */
static size_t place_of_name(const char *name)
{
    char *end;
    unsigned long place = name[0] == '@' && name[1] >= '1' && name[1] <= '9' ? strtoul(name + 1, &end, 10) : 0;
    return place && !*end ? place : 0;
}

/* When it was added: the time in its id, else its file's. */
static int64_t added_ms(int folder, const char *id)
{
    char name[LOCK_ID_MAX + 8];
    struct stat st;
    int64_t time_ms = time_of_id(id);
    snprintf(name, sizeof name, "%s" REQUEST_SUFFIX, id);
    if (time_ms >= 0 || fs->fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return time_ms;
    return (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
}

struct added {
    const char *id;
    int64_t ms;
};

/* The newest first; ids of one time as they sort. */
static int compare_added(const void *left, const void *right)
{
    const struct added *a = left, *b = right;
    return a->ms != b->ms ? (a->ms < b->ms) - (a->ms > b->ms) : strcmp(b->id, a->id);
}

static const char *id_at_place(struct tsk_workspace *ws, const json_t *ids, size_t place)
{
    size_t count = json_array_size(ids);
    int folder CLEANUP_FD = look_in_folder(ws);
    if (place > count || folder < 0)
        return NULL;
    struct added *all CLEANUP_FREE = memory_zeroed(count, sizeof *all);
    json_each (ids, i, id)
        all[i] = (struct added){json_string_value(id), added_ms(folder, json_string_value(id))};
    qsort(all, count, sizeof *all, compare_added);
    const char *found = all[place - 1].id;
    return found;
}

/* How well a name fits an id: 3 it is the id, with or without RQ-; 2 its beginning; 1 a part of it; 0 not at all. What changes
 * something needs a name that cannot be another request's id: RQ-1 is never RQ-10. -1: as such a name it is too short. */
static int request_fit_of(const char *id, const char *name, bool may_change)
{
    const char *rest = id + strlen(REQUEST_PREFIX);
    size_t len = strlen(name);
    if (strcmp(id, name) == 0 || strcmp(rest, name) == 0)
        return 3;
    if (may_change && strncmp(name, REQUEST_PREFIX, strlen(REQUEST_PREFIX)) == 0)
        return 0;
    if (may_change && len < REQUEST_PART_MIN)
        return strstr(rest, name) ? -1 : 0;
    if (strncmp(id, name, len) == 0 || (!may_change && strncmp(rest, name, len) == 0))
        return 2;
    return strstr(rest, name) ? 1 : 0;
}

static int request_refuse_short(const char *name, struct tsk_error *err)
{
    request_not_found(name, "request_part_short", NULL, err);
    return error_add(err, "count", DIGITS(REQUEST_PART_MIN));
}

int request_resolve(struct tsk_workspace *ws, const char *name, bool may_change, char id[LOCK_ID_MAX],
                    struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL, *strays CLEANUP_JSON = NULL;
    const char *found = NULL;
    size_t count = 0, place = place_of_name(name);
    int best = 0;
    bool is_short = false;
    snprintf(id, LOCK_ID_MAX, "%s", name);
    if (!place && !id_is_valid(name))
        return request_not_found(name, "request_unknown", NULL, err);
    if (request_list(ws, &ids, &strays, err) < 0)
        return -1;
    json_each (ids, i, one) {
        int fit = place ? 0 : request_fit_of(json_string_value(one), name, may_change);
        is_short = is_short || fit < 0;
        found = fit > best ? json_string_value(one) : found;
        count = fit > best ? 1 : count + (fit > 0 && fit == best);
        best = fit > best ? fit : best;
    }
    if (place)
        found = id_at_place(ws, ids, place);
    if (count > 1)
        return request_not_found(name, "request_ambiguous", NULL, err);
    if (found)
        snprintf(id, LOCK_ID_MAX, "%s", found);
    else if (is_short)
        return request_refuse_short(name, err);
    else if (place)
        return request_not_found(name, json_array_size(ids) ? "request_unknown" : "request_none", NULL, err);
    return 0; /* the one that reads it says that there is none */
}

void request_of_stray(const char *name, enum lang lang, struct request *ret)
{
    char id[LOCK_ID_MAX];
    utf8_copy(id, sizeof id, name);
    request_begin(ret, id);
    snprintf(ret->source, sizeof ret->source, ".aiflow/" REQUEST_FOLDER "/%s", name);
    struct reader r = {.request = ret, .text = "", .lang = lang};
    req_problem(&r, NULL, "req_name", NULL);
    finish_json(ret);
    json_object_set_new(ret->json, "path", json_sprintf(".aiflow/" REQUEST_FOLDER "/%s", name));
    ret->is_stray = true;
}

void request_hash(const struct request *request, char ret[SHA256_HEX_SIZE])
{
    sha256_hex(buf_str(&request->text), request->text.len, ret);
}
