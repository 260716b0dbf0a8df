#include "base/who.h"
#include "base/fs.h"
#include "base/utf8.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- text ---- */

static bool is_control(const char *at, size_t len)
{
    unsigned char c = (unsigned char)at[0];
    /* C0, DEL, and C1, which is C2 80 … C2 9F */
    return c < 0x20 || c == 0x7f || (len == 2 && c == 0xc2 && (unsigned char)at[1] < 0xa0);
}

void who_copy(char *to, size_t size, const char *from)
{
    size_t used = 0, len = from ? strlen(from) : 0;
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence(from + i, len - i);
        bool is_safe = n && !is_control(from + i, n);
        if (used + (is_safe ? n : 1) >= size)
            break;
        if (is_safe)
            memcpy(to + used, from + i, n);
        else
            to[used] = '?';
        used += is_safe ? n : 1;
        i += n ? n : 1;
    }
    to[used] = '\0';
}

int who_check_note(const char *note, struct tsk_error *err)
{
    size_t count = 0, len = strlen(note);
    for (size_t i = 0, n; i < len; i += n, count++) {
        n = utf8_sequence(note + i, len - i);
        if (!n || is_control(note + i, n))
            return error_set(err, TSK_INVALID_INPUT, "note_characters", "param", "note", NULL);
    }
    return count > WHO_NOTE_CHARS ? error_set(err, TSK_INVALID_INPUT, "note_too_long", "param", "note", NULL) : 0;
}

/* ---- JSON ---- */

static void who_put_optional(struct buf *b, const char *key, const char *value)
{
    if (value[0])
        buf_json_pair(b, key, value);
}

void who_put(struct buf *b, const struct who *who)
{
    buf_puts(b, "{");
    buf_json_pair(b, "label", who->label);
    buf_json_pair(b, "user", who->user[0] ? who->user : NULL);
    buf_json_pair(b, "program", who->program[0] ? who->program : NULL);
    if (who->pid)
        buf_json_pair_int(b, "pid", who->pid);
    else
        buf_json_pair(b, "pid", NULL);
    buf_json_pair(b, "host", who->host[0] ? who->host : NULL);
    buf_json_pair(b, "instance", who->instance[0] ? who->instance : NULL);
    who_put_optional(b, "session", who->session);
    who_put_optional(b, "subagent", who->subagent);
    who_put_optional(b, "note", who->note);
    buf_puts(b, "}");
}

json_t *who_json(const struct who *who)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    who_put(&b, who);
    json_t *quick = json_read_plain(buf_str(&b), b.len);
    return quick ? quick : json_loadb(buf_str(&b), b.len, 0, NULL);
}

void who_of_json(const json_t *json, struct who *ret)
{
    *ret = (struct who){.pid = (pid_t)json_get_int(json, "pid", 0), .is_agent = json_get_bool(json, "agent", false)};
    who_copy(ret->label, sizeof ret->label, json_get_string(json, "label", NULL));
    who_copy(ret->user, sizeof ret->user, json_get_string(json, "user", NULL));
    who_copy(ret->program, sizeof ret->program, json_get_string(json, "program", NULL));
    who_copy(ret->host, sizeof ret->host, json_get_string(json, "host", NULL));
    who_copy(ret->instance, sizeof ret->instance, json_get_string(json, "instance", NULL));
    who_copy(ret->session, sizeof ret->session, json_get_string(json, "session", NULL));
    who_copy(ret->subagent, sizeof ret->subagent, json_get_string(json, "subagent", NULL));
    who_copy(ret->note, sizeof ret->note, json_get_string(json, "note", NULL));
}

void who_put_label(struct buf *b, const json_t *who)
{
    const char *label = json_get_string(who, "label", ""), *note = json_get_string(who, "note", "");
    buf_printf(b, "%s%s%s", label, *label && *note ? ": " : "", note);
}

bool who_is_name(const char *text)
{
    return text && text[strspn(text, " \t\r\n")];
}

/* ---- what the environment says ---- */

static bool is_command;

void who_is_command(void)
{
    is_command = true;
}

/* By /etc/passwd alone: a static program has no name services. */
static void find_user(char *name, size_t size)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    char uid[24];
    int digits = snprintf(uid, sizeof uid, ":%u:", (unsigned)geteuid());
    snprintf(name, size, "uid %u", (unsigned)geteuid());
    if (fs_read_file(AT_FDCWD, "/etc/passwd", 4 << 20, &text) < 0)
        return;
    for (char *line = text.data, *next; line; line = next) { /* name:password:uid:… */
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *password = strchr(line, ':'), *number = password ? strchr(password + 1, ':') : NULL;
        if (!number || strncmp(number, uid, (size_t)digits) != 0)
            continue;
        *password = '\0';
        who_copy(name, size, line);
        return;
    }
}

/* "pts/3"; false: none of the standard descriptors is a terminal. */
static bool find_terminal(char *name, size_t size)
{
    for (int fd = 0; fd < 3; fd++) {
        char path[32], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = isatty(fd) ? readlink(path, target, sizeof target - 1) : -1;
        if (len <= 5)
            continue;
        target[len] = '\0';
        snprintf(name, size, "%s", strncmp(target, "/dev/", 5) == 0 ? target + 5 : target);
        return true;
    }
    return false;
}

static void find_label(struct who *who, bool has_program)
{
    const char *agent = getenv("TASUKI_AGENT");
    char terminal[64];
    who->is_agent = who_is_name(agent);
    if (who->is_agent)
        who_copy(who->label, sizeof who->label, agent);
    else if (has_program)
        who_copy(who->label, sizeof who->label, who->program);
    else if (find_terminal(terminal, sizeof terminal))
        snprintf(who->label, sizeof who->label, "%s@%.30s", who->user, terminal);
    else
        who_copy(who->label, sizeof who->label, who->user);
}

static void find_instance(struct who *who, const struct proc_id *process)
{
    const char *named = is_command ? getenv("TASUKI_INSTANCE_ID") : NULL;
    who->pid = process->pid;
    if (named && *named) {
        who_copy(who->instance, sizeof who->instance, named);
        who->pid = instance_pid(named);
    } else if (process->pid) {
        proc_instance_id(process, who->instance, sizeof who->instance);
    }
}

/* A4: the environment cannot be refused, so a note that is too long is cut. */
static void cut_note(char *note)
{
    size_t len = strlen(note), at = 0;
    for (size_t chars = 0; at < len && chars < WHO_NOTE_CHARS; chars++)
        at += utf8_sequence(note + at, len - at);
    note[at] = '\0';
}

void who_of_environment(struct who *ret, struct proc_id *ret_process)
{
    struct proc_id process = {.pid = 0};
    char program[256] = "";
    *ret = (struct who){.pid = 0};
    if ((is_command ? proc_guess_holder(&process) : proc_id_of(getpid(), &process)) < 0)
        process = (struct proc_id){.pid = 0};
    find_user(ret->user, sizeof ret->user);
    bool has_program = proc_program_above(process.pid, program, sizeof program) == 0; /* what is below it passes on */
    if (!has_program && process.pid && proc_program(process.pid, program, sizeof program) < 0)
        program[0] = '\0';
    who_copy(ret->program, sizeof ret->program, program);
    who_copy(ret->host, sizeof ret->host, host_name());
    find_label(ret, has_program);
    find_instance(ret, &process);
    who_copy(ret->session, sizeof ret->session, getenv("TASUKI_AGENT_SESSION"));
    who_copy(ret->subagent, sizeof ret->subagent, getenv("TASUKI_SUBAGENT"));
    who_copy(ret->note, sizeof ret->note, getenv("TASUKI_NOTE"));
    cut_note(ret->note);
    if (ret_process)
        *ret_process = process;
}

/* ---- the acting party ---- */

/* A who with its text, which most callers want. That of the process is never changed: other threads may be reading it. */
struct acting {
    struct who who;
    char *text;             /* owned */
    pid_t made_in;          /* the process that it speaks of */
    struct acting *earlier; /* of the process: the one before */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of making one for the process */
static struct acting *of_process;
static _Thread_local struct acting *of_thread;
static _Thread_local struct {
    who_find *find; /* NULL: of_thread is it */
    void *data;
} later;

static struct acting *acting_new(const struct who *who)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct acting *acting = memory_zeroed(1, sizeof *acting);
    acting->who = *who;
    acting->made_in = getpid();
    who_put(&b, who);
    acting->text = buf_take(&b);
    BUG(!acting->text);
    return acting;
}

/* The command acts for the program above it also in what it forks; a program that uses the library is another one then. */
static bool is_of_this(const struct acting *acting)
{
    return acting && (is_command || acting->made_in == getpid());
}

/* With the mutex. */
static void set_process(const struct who *who)
{
    struct acting *acting = acting_new(who);
    acting->earlier = of_process;
    __atomic_store_n(&of_process, acting, __ATOMIC_RELEASE);
}

static struct acting *acting(void)
{
    if (later.find) {
        struct who found;
        who_find *find = later.find;
        later.find = NULL;
        find(later.data, &found);
        of_thread = acting_new(&found);
    }
    struct acting *found = of_thread ? of_thread : __atomic_load_n(&of_process, __ATOMIC_ACQUIRE);
    if (of_thread || is_of_this(found))
        return found;
    struct who who;
    pthread_mutex_lock(&mutex);
    if (!is_of_this(of_process)) {
        who_of_environment(&who, NULL);
        set_process(&who);
    }
    found = of_process;
    pthread_mutex_unlock(&mutex);
    return found;
}

void who_set(const struct who *who)
{
    pthread_mutex_lock(&mutex);
    set_process(who);
    pthread_mutex_unlock(&mutex);
}

void who_enter(const struct who *who)
{
    if (of_thread)
        free(of_thread->text);
    free(of_thread);
    of_thread = who ? acting_new(who) : NULL;
    later.find = NULL;
}

void who_enter_later(who_find *find, void *data)
{
    who_enter(NULL);
    later.find = find;
    later.data = data;
}

const struct who *who_current(void)
{
    return &acting()->who;
}

const char *who_current_text(void)
{
    return acting()->text;
}

bool who_current_is(const struct who *other)
{
    const struct who *caller = who_current();
    return !caller->is_agent || caller->is_client || caller->is_whole || !other->label[0] ||
           strcmp(caller->label, other->label) == 0;
}

void who_set_note(const char *note)
{
    struct who who = *who_current(); /* from here on it is found */
    who_copy(who.note, sizeof who.note, note);
    if (of_thread)
        who_enter(&who);
    else
        who_set(&who);
}
