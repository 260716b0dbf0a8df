#include "store/notify.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT_FD   3 /* where the shell has the event */
#define WORDS_MAX  64
#define BODY_LINES 3 /* of a notification on the desktop */

const char *const notify_event_names[] = {"question", "failure", "done", "stuck", NULL};

/* ---- configuration -------------------------------------------------------------------------------------- */

static int check_words(const struct yaml *doc, const struct yaml_node *node, struct tsk_error *err)
{
    size_t count = 0;
    for (const struct yaml_node *word = node->first; node->type == YAML_LIST && word; word = word->next, count++)
        if (!yaml_text(word))
            return yaml_error(doc, word, err, "yaml_why_command_word", NULL);
    if (node->type == YAML_LIST ? count == 0 || count > WORDS_MAX : !yaml_text(node) || !*yaml_text(node))
        return yaml_error(doc, node, err, "yaml_why_command", "event", node->key, NULL);
    return 0;
}

static int check_notify(const struct yaml *doc, const struct yaml_node *notify, struct tsk_error *err)
{
    if (config_need_keys(doc, notify, notify_event_names, err) < 0)
        return -1;
    for (const struct yaml_node *node = notify ? notify->first : NULL; node; node = node->next)
        if (check_words(doc, node, err) < 0)
            return -1;
    return 0;
}

/* The command for an event: *ret_doc is the caller's. NULL: none. */
static const struct yaml_node *notify_node(struct tsk_workspace *ws, enum notify_event event, struct yaml **ret_doc,
                                           struct tsk_error *err)
{
    *err = (struct tsk_error){.code = TSK_OK};
    if (workspace_config(ws, ret_doc, err) <= 0)
        return NULL;
    const struct yaml_node *notify = yaml_get(yaml_root(*ret_doc), "notify");
    return check_notify(*ret_doc, notify, err) < 0 ? NULL : yaml_get(notify, notify_event_names[event]);
}

int notify_check(struct tsk_workspace *ws, struct tsk_error *err)
{
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    notify_node(ws, NOTIFY_DONE, &doc, err);
    return err->code == TSK_OK ? 0 : -1;
}

static bool node_is(const struct yaml_node *node, const char *word)
{
    return node && node->type == YAML_SCALAR && yaml_text(node) && strcmp(yaml_text(node), word) == 0;
}

bool notify_rings(struct tsk_workspace *ws, enum notify_event event)
{
    struct tsk_error ignored;
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    return node_is(notify_node(ws, event, &doc, &ignored), "bell");
}

bool notify_has_command(struct tsk_workspace *ws, enum notify_event event)
{
    struct tsk_error ignored;
    struct yaml *doc CLEANUP(yaml_cleanup) = NULL;
    const struct yaml_node *node = notify_node(ws, event, &doc, &ignored);
    return node && !node_is(node, "bell");
}

/* ---- the command ---------------------------------------------------------------------------------------- */

static const char *event_title(const json_t *event)
{
    static const char *const keys[] = {"process_id", "request_id", "flow", "source", "run_id"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_get_string(event, keys[i], NULL))
            return json_get_string(event, keys[i], NULL);
    return "";
}

/* The body of a notification is markup. */
static void put_markup(struct buf *b, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            buf_puts(b, "&amp;");
            break;
        case '<':
            buf_puts(b, "&lt;");
            break;
        case '>':
            buf_puts(b, "&gt;");
            break;
        case '\\':
            buf_puts(b, "\\\\"); /* notify-send takes one for the beginning of an escape */
            break;
        default:
            buf_put(b, text, 1);
        }
}

/* The place, and what the failed thing has printed last. */
static void put_body(struct buf *b, const json_t *event)
{
    const json_t *failure = json_array_get(json_object_get(event, "failures"), 0);
    const json_t *lines = json_object_get(failure ? failure : event, "lines");
    size_t count = json_array_size(lines);
    put_markup(b, json_get_string(event, "workspace", ""));
    for (size_t i = count > BODY_LINES ? count - BODY_LINES : 0; i < count; i++) {
        buf_puts(b, "\n");
        put_markup(b, json_string_value(json_array_get(lines, i)));
    }
}

/* The words of the command; the last is NULL. `made` keeps those that are made here. */
static void notify_put_words(const struct yaml_node *node, const json_t *event, struct buf made[2], const char **words)
{
    size_t count = 0;
    if (node_is(node, "desktop")) {
        buf_printf(&made[0], "tasuki: %s %s", json_get_string(event, "event", ""), event_title(event));
        put_body(&made[1], event);
        words[count++] = "notify-send";
        words[count++] = "--";
        words[count++] = buf_str(&made[0]);
        words[count++] = buf_str(&made[1]);
    } else if (node->type == YAML_LIST) {
        for (const struct yaml_node *word = node->first; word && count < WORDS_MAX; word = word->next)
            words[count++] = yaml_text(word);
    } else {
        words[count++] = "/bin/sh";
        words[count++] = "-c";
        words[count++] = yaml_text(node);
    }
    words[count] = NULL;
}

/* The event as a file that is read from its beginning. */
static int event_file(const json_t *event)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_write(&text, event, false);
    buf_puts(&text, "\n");
    int fd = memfd_create("event", MFD_CLOEXEC);
    if (fd >= 0 && (fs_write_all(fd, text.data, text.len) < 0 || lseek(fd, 0, SEEK_SET) < 0))
        fs_close(&fd);
    return fd;
}

/* What a notification is about, for notify.failed. Owned. */
static json_t *event_subject(const json_t *event)
{
    static const char *const keys[] = {"event", "run_id", "request_id", "process_id"};
    json_t *subject = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_is_string(json_object_get(event, keys[i])))
            json_object_set(subject, keys[i], json_object_get(event, keys[i]));
    return subject;
}

void notice_tell_failed(struct tsk_workspace *ws, json_t *subject, const char *key, json_t *why_take)
{
    struct tsk_error problem;
    struct now now = clock_now();
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    json_object_set_new(subject, key, why_take);
    json_write(&text, subject, false);
    struct event event = {.type = "notify.failed",
                          .run_id = json_get_string(subject, "run_id", NULL),
                          .data = buf_str(&text),
                          .actor = "null"};
    if (workspace_event(ws, &now, &event, &problem) < 0)
        log_problem(&problem);
}

/* A shell starts it behind itself and ends: no child is left that somebody would have to wait for. The command hears neither our
 * terminal's signals nor keeps our output open. timeout(1) ends it, with what it has started, where there is such a program. If it
 * does not end with 0, our program records that (cli/failed.c). */
static int start_behind(const struct tsk_workspace *ws, const json_t *event, const char **words, int event_fd)
{
    static const char script[] =
        "cd -- \"$0\" || exit 1; self=$1 subject=$2; shift 2; command -v -- \"$1\" >/dev/null || exit 127; "
        "limit='timeout -s KILL " NOTIFY_MAX_S "'; command -v timeout >/dev/null || limit=; "
        "{ $limit \"$@\" <&3 3<&- || \"$self\" --root \"$0\" __failed \"$subject\" $? 3<&-; } >/dev/null 2>&1 &";
    extern char **environ;
    char self[PATH_MAX];
    json_t *subject CLEANUP_JSON = event_subject(event);
    struct buf about CLEANUP(buf_clear) = BUF_INIT;
    json_write(&about, subject, false);
    const char *program = self_path(self) < 0 ? "tasuki" : self;
    const char *all[WORDS_MAX + 10] = {"/bin/sh", "-c", script, ws->root, program, buf_str(&about)};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid;
    int status = 0;
    for (size_t i = 0; words[i]; i++)
        all[6 + i] = words[i];
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, event_fd, EVENT_FD);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    int failed = posix_spawn(&pid, all[0], &files, &attributes, (char *const *)all, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    while (failed == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    errno = failed ? failed : ENOENT;
    return failed || (WIFEXITED(status) && WEXITSTATUS(status) != 0) ? -1 : 0;
}

void notice_send(const struct notice *notice, const json_t *json)
{
    const char *words[WORDS_MAX + 4];
    struct buf made[2] = {BUF_INIT, BUF_INIT};
    struct tsk_error problem;
    notify_put_words(notice->node, json, made, words);
    int fd = event_file(json);
    if (fd >= 0 && fd == EVENT_FD) { /* dup2 onto itself would leave it closed at the exec */
        int other = fcntl(fd, F_DUPFD_CLOEXEC, EVENT_FD + 1);
        fs_close(&fd);
        fd = other;
    }
    if ((fd < 0 || start_behind(notice->ws, json, words, fd) < 0) && !node_is(notice->node, "desktop")) {
        error_errno(&problem, "start", words[0]);
        json_t *document CLEANUP_JSON = json_of_error(&problem, "en"), *subject CLEANUP_JSON = event_subject(json);
        notice_tell_failed(notice->ws, subject, "error", json_incref(json_object_get(document, "error")));
        if (!json_object_get(json, "process_id")) /* nobody reads what the child of a holder prints */
            log_problem(&problem);
    }
    fs_close(&fd);
    buf_clear(&made[0]);
    buf_clear(&made[1]);
}

/* ---- one notification ----------------------------------------------------------------------------------- */

bool notice_open(struct notice *notice, struct tsk_workspace *ws, enum notify_event event)
{
    struct tsk_error problem;
    *notice = (struct notice){.ws = ws, .event = event};
    notice->node = notify_node(ws, event, &notice->doc, &problem);
    if (problem.code != TSK_OK)
        log_problem(&problem);
    return notice->node && !node_is(notice->node, "bell");
}

void notice_clear(struct notice *notice)
{
    yaml_cleanup(&notice->doc);
}

bool notice_mark(int dir, const char *name)
{
    struct tsk_error problem;
    int fd CLEANUP_FD = fs->openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) {
        fs_error(&problem, "write", dir, name);
        log_problem(&problem);
    }
    return fd >= 0;
}

json_t *notice_json(const struct notice *notice)
{
    return json_pack("{s:s, s:s, s:s}", "event", notify_event_names[notice->event], "time",
                     TIME_EXACT(clock_now().wall_ms), "workspace", notice->ws->root);
}
