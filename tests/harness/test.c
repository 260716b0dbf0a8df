/* The runner. Each test is a forked child in its own empty directory, with stdout and stderr going to a file
 * in memory that is shown when it fails. Both the runner and the test are subreapers: an orphan of the test
 * comes back to the test, which is asked about it at the end; what a crashed test leaves comes to the runner,
 * which ends it. */
#include "harness/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* For what hangs. A sanitizer on a busy machine takes thirty times as long as the program. */
#define DEADLINE_MS (300 * 1000)

enum {
    EXIT_SKIPPED = 77,
    OUTPUT_SHOWN_MAX = 64 * 1024,
    FD_TRACKED_MAX = 1024,
    SKIP_REASON_MAX = 256,
};

static struct test *first, **last = &first;
static char *skip_reason; /* shared with the children */

void test_register(struct test *test)
{
    *last = test;
    last = &test->next;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(NULL);
    _exit(1);
}

void test_skip(const char *reason)
{
    snprintf(skip_reason, SKIP_REASON_MAX, "%s", reason);
    _exit(EXIT_SKIPPED);
}

/* Marks the open descriptors, except the one that reads the directory. */
static void fds_list(bool is_open[FD_TRACKED_MAX])
{
    memset(is_open, 0, FD_TRACKED_MAX * sizeof is_open[0]);
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        long fd = strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] != '.' && fd < FD_TRACKED_MAX && fd != dirfd(dir))
            is_open[fd] = true;
    }
    closedir(dir);
}

static bool leaves_fd(const bool before[FD_TRACKED_MAX])
{
    bool after[FD_TRACKED_MAX];
    bool has_leak = false;
    fds_list(after);
    for (int fd = 0; fd < FD_TRACKED_MAX; fd++) {
        if (!after[fd] || before[fd])
            continue;
        char link[64], target[256];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, target, sizeof target - 1);
        target[len < 0 ? 0 : len] = '\0';
        fprintf(stderr, "descriptor %d left open: %s\n", fd, target);
        has_leak = true;
    }
    return has_leak;
}

/* Children that have ended but were not waited for are forgiven: they run no more. */
static bool leaves_process(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        ;
    if (pid < 0)
        return false;
    fputs("a process was left behind\n", stderr);
    return true;
}

static void run_child(const struct test *test, const char *dir, int output)
{
    bool before[FD_TRACKED_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (chdir(dir) < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) {
        perror("test harness");
        _exit(1);
    }
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
    fds_list(before);
    test->run();
    bool is_leaky = leaves_process();
    is_leaky = leaves_fd(before) || is_leaky;
    exit(is_leaky ? 1 : 0); /* not _exit: LeakSanitizer looks at the end */
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (type == FTW_DP || type == FTW_DNR)
        return rmdir(path), 0;
    return unlink(path), 0;
}

static int open_up(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (type == FTW_D || type == FTW_DNR)
        chmod(path, 0700);
    return 0;
}

static void remove_tree(const char *dir)
{
    nftw(dir, open_up, 16, FTW_PHYS);
    nftw(dir, remove_entry, 16, FTW_PHYS | FTW_DEPTH);
}

/* Ends whatever a failed test left to us. Killing one may hand us its children, hence the loop. */
static void reap_strays(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    for (;;) {
        FILE *children = fopen(path, "re");
        int pid;
        while (children && fscanf(children, "%d", &pid) == 1)
            kill(pid, SIGKILL);
        if (children)
            fclose(children);
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
            return;
    }
}

/* The wait status, or -1 when the deadline passed. */
static int wait_for_test(pid_t pid)
{
    int pidfd = pidfd_open(pid, 0);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    int ready;
    do {
        ready = poll(&end, 1, DEADLINE_MS);
    } while (ready < 0 && errno == EINTR);
    close(pidfd);
    if (ready == 0)
        kill(pid, SIGKILL);
    int status;
    waitpid(pid, &status, 0);
    reap_strays();
    return ready == 0 ? -1 : status;
}

static void show_output(int output)
{
    FILE *text = fdopen(dup(output), "r");
    if (!text)
        return;
    rewind(text);
    bool at_start = true;
    for (int c, count = 0; (c = fgetc(text)) != EOF && count < OUTPUT_SHOWN_MAX; count++) {
        if (at_start)
            fputs("# ", stdout);
        fputc(c, stdout);
        at_start = c == '\n';
    }
    if (!at_start)
        fputc('\n', stdout);
    fclose(text);
}

static void show_end(int status)
{
    if (status == -1)
        printf("# no end after %d s\n", DEADLINE_MS / 1000);
    else if (WIFSIGNALED(status))
        printf("# ended by signal %s\n", strsignal(WTERMSIG(status)));
    else
        printf("# exit code %d\n", WEXITSTATUS(status));
}

static void show_result(const struct test *test, unsigned number, int status)
{
    bool is_skipped = status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED;
    printf("%sok %u - ", status == 0 || is_skipped ? "" : "not ", number);
    for (const char *c = test->name; *c; c++)
        putchar(*c == '_' ? ' ' : *c);
    if (is_skipped)
        printf(" # SKIP %s", skip_reason);
    putchar('\n');
}

/* Whether it passed. */
static bool run_test(const struct test *test, unsigned number)
{
    const char *parent = getenv("TMPDIR");
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/tasuki-test-XXXXXX", parent && *parent ? parent : "/tmp");
    int output = memfd_create("output", MFD_CLOEXEC);
    if (!mkdtemp(dir) || output < 0) {
        perror(dir);
        exit(1);
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_child(test, dir, output);
    int status = pid < 0 ? -1 : wait_for_test(pid);
    show_result(test, number, status);
    bool has_passed = status == 0 || (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED);
    if (!has_passed) {
        show_output(output);
        show_end(status);
    }
    fflush(stdout);
    close(output);
    remove_tree(dir);
    return has_passed;
}

/* The argument and the name are compared with spaces and underscores as equals, so that a line of output can
 * be pasted back. */
static bool is_wanted(const struct test *test, int argc, char **argv)
{
    if (argc < 2)
        return true;
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%s", argv[1]);
    for (char *c = wanted; *c; c++)
        if (*c == ' ')
            *c = '_';
    return strstr(test->name, wanted);
}

int main(int argc, char **argv)
{
    unsigned count = 0, number = 0;
    int failed = 0;
    mallopt(M_PERTURB,
            0xa5); /* memory that is read before it is written, or after its release, is never zero by chance */
    for (struct test *test = first; test; test = test->next)
        count += is_wanted(test, argc, argv);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    skip_reason = mmap(NULL, SKIP_REASON_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (skip_reason == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    printf("TAP version 13\n1..%u\n", count);
    for (struct test *test = first; test; test = test->next)
        if (is_wanted(test, argc, argv))
            failed += !run_test(test, ++number);
    return failed || count == 0;
}
