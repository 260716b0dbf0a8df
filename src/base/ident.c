#include "base/ident.h"
#include "base/fs.h"
#include "base/ident_kept.h"
#include "base/word.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What cannot change while the process runs, read once. A pid namespace is fixed for a process at its birth.
 */
static struct {
    pthread_once_t once;
    char boot_id[BOOT_ID_SIZE];
    char host_name[HOSTNAME_SIZE];
    uint64_t pid_ns;
} self = {.once = PTHREAD_ONCE_INIT};

static void self_init(void)
{
    char storage[5000];
    struct buf b;
    buf_init_fixed(&b, storage, sizeof storage);
    if (fs_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &b) == 0 && b.len >= BOOT_ID_SIZE - 1)
        memcpy(self.boot_id, b.data, BOOT_ID_SIZE - 1);
    struct stat st;
    if (fs->fstatat(AT_FDCWD, "/proc/self/ns/pid", &st, 0) == 0)
        self.pid_ns = st.st_ino;
    if (gethostname(self.host_name, sizeof self.host_name - 1) < 0)
        self.host_name[0] = '\0';
}

const char *boot_id(void)
{
    pthread_once(&self.once, self_init);
    return self.boot_id;
}

const char *host_name(void)
{
    pthread_once(&self.once, self_init);
    return self.host_name;
}

uint64_t pid_namespace(void)
{
    pthread_once(&self.once, self_init);
    return self.pid_ns;
}

/* The kernel shows start times as the reader's time namespace shifts them. */
static uint64_t ident_shift_ticks(void)
{
    int64_t ns;
    clock_boot_shift(&ns);
    int64_t tick_ns = 1000000000 / (int64_t)ticks_per_second();
    return (uint64_t)(ns >= 0 ? ns / tick_ns : -((-ns + tick_ns - 1) / tick_ns));
}

int proc_stat_parse(const char *text, struct proc_stat *ret)
{
    /* The name, in parentheses, may itself contain parentheses and blanks: the last ) ends it. */
    const char *at = strrchr(text, ')');
    if (!at || at[1] != ' ')
        return -1;
    ret->state = at[2];
    ret->usage.cpu_ticks = 0;
    char *end = (char *)(at + 3);
    for (int field = 4; field <= 24; field++) {
        char *start = end;
        unsigned long long value = strtoull(start, &end, 10);
        if (end == start)
            return -1;
        if (field == 4)
            ret->parent = (pid_t)value;
        else if (field == 20)
            ret->threads = (long)value;
        else if (field == 14 || field == 15)
            ret->usage.cpu_ticks += value;
        else if (field == 22)
            ret->start_ticks = value - ident_shift_ticks();
        else if (field == 24)
            ret->usage.rss_pages = value;
    }
    return 0;
}

static int proc_read(pid_t pid, const char *file, struct buf *b)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return fs_read_file(AT_FDCWD, path, 1 << 20, b);
}

static int proc_stat_text(pid_t pid, struct buf *b)
{
    char *at = buf_reserve(b, 2048);
    ssize_t len = kept_stat_read(pid, at, 2047);
    if (len == KEPT_NOT)
        return proc_read(pid, "stat", b);
    at[len > 0 ? len : 0] = '\0';
    if (len == 0)
        errno = ESRCH;
    return len > 0 ? 0 : -1;
}

static int proc_stat_read(pid_t pid, struct proc_stat *ret)
{
    char storage[5000];
    struct buf b;
    buf_init_fixed(&b, storage, sizeof storage);
    if (pid <= 0) {
        errno = ESRCH;
        return -1;
    }
    if (proc_stat_text(pid, &b) < 0) {
        /* With hidepid, /proc hides what exists; ask the kernel before saying that nobody is there. */
        if (errno == ENOENT)
            errno = kill(pid, 0) < 0 && errno == ESRCH ? ESRCH : EACCES;
        return -1;
    }
    if (proc_stat_parse(b.data, ret) < 0) {
        errno = EIO;
        return -1;
    }
    /* A zombie has ended; but a process whose first thread alone has ended still runs. */
    if (ret->state == 'X' || (ret->state == 'Z' && ret->threads <= 1)) {
        errno = ESRCH;
        return -1;
    }
    return 0;
}

bool process_is_stopped(pid_t pid)
{
    struct proc_stat stat;
    return proc_stat_read(pid, &stat) == 0 && (stat.state == 'T' || stat.state == 't');
}

/* When it started; -1 with ESRCH: it does not live. */
static int proc_start_ticks(pid_t pid, uint64_t *ret)
{
    struct proc_stat stat;
    if (kept_start(pid, ret))
        return 0;
    if (proc_stat_read(pid, &stat) < 0)
        return -1;
    *ret = stat.start_ticks;
    kept_pidfd_open(pid);
    return 0;
}

int proc_id_of(pid_t pid, struct proc_id *ret)
{
    struct proc_id id = {.pid = pid, .pid_ns = pid_namespace()};
    if (proc_start_ticks(pid, &id.start_ticks) < 0)
        return -1;
    if (!boot_id()[0] || !id.pid_ns) {
        errno = EIO;
        return -1;
    }
    memcpy(id.boot_id, boot_id(), BOOT_ID_SIZE);
    *ret = id;
    return 0;
}

/* `usage` NULL: only its life is asked for. */
static enum liveness ident_look(const struct proc_id *id, struct proc_usage *usage)
{
    struct proc_stat stat;
    if (!*boot_id())
        return LIVE_UNKNOWN; /* it could not be read */
    if (strcmp(id->boot_id, boot_id()) != 0)
        return LIVE_DEAD;
    if (id->pid_ns != pid_namespace())
        return LIVE_UNKNOWN;
    if ((usage ? proc_stat_read(id->pid, &stat) : proc_start_ticks(id->pid, &stat.start_ticks)) < 0)
        return errno == ESRCH ? LIVE_DEAD : LIVE_UNKNOWN;
    if (usage)
        *usage = stat.usage;
    /* A shift by a part of a tick rounds up or down. No pid comes round again within a tick. */
    int64_t shift, apart = (int64_t)(stat.start_ticks - id->start_ticks);
    bool is_known = clock_boot_shift(&shift);
    int64_t slack = shift % (1000000000 / (int64_t)ticks_per_second()) ? 1 : 0;
    if (apart >= -slack && apart <= slack)
        return LIVE_ALIVE;
    return is_known ? LIVE_DEAD : LIVE_UNKNOWN;
}

enum liveness proc_id_look(const struct proc_id *id, struct proc_usage *ret_usage)
{
    return ident_look(id, ret_usage);
}

enum liveness proc_id_liveness(const struct proc_id *id)
{
    return ident_look(id, NULL);
}

/* The kernel has other words for "no such process", too. EINVAL: the pid is 0 (a record that was not there yet), or, before Linux
 * 6.14, it is only the group of others now. ENOENT: it is a thread of another process now. */
int pid_open(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && (errno == EINVAL || errno == ENOENT))
        errno = ESRCH;
    return fd;
}

int proc_id_open(const struct proc_id *id)
{
    int fd = pid_open(id->pid);
    enum liveness found = fd < 0 ? LIVE_DEAD : proc_id_liveness(id);
    if (fd < 0 || found == LIVE_ALIVE)
        return fd;
    close(fd);
    errno = found == LIVE_DEAD ? ESRCH : EIO;
    return -1;
}

int proc_id_signal(const struct proc_id *id, int number)
{
    return proc_id_send(id, number, 0);
}

int proc_id_send(const struct proc_id *id, int number, int word)
{
    siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
    int fd = proc_id_open(id);
    if (fd < 0)
        return -1;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = word;
    int result = (int)syscall(SYS_pidfd_send_signal, fd, number, word ? &info : NULL, 0);
    int saved = errno;
    close(fd);
    errno = saved;
    return result;
}

uint64_t ticks_per_second(void)
{
    return (uint64_t)sysconf(_SC_CLK_TCK);
}

int64_t proc_id_start_wall(const struct proc_id *id, const struct now *now)
{
    return now->wall_ms - now->boot_ms + (int64_t)(id->start_ticks * 1000 / ticks_per_second());
}

void proc_instance_id(const struct proc_id *id, char *ret, size_t size)
{
    int64_t started = clock_boot_moment() + (int64_t)(id->start_ticks * 1000 / ticks_per_second());
    snprintf(ret, size, "%.200s-%d-%lld", host_name(), (int)id->pid, (long long)started);
}

int proc_start_wall(pid_t pid, const struct now *now, int64_t *ret_wall_ms)
{
    struct proc_stat stat;
    if (proc_stat_read(pid, &stat) < 0)
        return -1;
    *ret_wall_ms = proc_id_start_wall(&(struct proc_id){.start_ticks = stat.start_ticks}, now);
    return 0;
}

int proc_parent(pid_t pid, pid_t *ret_parent)
{
    struct proc_stat stat;
    if (proc_stat_read(pid, &stat) < 0)
        return -1;
    *ret_parent = stat.parent;
    return 0;
}

int proc_name(pid_t pid, char *name, size_t size)
{
    char storage[5000];
    struct buf b;
    buf_init_fixed(&b, storage, sizeof storage);
    if (proc_read(pid, "comm", &b) < 0) {
        errno = ESRCH;
        return -1;
    }
    b.data[strcspn(b.data, "\n")] = '\0';
    snprintf(name, size, "%s", b.data);
    return 0;
}

/* The name of the program a process executes: of its executable where we may look, else its argv[0]. */
static void program_name(pid_t pid, const char *argv0, char *name, size_t size)
{
    char path[64], target[4096];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t len = readlink(path, target, sizeof target - 1);
    target[len < 0 ? 0 : len] = '\0';
    static const char deleted[] = " (deleted)"; /* the program was upgraded since */
    if (len > (ssize_t)strlen(deleted) && strcmp(target + len - strlen(deleted), deleted) == 0)
        target[(size_t)len - strlen(deleted)] = '\0';
    const char *base = path_name(target);
    if (len <= 0 || strncmp(base, "busybox", 7) == 0 || strncmp(base, "memfd:", 6) == 0)
        base = path_name(argv0[0] == '-' ? argv0 + 1 : argv0);
    snprintf(name, size, "%.*s", (int)size - 1, base);
}

/* Whether a shell's arguments (NUL-separated, argv[0] first) have -c before the first word that is no option.
 */
static bool has_dash_c(const char *args, size_t len)
{
    const char *end = args + len;
    for (const char *arg = args + strlen(args) + 1; arg < end; arg += strlen(arg) + 1) {
        if (arg[0] != '-' && arg[0] != '+')
            return false;
        if (strcmp(arg, "--") == 0)
            return false;
        bool takes_value =
            strcmp(arg, "--rcfile") == 0 || strcmp(arg, "--init-file") == 0 || strcmp(arg, "--emulate") == 0;
        if (arg[1] != '-') {
            if (arg[0] == '-' && strchr(arg, 'c'))
                return true;
            takes_value = arg[strlen(arg) - 1] == 'o' || arg[strlen(arg) - 1] == 'O';
        } else if (strncmp(arg, "--command", 9) == 0) { /* fish */
            return true;
        }
        if (takes_value && arg + strlen(arg) + 1 < end)
            arg += strlen(arg) + 1;
    }
    return false;
}

static const char *const shells[] = {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ksh93", "fish", "ash", NULL};
static const char *const passing[] = {"timeout", "sudo", "doas",    "su",      "runuser", "setpriv", "xargs",
                                      "env",     "nice", "ionice",  "chrt",    "taskset", "nohup",   "setsid",
                                      "stdbuf",  "time", "unshare", "nsenter", "strace",  "script",  NULL};

/* 1, 0, or -1 if /proc cannot be read. A process that is gone, or that we may not read, counts as 0. */
static int is_passing_through(pid_t pid)
{
    struct buf args CLEANUP(buf_clear) = BUF_INIT;
    if (proc_read(pid, "cmdline", &args) < 0)
        return errno == ENOENT || errno == ESRCH || errno == EACCES || errno == EPERM ? 0 : -1;
    if (args.len == 0)
        return 0;
    char name[256];
    program_name(pid, args.data, name, sizeof name);
    if (word_is_in(name, passing))
        return 1;
    return word_is_in(name, shells) && has_dash_c(args.data, args.len);
}

int proc_guess_holder(struct proc_id *ret)
{
    return proc_guess_holder_from(getppid(), ret);
}

int proc_guess_holder_from(pid_t pid, struct proc_id *ret)
{
    int passes = 0;
    while (pid > 1 && (passes = is_passing_through(pid)) == 1)
        if (proc_parent(pid, &pid) < 0)
            return -1;
    if (passes < 0)
        return -1;
    if (pid <= 1) {
        errno = ESRCH;
        return -1;
    }
    return proc_id_of(pid, ret);
}

/* Where a person begins: what is above them says nothing about who they are. */
static const char *const entrances[] = {
    "login",   "sshd",  "sshd-session", "tmux",  "screen",    "systemd", "init",        "gnome-terminal-server",
    "konsole", "kitty", "xterm",        "urxvt", "alacritty", "foot",    "wezterm-gui", NULL};
static const char *const ours[] = {"tasuki", "tasuki-hold", NULL};
static const char *const interpreters[] = {"node", "nodejs", "bun", "deno", "ruby", "perl", "java", NULL};

/* An interpreter is known by its script: the first word that is no option. A program that names itself is known by that name. */
static void script_name(pid_t pid, const char *args, size_t len, char *name, size_t size)
{
    char title[64];
    bool is_interpreter = word_is_in(name, interpreters) || strncmp(name, "python", 6) == 0;
    if (!is_interpreter)
        return;
    if (proc_name(pid, title, sizeof title) == 0 && strncmp(title, name, strlen(title)) != 0 && !strchr(title, ' ') &&
        strcmp(title, "MainThread") != 0) {
        snprintf(name, size, "%s", title);
        return;
    }
    for (const char *arg = args + strlen(args) + 1; arg < args + len; arg += strlen(arg) + 1)
        if (arg[0] && arg[0] != '-') {
            snprintf(name, size, "%s", path_name(arg));
            return;
        } else if (strcmp(arg, "-c") == 0 || strcmp(arg, "-e") == 0 || strcmp(arg, "-") == 0) {
            return;
        }
}

int proc_program(pid_t pid, char *name, size_t size)
{
    struct buf args CLEANUP(buf_clear) = BUF_INIT;
    if (proc_read(pid, "cmdline", &args) < 0 || args.len == 0)
        return -1;
    program_name(pid, args.data, name, size);
    script_name(pid, args.data, args.len, name, size);
    return name[0] ? 0 : -1;
}

int proc_program_above(pid_t pid, char *name, size_t size)
{
    while (pid > 1) {
        if (proc_program(pid, name, size) < 0 || word_is_in(name, entrances))
            return -1;
        if (!word_is_in(name, shells) && !word_is_in(name, passing) && !word_is_in(name, ours))
            return 0;
        if (proc_parent(pid, &pid) < 0)
            return -1;
    }
    return -1;
}

bool proc_is_ancestor(const struct proc_id *id)
{
    if (id->pid <= 1 || proc_id_liveness(id) != LIVE_ALIVE) /* everybody descends from pid 1 */
        return false;
    for (pid_t pid = getpid(); pid > 0;) {
        if (pid == id->pid)
            return true;
        if (proc_parent(pid, &pid) < 0)
            return false;
    }
    return false;
}

pid_t instance_pid(const char *instance)
{
    const char *stamp = strrchr(instance, '-'), *digits = stamp;
    while (digits && digits > instance && digits[-1] != '-')
        digits--;
    if (!digits || digits == instance || digits == stamp || !stamp[1] || stamp[1 + strspn(stamp + 1, "0123456789")])
        return 0;
    char *end;
    long pid = strtol(digits, &end, 10);
    return end == stamp && pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

void signals_hold(sigset_t *saved)
{
    sigset_t stopping;
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTSTP);
    sigaddset(&stopping, SIGINT);
    sigaddset(&stopping, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stopping, saved);
}

void random_hex(char *text, size_t digits)
{
    unsigned char bytes[64];
    BUG(digits > 2 * sizeof bytes);
    ssize_t n = getrandom(bytes, (digits + 1) / 2, 0);
    BUG(n != (ssize_t)((digits + 1) / 2));
    for (size_t i = 0; i < digits; i++)
        text[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[digits] = '\0';
}

void time_id(char *id, size_t size, const char *prefix, size_t digits)
{
    char random[9], time[32];
    int64_t now_ms = clock_now().wall_ms;
    time_t now = (time_t)(now_ms / 1000);
    struct tm utc;
    BUG(digits >= sizeof random);
    gmtime_r(&now, &utc);
    random_hex(random, digits);
    strftime(time, sizeof time, "%Y%m%dT%H%M%S", &utc);
    snprintf(id, size, "%s%s-%03x%s", prefix, time, (unsigned)(now_ms % 1000), random);
}

int64_t time_of_id(const char *id)
{
    char text[32];
    int64_t ms;
    const char *digits = strchr(id, '-');
    if (!digits || strspn(++digits, "0123456789") != 8 || digits[8] != 'T' || strspn(digits + 9, "0123456789") != 6)
        return -1;
    snprintf(text, sizeof text, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", digits, digits + 4, digits + 6, digits + 9,
             digits + 11, digits + 13);
    return time_parse(text, &ms) < 0 ? -1 : ms;
}

bool id_is_valid(const char *id)
{
    size_t len = strlen(id);
    if (len == 0 || len > ID_LENGTH_MAX || !isalnum((unsigned char)id[0]) || (unsigned char)id[0] > 127)
        return false;
    return strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

int self_path(char path[PATH_MAX])
{
    static const char deleted[] = " (deleted)";
    size_t mark = sizeof deleted - 1;
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (len < 0)
        return -1;
    path[len] = '\0';
    if ((size_t)len <= mark || strcmp(path + len - mark, deleted) != 0 || access(path, X_OK) == 0)
        return 0;
    path[(size_t)len - mark] = '\0';
    return access(path, X_OK);
}
