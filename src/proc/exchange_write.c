/* exchange_write.c - what is registered, as a document. YAML is written in the block style, a scalar plain where no reader could
 * take it for anything but a text, else in double quotes. */
#include "base/fs.h"
#include "base/yaml.h"
#include "proc/exchange.h"
#include "proc/registry.h"
#include "proc/template.h"
#include "proc/worktree.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define KEY_PLAIN_MAX 1000 /* libyaml wants the `:` of a key within 1024 characters, unless `?` announces it */

/* ---- YAML --------------------------------------------------------------------------------------------- */

/* Conservative: nothing that any YAML takes for a number, a date, a boolean, or syntax. */
static bool scalar_is_plain(const char *text)
{
    const char *first = text + (text[0] == '-') + (text[0] == '-' && text[1] == '-');
    if (strncmp(text, "./", 2) == 0)
        first = text + 1;
    if (!isalpha((unsigned char)*first) && *first != '/' && *first != '_')
        return false;
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@+=,- ");
    return !text[len] && text[len - 1] != ' ' && !yaml_is_reserved(text);
}

static void put_text(struct buf *b, const char *text)
{
    if (scalar_is_plain(text))
        buf_puts(b, text);
    else
        yaml_put_quoted(b, text);
}

static void put_indent(struct buf *b, int depth)
{
    buf_printf(b, "\n%*s", depth * 2, "");
}

static void put_node(struct buf *b, const json_t *value, int depth);

static void yaml_put_key(struct buf *b, const char *key, int depth)
{
    struct buf written CLEANUP(buf_clear) = BUF_INIT;
    put_text(&written, key);
    if (written.len <= KEY_PLAIN_MAX) {
        buf_printf(b, "%s:", buf_str(&written));
        return;
    }
    buf_printf(b, "? %s", buf_str(&written));
    put_indent(b, depth);
    buf_puts(b, ":");
}

static void put_map(struct buf *b, const json_t *map, int depth)
{
    if (json_object_size(map) == 0)
        buf_puts(b, " {}");
    json_each_pair (map, key, value) {
        if (depth || b->len)
            put_indent(b, depth);
        yaml_put_key(b, key, depth);
        put_node(b, value, depth);
    }
}

static void yaml_put_list(struct buf *b, const json_t *list, int depth)
{
    if (json_array_size(list) == 0)
        buf_puts(b, " []");
    json_each (list, i, value) {
        put_indent(b, depth);
        buf_puts(b, "-");
        put_node(b, value, depth);
    }
}

/* After a key's `:` or an item's `-`. */
static void put_node(struct buf *b, const json_t *value, int depth)
{
    if (json_is_object(value)) {
        put_map(b, value, depth + 1);
    } else if (json_is_array(value)) {
        yaml_put_list(b, value, depth + 1);
    } else {
        buf_puts(b, " ");
        if (json_is_string(value))
            put_text(b, json_string_value(value));
        else
            json_write(b, value, false);
    }
}

void exchange_write_yaml(struct buf *b, const json_t *document)
{
    put_map(b, document, 0);
    buf_puts(b, "\n");
}

/* ---- the document ------------------------------------------------------------------------------------- */

/* Replaces the secrets of a minimal spec and lists them as NAME.VARIABLE. */
static void mask_secrets(const char *name, json_t *spec, json_t *masked)
{
    json_t *env = json_object_get(spec, "env");
    if (!env)
        return;
    json_t *hidden = proc_env_masked(env);
    json_each_pair (hidden, variable, value)
        if (!json_equal(value, json_object_get(env, variable)))
            json_array_append_new(masked, json_sprintf("%s.%s", name, variable));
    json_object_set_new(spec, "env", hidden);
}

/* An absolute path without `.`, `..` and double slashes; no look at the disk. */
static void remove_dots(const char *dir, char path[PATH_MAX])
{
    size_t end = 0;
    for (size_t len; *dir; dir += len) {
        dir += strspn(dir, "/");
        len = strcspn(dir, "/");
        if (len == 2 && strncmp(dir, "..", 2) == 0)
            while (end && path[--end] != '/')
                ;
        else if (len && !(len == 1 && *dir == '.'))
            end += (size_t)snprintf(path + end, PATH_MAX - end, "/%.*s", (int)len, dir);
    }
    snprintf(path + end, PATH_MAX - end, "%s", end ? "" : "/");
}

/* What the root is in the linked worktree that `dir` is in; the root itself for any other directory. */
static const char *root_beside(const char *root, const char *dir, char beside[PATH_MAX])
{
    char own[PATH_MAX], other[PATH_MAX];
    if (!worktree_of(dir, other) || !worktree_of(root, own) || !worktree_is_sibling(other, own))
        return root;
    const char *below = cwd_to_keep(own, root);
    bool is_top = strcmp(below, ".") == 0;
    if (*below == '/' ||
        snprintf(beside, PATH_MAX, "%s%s%s", other, is_top ? "" : "/", is_top ? "" : below) >= PATH_MAX)
        return root;
    return beside;
}

/* A directory below the root, in this worktree or in a linked one, is written relative to it: the file is for every checkout.
 * `link/..` stays: it may be elsewhere. */
static void shorten_cwd(const char *root, json_t *spec)
{
    const char *cwd = json_get_string(spec, "cwd", NULL);
    struct stat as_given, as_written;
    char path[PATH_MAX], beside[PATH_MAX];
    if (!cwd || *cwd != '/' || strlen(cwd) >= sizeof path)
        return;
    remove_dots(cwd, path);
    bool is_same = fs->fstatat(AT_FDCWD, cwd, &as_given, 0) == 0 && fs->fstatat(AT_FDCWD, path, &as_written, 0) == 0 &&
                   as_given.st_ino == as_written.st_ino && as_given.st_dev == as_written.st_dev;
    cwd = is_same ? path : cwd;
    json_object_set_new(spec, "cwd", json_string(cwd_to_keep(root_beside(root, cwd, beside), cwd)));
}

static void add_exchange_entry(const char *root, json_t *list, const char *name, const json_t *spec, json_t *masked)
{
    json_t *minimal = proc_spec_minimal(spec);
    shorten_cwd(root, minimal);
    if (masked)
        mask_secrets(name, minimal, masked);
    json_object_set_new(list, name, minimal);
}

static int add_process(struct proc_registry *reg, const char *id, json_t *list, json_t *masked, struct tsk_error *err)
{
    struct proc p CLEANUP(proc_clear) = {.dir = -1};
    if (proc_find(reg, id, &p, err) < 0)
        return -1;
    add_exchange_entry(reg->ws->root, list, id, p.spec, masked);
    return 0;
}

static int add_processes(struct proc_registry *reg, const json_t *wanted, json_t *list, json_t *masked,
                         struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = NULL;
    if (!wanted && proc_ids(reg, &ids, err) < 0)
        return -1;
    json_each (wanted ? wanted : ids, i, id)
        if (add_process(reg, json_string_value(id), list, masked, err) < 0) {
            bool was_removed_meanwhile = !wanted && err->code == TSK_PROCESS_NOT_FOUND;
            if (!was_removed_meanwhile)
                return -1;
        }
    return 0;
}

static int add_templates(struct proc_registry *reg, json_t *list, json_t *masked, struct tsk_error *err)
{
    json_t *specs CLEANUP_JSON = NULL;
    if (template_specs(reg, &specs, err) < 0)
        return -1;
    json_each_pair (specs, name, spec)
        add_exchange_entry(reg->ws->root, list, name, spec, masked);
    return 0;
}

static void put_document(struct buf *b, enum exchange_format format, bool has_secrets, const json_t *processes,
                         const json_t *templates)
{
    json_t *document CLEANUP_JSON = json_pack("{s:i}", "version", 1);
    if (has_secrets)
        json_object_set_new(document, "secrets", json_true());
    json_object_set(document, "processes", (json_t *)processes);
    if (json_object_size(templates))
        json_object_set(document, "templates", (json_t *)templates);
    if (format != EXCHANGE_JSON) {
        exchange_write_yaml(b, document);
        return;
    }
    json_write(b, document, true);
    buf_puts(b, "\n");
}

int exchange_export(struct proc_registry *reg, const json_t *ids, enum exchange_format format, bool has_secrets,
                    json_t **ret, struct tsk_error *err)
{
    json_t *processes CLEANUP_JSON = json_object(), *templates CLEANUP_JSON = json_object();
    json_t *masked CLEANUP_JSON = json_array();
    struct buf content CLEANUP(buf_clear) = BUF_INIT;
    if (add_processes(reg, ids, processes, has_secrets ? NULL : masked, err) < 0)
        return -1;
    if (!ids && add_templates(reg, templates, has_secrets ? NULL : masked, err) < 0)
        return -1;
    put_document(&content, format, has_secrets, processes, templates);
    *ret = json_pack("{s:s, s:s, s:i, s:i, s:O}", "format", exchange_format_names[format], "content", buf_str(&content),
                     "processes", (int)json_object_size(processes), "templates", (int)json_object_size(templates),
                     "masked", masked);
    return *ret ? 0 : error_set(err, TSK_INTERNAL, NULL, NULL);
}
