/* op_proc_exchange.c - processes to a file and from a file. */
#include "base/fs.h"
#include "base/word.h"
#include "ops/ops.h"
#include "ops/place.h"
#include "ops/proc_args.h"
#include "ops/proc_others.h"
#include "proc/exchange.h"
#include "proc/registry.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTENT_MAX (1 << 20)

static enum exchange_format format_of(const struct op_call *call, enum exchange_format fallback)
{
    const char *name = json_get_string(call->args, "format", NULL);
    for (int i = 0; name && exchange_format_names[i]; i++)
        if (strcmp(exchange_format_names[i], name) == 0)
            return (enum exchange_format)i;
    return fallback;
}

/* ---- export ---- */

static int run_export(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *ids CLEANUP_JSON = NULL;
    if (proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    if (json_object_get(call->args, "id") && proc_args_ids(call, &reg, &ids, err) < 0)
        return -1;
    return exchange_export(&reg, ids, format_of(call, EXCHANGE_YAML), json_get_bool(call->args, "secrets", false), ret,
                           err);
}

static const char *const export_formats[] = {"yaml", "json", NULL};

const struct op op_process_export = {
    NAMES("process.export", "proc", "export"),
    .summary = "Write processes and templates as YAML or JSON, to be imported elsewhere or kept in the repository.",
    .detail =
        "Only values that differ from the defaults are written, always in the same order. Values of variables that "
        "look "
        "secret are *** unless --secrets is given. Directories below the root are written relative to it: keep the "
        "file there.",
    .examples = "tasuki proc export > processes.yaml  # all\n"
                "tasuki proc export web db --format json  # two of them\n"
                "tasuki proc export --secrets > backup.yaml  # complete; keep it to yourself",
    .flags = OP_READ_ONLY,
    .params = PARAMS(PARAM("id", OP_ID, OP_POSITIONAL | OP_MANY, "ID…",
                           "Only these processes. Otherwise all, and the templates.", .completes = "process-id"),
                     PARAM("format", OP_ENUM, OP_OPTIONAL, "F", "The format of the text.", .fallback = "yaml",
                           .choices = export_formats),
                     FLAG("secrets", OP_OPTIONAL, "Write secret values in clear; otherwise they are ***.")),
    .result = FIELDS({"format", "string", "yaml or json"}, {"content", "string", "the file"},
                     {"processes", "integer", "the number of processes in it"},
                     {"templates", "integer", "the number of processes in it"},
                     {"masked", "array", "ID.VARIABLE of values that are ***"}),
    .errors = ERRORS(TSK_PROCESS_NOT_FOUND, TSK_INVALID_INPUT, TSK_ENVIRONMENT),
    .http = ROUTE("GET", "/api/processes/export"),
    .mcp = TOOL(
        "export_processes", "templates",
        .text = "Write processes and templates as YAML or JSON, to be imported elsewhere or kept in the repository. It "
                "changes nothing; values of variables that look secret are *** unless secrets: true."),
    .run = run_export,
};

/* ---- import ---- */

static int read_all(int fd, const char *path, struct buf *text, struct tsk_error *err)
{
    if (fs_read_stream(fd, EXCHANGE_SIZE_MAX, text) == 0)
        return 0;
    return errno == EFBIG ? error_set(err, TSK_PAYLOAD_TOO_LARGE, "import_too_large", "source", path, NULL)
                          : error_errno(err, "read", path);
}

int proc_file_read(const char *path, const char *command, struct buf *text, struct tsk_error *err)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, path, text, err);
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    if (fd >= 0) {
        int result = read_all(fd, path, text, err);
        if (result < 0 && err->sys_errno == EISDIR)
            error_add_next(err, "ls %s", shell_word(&word, path));
        return result;
    }
    if (errno != ENOENT)
        return error_errno(err, "open", path);
    char near[PATH_MAX];
    if (!place_nearest(path, near)) {
        error_set(err, TSK_NOT_FOUND, "import_no_file", "path", path, NULL);
        return error_add_next(err, "%s FILE", command);
    }
    error_set(err, TSK_NOT_FOUND, "import_no_file_near", "path", path, "near", near, NULL);
    return error_add_next(err, "%s %s", command, shell_word(&word, near));
}

const char *proc_file_directory(const char *path, char *here, size_t size)
{
    char whole[PATH_MAX];
    if (strcmp(path, "-") == 0 || !realpath(path, whole))
        return getcwd(here, size);
    char *slash = strrchr(whole, '/');
    slash[slash == whole] = '\0';
    snprintf(here, size, "%s", whole);
    return here;
}

static int read_source(struct op_call *call, struct exchange_source *from, char here[PATH_MAX], struct buf *text,
                       struct tsk_error *err)
{
    const char *path = json_get_string(call->args, "file", NULL);
    const char *content = json_get_string(call->args, "content", NULL);
    if (!path == !content)
        return error_set(err, TSK_INVALID_INPUT, path ? "import_file_and_content" : "param_missing", "param",
                         call->is_cli ? "file" : "content", NULL);
    if (content) {
        buf_puts(text, content);
        from->name = "content";
        from->cwd_base = call->ws->root;
        return 0;
    }
    from->path = strcmp(path, "-") == 0 ? NULL : path;
    from->name = from->path ? path : "(stdin)";
    from->cwd_base = proc_file_directory(path, here, PATH_MAX);
    if (!from->cwd_base)
        from->cwd_base = call->ws->root;
    return proc_file_read(path, "tasuki proc import", text, err);
}

/* Those that exist and would be changed: an update is guarded, and so is this. */
static int ask_about_updates(struct op_call *call, struct proc_registry *reg, const struct exchange *found,
                             json_t **ret_warning, struct tsk_error *err)
{
    json_t *ids CLEANUP_JSON = json_array();
    json_each_key (found->processes, id) {
        struct proc p CLEANUP(proc_clear) = {.dir = -1};
        struct tsk_error absent; /* another problem is the import's to report */
        if (proc_find(reg, id, &p, &absent) == 0 && !exchange_says(found, id, p.spec))
            json_array_append_new(ids, json_string(id));
    }
    return proc_others_ask(call, reg, ids, false, ret_warning, err);
}

static int run_import(struct op_call *call, json_t **ret, struct tsk_error *err)
{
    REGISTRY(reg);
    json_t *warning CLEANUP_JSON = NULL;
    bool is_replacing = json_get_bool(call->args, "replace", false);
    struct exchange found CLEANUP(exchange_clear) = {0};
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    char here[PATH_MAX];
    struct exchange_source from = {.format = format_of(call, EXCHANGE_AUTO), .lang = call->lang};
    if (read_source(call, &from, here, &text, err) < 0 ||
        exchange_read(&from, buf_str(&text), text.len, &found, err) < 0 || proc_registry_open(&reg, call->ws, err) < 0)
        return -1;
    if ((is_replacing && ask_about_updates(call, &reg, &found, &warning, err) < 0) ||
        exchange_apply(&reg, &from, &found, is_replacing, ret, err) < 0)
        return -1;
    proc_others_warn(*ret, warning);
    return 0;
}

static const char *const import_formats[] = {"auto", "yaml", "json", "procfile", "compose", NULL};

const struct op op_process_import = {
    NAMES("process.import", "proc", "import"),
    .summary = "Register processes from a file: tasuki's own, Vantage's, a Procfile, or a process-compose file.",
    .detail = "All or nothing: if there is a mistake in the file, nothing is changed, and all mistakes are reported "
              "with their places. Nothing is started. Relative directories begin at the file's directory.",
    .examples = "tasuki proc import processes.yaml  # what `proc export` wrote, or Vantage\n"
                "tasuki proc import Procfile  # one process per line\n"
                "tasuki proc import process-compose.yaml --replace  # also those that exist",
    .params = PARAMS(PARAM("file", OP_PATH, OP_POSITIONAL | OP_CLI_ONLY, "FILE", "The file; - is standard input."),
                     PARAM("content", OP_STRING, OP_OPTIONAL, "TEXT", "What the file would contain, instead of a file.",
                           .max = CONTENT_MAX),
                     PARAM("format", OP_ENUM, OP_OPTIONAL, "F", "auto looks at the name and the content.",
                           .fallback = "auto", .choices = import_formats),
                     FLAG("replace", OP_OPTIONAL, "Change processes and templates that exist already."), NOTE_PARAM,
                     YES_PARAM),
    .result = FIELDS(
        {"format", "string", "the format of the file: yaml json vantage procfile compose"},
        {"created", "array", "new processes"}, {"updated", "array", "changed processes"},
        {"unchanged", "array", "processes that were the same already"},
        {"running", "array", "changed processes that run, with their old settings until a restart"},
        {"templates", "array", "templates"}, {"ignored", "array", "keys of the file that tasuki does not support"},
        {"warnings", "array", "what may work differently"}, {"warning", "string?", "whose processes were changed"}),
    .errors = ERRORS(TSK_INVALID_INPUT, TSK_NOT_FOUND, TSK_CONFLICT, TSK_PROCESS_ALREADY_EXISTS, TSK_PAYLOAD_TOO_LARGE,
                     TSK_NEEDS_CONFIRMATION, TSK_ENVIRONMENT, TSK_STORAGE_FULL),
    .http = ROUTE("POST", "/api/processes/import"),
    .mcp = TOOL("import_processes", "templates", .refusal = "NOT IMPORTED"),
    .run = run_import,
};
