/* edit.c - changing request files without touching what was not mentioned.
 *
 * A file is edited as text. A value that stands on its key's line is replaced where it stands, so that a comment behind it stays.
 * One that takes several lines is replaced with all of its lines, comments between them included; comments and blank lines
 * around it stay. A new key comes behind the one that stands before it in the usual order. What comes out is read again: only
 * if it says what was meant it is taken; otherwise (a file in a form that was not foreseen, such as one pair of braces) it is
 * written anew from its values, without comments. */
#include "base/fs.h"
#include "base/ident.h"
#include "base/yaml_reader.h"
#include "lock/wait.h"
#include "run/request.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define GUARD_NAME   "requests.lock"
#define GUARD_MS     10000
#define REMOVED      "removed"
#define NEW_ID_TRIES 20

static const char *const order[] = {"id", "title", "status", "priority", "depends_on", "flow", "run", "body"};
#define ORDER_COUNT (sizeof order / sizeof order[0])

/* ---- writing values ------------------------------------------------------------------------------------- */

static bool is_reserved(const char *text)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(words[i], text) == 0)
            return true;
    return false;
}

/* Whether it means itself without quotes. */
static bool is_plain(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t len = strlen(text);
    if (!len || !strchr(letters, text[0]) || text[len - 1] == ' ' || is_reserved(text))
        return false;
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < 0x80 && !strchr(letters, *at) && !strchr("0123456789 ._/+=@()-", *at))
            return false;
    return true;
}

/* Whether it can stand as a block: `|` and indented lines. */
static bool is_block(const char *text)
{
    size_t len = strlen(text);
    if (!strchr(text, '\n') || text[0] == ' ' || text[0] == '\n' || text[0] == '\t' || len < 2 ||
        (text[len - 1] == '\n' && text[len - 2] == '\n'))
        return false;
    for (const char *at = text; *at; at++)
        if (((unsigned char)*at < ' ' && *at != '\n' && *at != '\t') || *at == 0x7f)
            return false;
    return true;
}

static void put_block(struct buf *b, const char *text)
{
    bool has_end = text[strlen(text) - 1] == '\n';
    buf_puts(b, has_end ? "|\n" : "|-\n");
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (len)
            buf_printf(b, "  %.*s", (int)len, text);
        text += len + (text[len] == '\n');
        if (*text)
            buf_puts(b, "\n");
    }
}

static void put_scalar(struct buf *b, const char *text)
{
    if (is_plain(text))
        buf_puts(b, text);
    else
        buf_json_string(b, text);
}

/* One line, or a block; without the end of its last line. */
static void put_value(struct buf *b, const json_t *value)
{
    const char *text = json_string_value(value);
    size_t i;
    json_t *one;
    if (text && is_block(text)) {
        put_block(b, text);
    } else if (text) {
        put_scalar(b, text);
    } else {
        buf_puts(b, "[");
        json_array_foreach (value, i, one) {
            buf_puts(b, i ? ", " : "");
            put_scalar(b, json_string_value(one));
        }
        buf_puts(b, "]");
    }
}

static void put_pair(struct buf *b, const char *key, const json_t *value)
{
    buf_printf(b, "%s: ", key);
    put_value(b, value);
    buf_puts(b, "\n");
}

static bool is_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

/* The whole file from its values. */
static void put_file(struct buf *b, const json_t *values)
{
    for (size_t i = 0; i < ORDER_COUNT; i++) {
        const json_t *value = json_object_get(values, order[i]);
        if (!is_absent(value) && !(json_is_array(value) && json_array_size(value) == 0))
            put_pair(b, order[i], value);
    }
}

/* ---- where keys stand ----------------------------------------------------------------------------------- */

struct entry {
    char key[16];
    size_t from, to;             /* its lines, in bytes; without what follows its value */
    size_t value_from, value_to; /* of a value on one line; from == to: it is not on one */
};

struct layout {
    const char *text;
    size_t len;
    struct entry entries[ORDER_COUNT];
    size_t count;
};

static size_t line_start(const struct layout *l, unsigned line)
{
    size_t at = 0;
    for (; line > 1 && at < l->len; line--) {
        const char *end = memchr(l->text + at, '\n', l->len - at);
        at = end ? (size_t)(end - l->text) + 1 : l->len;
    }
    return at;
}

/* Columns count characters. */
static size_t offset_of(const struct layout *l, unsigned line, unsigned column)
{
    size_t at = line_start(l, line);
    for (; column > 1 && at < l->len; column--)
        for (at++; at < l->len && ((unsigned char)l->text[at] & 0xc0) == 0x80;)
            at++;
    return at;
}

/* Without blank lines and comments that stand at the margin: they belong to what comes next. */
static size_t trim_end(const struct layout *l, size_t from, size_t to)
{
    while (to > from) {
        size_t start = to - 1;
        while (start > from && l->text[start - 1] != '\n')
            start--;
        size_t blank = strspn(l->text + start, " \t\r");
        if (start == from || !(l->text[start] == '#' || l->text[start + blank] == '\n'))
            break;
        to = start;
    }
    return to;
}

/* Skips a value; its last piece in *piece. */
static int skip_value(struct yaml_reader *reader, struct yaml_piece *piece, const char **reason)
{
    int depth = 0;
    do {
        if (yaml_reader_next(reader, piece, reason) < 0 || piece->type == YAML_PIECE_END_OF_FILE)
            return -1;
        depth += (piece->type == YAML_PIECE_LIST || piece->type == YAML_PIECE_MAP) - (piece->type == YAML_PIECE_END);
    } while (depth);
    return 0;
}

static int read_entries(struct layout *l, struct yaml_reader *reader)
{
    struct yaml_piece piece, first;
    const char *reason;
    if (yaml_reader_next(reader, &piece, &reason) < 0 || piece.type != YAML_PIECE_MAP)
        return -1;
    while (l->count < ORDER_COUNT) {
        struct entry *e = &l->entries[l->count];
        if (yaml_reader_next(reader, &piece, &reason) < 0)
            return -1;
        if (piece.type == YAML_PIECE_END)
            return 0;
        if (piece.type != YAML_PIECE_SCALAR || piece.column != 1 || piece.len >= sizeof e->key)
            return -1;
        memcpy(e->key, piece.text, piece.len + 1);
        unsigned line = piece.line, colon = piece.end_column;
        e->from = line_start(l, line);
        if (skip_value(reader, &piece, &reason) < 0)
            return -1;
        first = piece;
        if (l->count)
            l->entries[l->count - 1].to = trim_end(l, l->entries[l->count - 1].from, e->from);
        e->to = trim_end(l, e->from, l->len);
        /* A plain empty value has no place of its own. */
        bool is_short = first.end_line == line && first.end_column > colon + 1 && !first.is_block;
        if (is_short && piece.type == YAML_PIECE_SCALAR) {
            e->value_from = offset_of(l, line, piece.column);
            e->value_to = offset_of(l, line, piece.end_column);
        } else if (is_short) { /* [a, b] on the key's line */
            e->value_to = offset_of(l, line, piece.end_column);
            e->value_from = offset_of(l, line, colon) + 1;
            e->value_from += strspn(l->text + e->value_from, " \t");
            if (l->text[e->value_from] != '[')
                e->value_to = e->value_from = 0;
        }
        l->count++;
    }
    return yaml_reader_next(reader, &piece, &reason) < 0 || piece.type != YAML_PIECE_END ? -1 : 0;
}

static int layout_read(struct layout *l, const char *text, size_t len)
{
    struct yaml_reader *reader;
    struct tsk_error ignored;
    *l = (struct layout){.text = text, .len = len};
    if (yaml_reader_open(text, len, &reader, &ignored) < 0)
        return -1;
    int result = read_entries(l, reader);
    yaml_reader_close(reader);
    return result;
}

static const struct entry *layout_find(const struct layout *l, const char *key)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->entries[i].key, key) == 0)
            return &l->entries[i];
    return NULL;
}

/* Where a key that is not there would stand. */
static size_t place_for(const struct layout *l, const char *key)
{
    size_t rank = 0;
    while (rank < ORDER_COUNT && strcmp(order[rank], key) != 0)
        rank++;
    while (rank-- > 0) {
        const struct entry *before = layout_find(l, order[rank]);
        if (before)
            return before->to;
    }
    return l->count ? l->entries[0].from : l->len;
}

static void text_splice(struct buf *text, size_t from, size_t to, const char *with)
{
    struct buf out = {.max = text->max};
    buf_put(&out, text->data, from);
    if (from && out.data[from - 1] != '\n' && from == text->len)
        buf_puts(&out, "\n");
    buf_puts(&out, with);
    buf_put(&out, text->data + to, text->len - to);
    buf_clear(text);
    *text = out;
}

static int change_key(struct buf *text, const char *key, const json_t *value)
{
    struct layout l;
    struct buf with CLEANUP(buf_clear) = BUF_INIT;
    buf_put(text, "", 0);
    if (layout_read(&l, buf_str(text), text->len) < 0)
        return -1;
    const struct entry *e = layout_find(&l, key);
    if (is_absent(value)) {
        if (e)
            text_splice(text, e->from, e->to, "");
        return 0;
    }
    put_value(&with, value);
    bool is_line = !strchr(buf_str(&with), '\n');
    if (e && e->value_to > e->value_from && is_line) {
        text_splice(text, e->value_from, e->value_to, buf_str(&with));
        return 0;
    }
    buf_reset(&with);
    put_pair(&with, key, value);
    size_t at = e ? e->from : place_for(&l, key);
    text_splice(text, at, e ? e->to : at, buf_str(&with));
    return 0;
}

/* What the file must say afterwards: what it said, with `values` over it. */
static json_t *wanted(const struct request *before, const json_t *values)
{
    json_t *all = json_object(), *value;
    const char *key;
    for (size_t i = 0; i < ORDER_COUNT; i++)
        if (json_object_get(before->json, order[i]))
            json_object_set(all, order[i], json_object_get(before->json, order[i]));
    json_object_foreach ((json_t *)values, key, value) {
        if (is_absent(value))
            json_object_del(all, key);
        else
            json_object_set(all, key, value);
    }
    return all;
}

static bool says(const struct request *after, const json_t *want)
{
    for (size_t i = 0; i < ORDER_COUNT; i++) {
        const json_t *is = json_object_get(after->json, order[i]), *must = json_object_get(want, order[i]);
        bool is_default = !must && (strcmp(order[i], "priority") == 0 || strcmp(order[i], "depends_on") == 0 ||
                                    strcmp(order[i], "status") == 0);
        if (!is_default && !json_equal(is, must) && (is || must))
            return false;
    }
    return true;
}

/* Whether the text is a whole request that says what was meant. */
static bool is_right(const char *id, const struct buf *text, const json_t *want, enum lang lang)
{
    struct request request CLEANUP(request_clear) = {.json = NULL};
    request_parse(id, buf_str(text), text->len, lang, &request);
    return !text->failed && !request_is_broken(&request) && says(&request, want);
}

void request_change(const struct request *before, const json_t *values, enum lang lang, struct buf *text)
{
    const char *key;
    json_t *value, *want CLEANUP_JSON = wanted(before, values);
    struct buf anew CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    bool is_done = true;
    buf_put(text, buf_str(&before->text), before->text.len);
    json_object_foreach ((json_t *)values, key, value)
        is_done = is_done && change_key(text, key, value) == 0;
    if (is_done && is_right(before->id, text, want, lang))
        return;
    put_file(&anew, want);
    if (is_done && !is_right(before->id, &anew, want, lang))
        return; /* it is what was asked for that breaks it: the caller says how */
    buf_reset(text);
    buf_put(text, buf_str(&anew), anew.len);
}

/* ---- files ---------------------------------------------------------------------------------------------- */

/* What somebody left who was killed while he wrote. Only with the guard: then nobody is writing. */
static void sweep_private(struct tsk_workspace *ws)
{
    struct dirent **names = NULL;
    int folder CLEANUP_FD = fs->openat(ws->state_dir, REQUEST_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int count = folder < 0 ? 0 : scandirat(folder, ".", &names, NULL, NULL);
    for (int i = 0; i < count; i++) {
        if (fs_is_private_name(names[i]->d_name))
            fs->unlinkat(folder, names[i]->d_name, 0);
        free(names[i]);
    }
    free(names);
}

/* Q2. A descriptor that ends the wait of others when it is closed. */
static int guard_take(struct tsk_workspace *ws, struct tsk_error *err)
{
    int fd = fs->openat(ws->state_dir, GUARD_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "open", GUARD_NAME);
    if (fs_lock_try(fd, F_WRLCK, 0, 1) == 0 || wait_for_byte(fd, F_WRLCK, 0, GUARD_MS) == 0) {
        sweep_private(ws);
        return fd;
    }
    if (errno == ETIMEDOUT)
        error_set(err, TSK_CONFLICT, "request_busy", NULL);
    else
        error_errno(err, "lock", GUARD_NAME);
    close(fd);
    return -1;
}

static int open_folder(struct tsk_workspace *ws, struct tsk_error *err)
{
    int folder = fs_make_dirs(ws->state_dir, REQUEST_FOLDER) < 0
                     ? -1
                     : fs->openat(ws->state_dir, REQUEST_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    return folder < 0 ? error_errno(err, "open", REQUEST_FOLDER) : folder;
}

static void report(struct tsk_workspace *ws, const char *type, const char *id)
{
    struct tsk_error ignored;
    struct now now = clock_now();
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&data, "{");
    buf_json_pair(&data, "request_id", id);
    buf_puts(&data, "}");
    struct event event = {.type = type, .data = buf_str(&data)};
    workspace_event(ws, &now, &event, &ignored);
}

/* The milliseconds are in it as well, so that ids sort as they were made. */
static void new_id(char id[LOCK_ID_MAX])
{
    char random[3];
    int64_t now_ms = clock_now().wall_ms;
    time_t now = (time_t)(now_ms / 1000);
    struct tm utc;
    gmtime_r(&now, &utc);
    random_hex(random, 2);
    size_t at = strftime(id, LOCK_ID_MAX, REQUEST_PREFIX "%Y%m%dT%H%M%S-", &utc);
    snprintf(id + at, LOCK_ID_MAX - at, "%03x%s", (unsigned)(now_ms % 1000), random);
}

/* A file that is not there yet, whole from the first instant. 1: there is one. */
static int publish(int folder, const char *id, const struct buf *text, struct tsk_error *err)
{
    char private_name[FS_PRIVATE_NAME_MAX], name[LOCK_ID_MAX + 8];
    snprintf(name, sizeof name, "%s" REQUEST_SUFFIX, id);
    int fd CLEANUP_FD = fs_temp_open(folder, 0644, private_name);
    if (fd < 0 || fs_write_all(fd, text->data, text->len) < 0)
        return error_errno(err, "write", name);
    if (fs_publish(fd, private_name, folder, name) == 0)
        return 0;
    int number = errno;
    if (private_name[0])
        fs->unlinkat(folder, private_name, 0);
    errno = number;
    return number == EEXIST ? 1 : error_errno(err, "create", name);
}

static int add_with_id(int folder, const char *id, const json_t *values, enum lang lang, struct tsk_error *err)
{
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    struct request request CLEANUP(request_clear) = {.json = NULL};
    json_t *all CLEANUP_JSON = json_pack("{s:s}", "id", id);
    json_object_update_missing(all, (json_t *)values);
    put_file(&text, all);
    if (text.failed)
        return error_set(err, TSK_PAYLOAD_TOO_LARGE, NULL, NULL);
    request_parse(id, buf_str(&text), text.len, lang, &request);
    return request_need_whole(&request, err) < 0 ? -1 : publish(folder, id, &text, err);
}

int request_add(struct tsk_workspace *ws, const json_t *values, enum lang lang, struct request *ret,
                struct tsk_error *err)
{
    char id[LOCK_ID_MAX];
    const char *given = json_get_string(values, "id", NULL);
    int guard CLEANUP_FD = guard_take(ws, err), result = 1;
    if (guard < 0)
        return -1;
    int folder CLEANUP_FD = open_folder(ws, err);
    if (folder < 0)
        return -1;
    for (int i = 0; result == 1 && i < (given ? 1 : NEW_ID_TRIES); i++) {
        if (given)
            snprintf(id, sizeof id, "%s", given);
        else
            new_id(id);
        result = add_with_id(folder, id, values, lang, err);
    }
    if (result == 1)
        return error_set(err, TSK_CONFLICT, "request_exists", "request", id, NULL);
    if (result < 0)
        return -1;
    report(ws, "request.added", id);
    return request_read(ws, id, lang, ret, err);
}

static int check_expected(const struct request *request, const char *expected, struct tsk_error *err)
{
    if (!expected || strcmp(expected, request->updated_at) == 0)
        return 0;
    return error_set(err, TSK_CONFLICT, "request_changed", "request", request->id, "updated_at", request->updated_at,
                     NULL);
}

/* With the guard: the text takes the file's place, if it is a whole request. */
static int put_text(struct tsk_workspace *ws, const struct request *before, const struct buf *text, enum lang lang,
                    struct request *ret, struct tsk_error *err)
{
    char name[LOCK_ID_MAX + 8];
    struct stat st;
    struct request after CLEANUP(request_clear) = {.json = NULL};
    request_parse(before->id, buf_str(text), text->len, lang, &after);
    if (request_need_whole(&after, err) < 0)
        return -1;
    int folder CLEANUP_FD = open_folder(ws, err);
    if (folder < 0)
        return -1;
    snprintf(name, sizeof name, "%s" REQUEST_SUFFIX, before->id);
    bool is_same = text->len == before->text.len && memcmp(text->data, before->text.data, text->len) == 0;
    mode_t mode = fs->fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode & 0777 : 0644;
    if (!is_same && fs_replace_file(folder, name, mode, text->data, text->len) < 0)
        return error_errno(err, "write", before->source);
    if (!is_same)
        report(ws, "request.edited", before->id);
    return request_read(ws, before->id, lang, ret, err);
}

int request_edit(struct tsk_workspace *ws, const char *id, const json_t *values, const char *expected_updated_at,
                 enum lang lang, struct request *ret, struct tsk_error *err)
{
    struct request before CLEANUP(request_clear) = {.json = NULL};
    struct buf text CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    int guard CLEANUP_FD = guard_take(ws, err);
    if (guard < 0 || request_read(ws, id, lang, &before, err) < 0 ||
        check_expected(&before, expected_updated_at, err) < 0)
        return -1;
    request_change(&before, values, lang, &text);
    return put_text(ws, &before, &text, lang, ret, err);
}

int request_replace(struct tsk_workspace *ws, const char *id, const char *text, size_t len,
                    const char *expected_updated_at, enum lang lang, struct request *ret, struct tsk_error *err)
{
    struct request before CLEANUP(request_clear) = {.json = NULL};
    struct buf copy CLEANUP(buf_clear) = {.max = REQUEST_SIZE_MAX};
    int guard CLEANUP_FD = guard_take(ws, err);
    if (guard < 0 || request_read(ws, id, lang, &before, err) < 0 ||
        check_expected(&before, expected_updated_at, err) < 0)
        return -1;
    buf_put(&copy, text, len);
    return put_text(ws, &before, &copy, lang, ret, err);
}

int request_remove(struct tsk_workspace *ws, const char *id, char kept[PATH_MAX], struct tsk_error *err)
{
    char from[LOCK_ID_MAX + 32], random[5];
    int guard CLEANUP_FD = guard_take(ws, err);
    if (guard < 0)
        return -1;
    snprintf(from, sizeof from, REQUEST_FOLDER "/%s" REQUEST_SUFFIX, id);
    if (fs_make_dirs(ws->state_dir, REMOVED) < 0)
        return error_errno(err, "make", REMOVED);
    random_hex(random, 4);
    snprintf(kept, PATH_MAX, REMOVED "/%s.%s" REQUEST_SUFFIX, id, random);
    if (fs->renameat2(ws->state_dir, from, ws->state_dir, kept, 0) < 0)
        return error_errno(err, "remove", from);
    report(ws, "request.removed", id);
    return 0;
}
