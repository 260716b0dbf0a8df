#include "base/error.h"
#include "base/ident.h"
#include "harness/test.h"
#include "unit/scene.h"

#include <ctype.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sys/syscall.h>

/* Executed again with IDENT_PROBE set, this program only says whom it takes for the holder. */
__attribute__((constructor)) static void probe(void)
{
    struct proc_id id;
    if (!getenv("IDENT_PROBE"))
        return;
    if (proc_guess_holder(&id) < 0)
        printf("errno %d\n", errno);
    else
        printf("guess %d\n", (int)id.pid);
    fflush(stdout);
    _exit(0);
}

#define WORDS_MAX 12

/* Runs the command, in whose environment $PROBE is this program; what it printed goes into `out`. */
static void run_chain(const char *const *words, char *out, size_t size)
{
    char self[4096], *argv[WORDS_MAX] = {0};
    int pipes[2];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    ASSERT(len > 0 && pipe2(pipes, O_CLOEXEC) == 0);
    self[len] = '\0';
    for (size_t i = 0; words[i]; i++)
        argv[i] = (char *)words[i];
    pid_t pid = fork();
    if (pid == 0) {
        setenv("PROBE", self, 1);
        setenv("IDENT_PROBE", "1", 1);
        dup2(pipes[1], STDOUT_FILENO);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(pipes[1]);
    size_t used = 0;
    for (ssize_t n; used + 1 < size && (n = read(pipes[0], out + used, size - used - 1)) > 0;)
        used += (size_t)n;
    out[used] = '\0';
    close(pipes[0]);
    int status;
    ASSERT_INT(waitpid(pid, &status, 0), pid);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "%s ... ended with status %x, said \"%s\"", words[0], (unsigned)status, out);
}

static long number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    if (!at)
        test_fail(__FILE__, __LINE__, "no \"%s\" in \"%s\"", word, text);
    return strtol(at + strlen(word), NULL, 10);
}

static bool is_here(const char *program)
{
    char path[64];
    snprintf(path, sizeof path, "/usr/bin/%s", program);
    return access(path, X_OK) == 0;
}

#define ASK "\"$PROBE\"; :" /* the second command keeps the shell from executing the probe in its place */

TEST(shells_with_a_command_and_wrappers_are_passed_through)
{
    static const char *const chains[][WORDS_MAX] = {
        {"sh", "-c", ASK},
        {"bash", "-c", ASK},
        {"bash", "-lc", ASK},
        {"bash", "-ec", ASK},
        {"bash", "-l", "-c", ASK},
        {"bash", "-o", "pipefail", "-c", ASK},
        {"bash", "-eo", "pipefail", "-c", ASK},
        {"bash", "-euo", "pipefail", "-c", ASK},
        {"bash", "+o", "history", "-c", ASK},
        {"bash", "-O", "extglob", "-c", ASK},
        {"bash", "--norc", "--noprofile", "-c", ASK},
        {"bash", "--rcfile", "/dev/null", "-c", ASK},
        {"bash", "--init-file", "/dev/null", "-c", ASK},
        {"bash", "--login", "-c", ASK},
        {"sh", "-c", "sh -c 'bash -c '\\''\"$PROBE\"; :'\\''; :'; :"},
        {"timeout", "30", "sh", "-c", ASK},
        {"env", "A=1", "sh", "-c", ASK},
        {"nice", "sh", "-c", ASK},
        {"setsid", "--wait", "sh", "-c", ASK},
        {"sh", "-c", "echo x | xargs sh -c '\"$PROBE\"; :'; :"},
        {"sh", "-c", "timeout 30 \"$PROBE\"; :"},
        {"sh", "-c", "exec env \"$PROBE\""},
        {"sh", "-c", "(\"$PROBE\"; :)"},
        {"sh", "-c", "x=$(\"$PROBE\"); echo \"$x\""},
    };
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        char out[256];
        if (!is_here(chains[i][0]))
            continue;
        run_chain(chains[i], out, sizeof out);
        if (number_after(out, "guess ") != getpid())
            test_fail(__FILE__, __LINE__, "chain %zu (%s %s ...): %sexpected %d", i, chains[i][0], chains[i][1], out,
                      (int)getpid());
    }
}

#define SCRIPT "echo \"script $$\"\n\"$PROBE\"\n:\n"

TEST(the_shell_of_a_script_is_the_holder)
{
    static const char *const chains[][WORDS_MAX] = {
        {"sh", "./script"},
        {"bash", "./script"},
        {"bash", "-e", "./script"},
        {"bash", "-eo", "pipefail", "./script"},
        {"bash", "--norc", "./script"},
        {"bash", "--rcfile", "/dev/null", "./script"},
        {"bash", "--", "./script"},
        {"bash", "./script", "-c", "x"},
        {"sh", "-e", "./script", "-c"},
        {"timeout", "30", "sh", "./script"},
        {"sh", "-c", "sh ./script; :"},
        {"sh", "-c", "sh <./script; :"},
        {"./with-interpreter"},
        {"env", "-S", "sh ./script"},
    };
    scene_write("script", SCRIPT);
    scene_write("with-interpreter", "#!/bin/sh -e\n" SCRIPT);
    ASSERT_INT(chmod("with-interpreter", 0700), 0);
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        char out[256];
        run_chain(chains[i], out, sizeof out);
        if (number_after(out, "guess ") != number_after(out, "script "))
            test_fail(__FILE__, __LINE__, "chain %zu (%s ...): %s", i, chains[i][0], out);
    }
}

TEST(a_script_below_a_command_shell_below_a_script_is_the_nearest_script)
{
    static const char *const chain[] = {"sh", "./outer", NULL};
    char out[256];
    scene_write("outer", "echo \"outer $$\"\nsh -c 'timeout 30 sh ./script; :'\n:\n");
    scene_write("script", SCRIPT);
    run_chain(chain, out, sizeof out);
    ASSERT_INT(number_after(out, "guess "), number_after(out, "script "));
    ASSERT(number_after(out, "outer ") != number_after(out, "script "));
}

TEST(a_process_is_itself_and_its_child_is_another)
{
    struct proc_id me, again;
    ASSERT_INT(proc_id_of(getpid(), &me), 0);
    ASSERT_INT(proc_id_of(getpid(), &again), 0);
    ASSERT_INT(me.pid, getpid());
    ASSERT_INT(me.start_ticks, again.start_ticks);
    ASSERT_STR(me.boot_id, boot_id());
    ASSERT_INT(me.pid_ns, pid_namespace());
    ASSERT_INT(proc_id_liveness(&me), LIVE_ALIVE);
    ASSERT(proc_is_ancestor(&me));
}

static void wait_to_be_told(const struct child *me, void *arg)
{
    (void)arg;
    child_say(me, 'r');
    child_hear(me);
}

TEST(a_zombie_is_dead_and_so_is_one_that_was_waited_for)
{
    struct child child = child_start(wait_to_be_told, NULL);
    struct proc_id id, none = {.pid = -7};
    siginfo_t info;
    ASSERT_INT(child_hear(&child), 'r');
    ASSERT_INT(proc_id_of(child.pid, &id), 0);
    ASSERT_INT(proc_id_liveness(&id), LIVE_ALIVE);
    ASSERT(!proc_is_ancestor(&id));
    child_say(&child, 'x');
    ASSERT_INT(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
    ASSERT_INT(proc_id_of(child.pid, &none), -1);
    ASSERT_INT(errno, ESRCH);
    ASSERT_INT(none.pid, -7);
    ASSERT_INT(proc_id_liveness(&id), LIVE_DEAD);
    child_wait(&child);
    ASSERT_INT(proc_id_of(child.pid, &none), -1);
    ASSERT_INT(errno, ESRCH);
    ASSERT_INT(proc_id_liveness(&id), LIVE_DEAD);
}

static void *wait_in_thread(void *arg)
{
    wait_to_be_told(arg, NULL);
    _exit(0);
}

static void leave_the_first_thread(const struct child *me, void *arg)
{
    pthread_t thread;
    (void)arg;
    pthread_create(&thread, NULL, wait_in_thread, (void *)me);
    pthread_exit(NULL);
}

static char state_of(pid_t pid)
{
    char path[64], storage[8192];
    struct buf b;
    buf_init_fixed(&b, storage, sizeof storage);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    ASSERT_INT(fs_read_file(AT_FDCWD, path, 4096, &b), 0);
    const char *at = strrchr(b.data, ')');
    ASSERT(at);
    return at[2];
}

TEST(a_process_whose_first_thread_has_ended_still_lives)
{
    struct child child = child_start(leave_the_first_thread, NULL);
    struct proc_id id;
    ASSERT_INT(child_hear(&child), 'r');
    int64_t deadline = clock_now().boot_ms + SCENE_DEADLINE_MS;
    while (state_of(child.pid) != 'Z' && clock_now().boot_ms < deadline)
        usleep(1000);
    ASSERT_INT(state_of(child.pid), 'Z');
    ASSERT_INT(proc_id_of(child.pid, &id), 0);
    ASSERT_INT(proc_id_liveness(&id), LIVE_ALIVE);
    child_say(&child, 'x');
    child_wait(&child);
}

TEST(a_reused_pid_another_boot_and_another_namespace_are_told_apart)
{
    struct proc_id me, other;
    ASSERT_INT(proc_id_of(getpid(), &me), 0);
    other = me;
    other.start_ticks++;
    ASSERT_INT(proc_id_liveness(&other), LIVE_DEAD);
    ASSERT(!proc_is_ancestor(&other));
    other = me;
    other.boot_id[0] = other.boot_id[0] == 'f' ? '0' : 'f';
    ASSERT_INT(proc_id_liveness(&other), LIVE_DEAD);
    other = me;
    other.pid_ns++;
    ASSERT_INT(proc_id_liveness(&other), LIVE_UNKNOWN);
    ASSERT(!proc_is_ancestor(&other));
}

TEST(pids_that_nobody_can_have_are_dead)
{
    static const pid_t pids[] = {0, -1, -2147483647, 2147483647};
    for (size_t i = 0; i < sizeof pids / sizeof pids[0]; i++) {
        struct proc_id id;
        ASSERT_INT(proc_id_of(pids[i], &id), -1);
        ASSERT_INT(errno, ESRCH);
        ASSERT_INT(pid_open(pids[i]), -1);
        ASSERT_INT(errno, ESRCH);
    }
}

static void *open_own_thread(void *arg)
{
    *(int *)arg = pid_open(gettid()) < 0 ? errno : 0;
    return NULL;
}

TEST(a_pid_that_is_only_a_thread_is_no_process)
{
    pthread_t thread;
    int number = 0;
    ASSERT_INT(pthread_create(&thread, NULL, open_own_thread, &number), 0);
    ASSERT_INT(pthread_join(thread, NULL), 0);
    ASSERT_INT(number, ESRCH);
}

TEST(the_start_time_of_a_process_lies_between_boot_and_now)
{
    struct now now = clock_now();
    int64_t started;
    ASSERT_INT(proc_start_wall(getpid(), &now, &started), 0);
    ASSERT(started <= now.wall_ms + 1000);
    ASSERT(started >= now.wall_ms - now.boot_ms);
}

TEST(the_id_of_an_instance_is_the_same_each_time_it_is_made)
{
    struct proc_id self;
    char first[512], again[512];
    ASSERT_INT(proc_id_of(getpid(), &self), 0);
    proc_instance_id(&self, first, sizeof first);
    for (int64_t end = clock_now().boot_ms + 20; clock_now().boot_ms < end;) {
        proc_instance_id(&self, again, sizeof again);
        ASSERT_STR(again, first);
    }
}

TEST(parents_and_names_are_read_even_when_the_name_looks_like_a_stat_line)
{
    char name[64];
    pid_t parent;
    ASSERT_INT(pthread_setname_np(pthread_self(), "a) Z 1 (b"), 0);
    ASSERT_INT(proc_name(getpid(), name, sizeof name), 0);
    ASSERT_STR(name, "a) Z 1 (b");
    ASSERT_INT(proc_parent(getpid(), &parent), 0);
    ASSERT_INT(parent, getppid());
}

TEST(ids_are_safe_file_names_of_at_most_128_bytes)
{
    static const char *const good[] = {"a", "A", "0", "RQ-1", "a.b", "a..b", "x_y-z.1", "9-"};
    static const char *const bad[] = {"",   ".",    "..",   ".a",    "-a",       "_a",        "a/b",
                                      "/",  "a b",  "a\n",  "a\t",   "\xc3\xa9", "a\xc3\xa9", "a:b",
                                      "a*", "a\\b", "\xff", "a\x7f", "~"};
    char longest[130];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ASSERT(id_is_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ASSERT(!id_is_valid(bad[i]));
    memset(longest, 'a', sizeof longest);
    longest[128] = '\0';
    ASSERT(id_is_valid(longest));
    longest[128] = 'a';
    longest[129] = '\0';
    ASSERT(!id_is_valid(longest));
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

TEST(random_digits_are_hexadecimal_and_do_not_repeat)
{
    enum { COUNT = 5000 };
    static char all[COUNT][33];
    for (size_t i = 0; i < COUNT; i++) {
        random_hex(all[i], 32);
        ASSERT_INT(strspn(all[i], "0123456789abcdef"), 32);
        ASSERT_INT(all[i][32], 0);
    }
    qsort(all, COUNT, sizeof all[0], compare);
    for (size_t i = 1; i < COUNT; i++)
        ASSERT(strcmp(all[i - 1], all[i]) != 0);
}

TEST(an_odd_number_of_random_digits_is_written_exactly)
{
    char text[8] = "zzzzzzz";
    random_hex(text, 5);
    ASSERT_INT(strspn(text, "0123456789abcdef"), 5);
    ASSERT_INT(text[5], 0);
    ASSERT_INT(text[6], 'z');
    random_hex(text, 0);
    ASSERT_STR(text, "");
}

TEST(this_boot_and_namespace_are_known_and_stay)
{
    ASSERT_INT(strlen(boot_id()), BOOT_ID_SIZE - 1);
    ASSERT(boot_id() == boot_id());
    ASSERT(pid_namespace() != 0);
    ASSERT(host_name()[0] && isprint((unsigned char)host_name()[0]));
}

TEST(the_pid_of_an_instance_is_split_from_the_right)
{
    ASSERT_INT(instance_pid("host-12-1794745468953"), 12);
    ASSERT_INT(instance_pid("a-host-with-dashes-7-1"), 7);
    static const char *const others[] = {"",     "me",     "a-b",   "a-b-1",           "a-1-b",
                                         "a-1-", "a-1x-2", "a-0-1", "a-99999999999-1", "a-1-2x"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ASSERT_INT(instance_pid(others[i]), 0);
}

/* A child with this pid, or with any (0); -1: we may not choose. */
static pid_t child_with_pid(pid_t pid)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    args.set_tid = pid ? (uint64_t)(uintptr_t)&pid : 0;
    args.set_tid_size = pid ? 1 : 0;
    pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (child == 0)
        for (;;)
            pause();
    return child;
}

static void end_child(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    ASSERT_INT(waitpid(pid, &status, 0), pid);
}

TEST(a_kept_look_does_not_take_another_process_for_the_one_that_had_its_pid)
{
    struct proc_id first, second;
    struct proc_usage usage;
    proc_keep_looks(1);
    pid_t pid = child_with_pid(0);
    ASSERT(pid > 0 && proc_id_of(pid, &first) == 0);
    ASSERT_INT(proc_id_look(&first, &usage), LIVE_ALIVE);
    ASSERT_INT(proc_id_liveness(&first), LIVE_ALIVE); /* by a pidfd */
    ASSERT_INT(proc_id_liveness(&first), LIVE_ALIVE);
    kill(pid, SIGKILL);
    struct pollfd never = {.fd = -1};
    while (proc_id_look(&first, &usage) != LIVE_DEAD) /* a zombie has ended */
        poll(&never, 1, 1);
    ASSERT_INT(proc_id_liveness(&first), LIVE_DEAD);
    end_child(pid);
    ASSERT_INT(proc_id_look(&first, &usage), LIVE_DEAD);
    ASSERT_INT(proc_id_liveness(&first), LIVE_DEAD);
    ASSERT_INT(proc_id_of(pid, &second), -1);
    while ((uint64_t)clock_now().boot_ms * ticks_per_second() / 1000 <= first.start_ticks + 1)
        clock_nap(1);                 /* within a tick they would have the same start */
    if (child_with_pid(pid) == pid) { /* with the right to choose a pid */
        ASSERT_INT(proc_id_of(pid, &second), 0);
        ASSERT(second.start_ticks != first.start_ticks);
        ASSERT_INT(proc_id_look(&first, &usage), LIVE_DEAD);
        ASSERT_INT(proc_id_look(&second, &usage), LIVE_ALIVE);
        ASSERT_INT(proc_id_liveness(&second), LIVE_ALIVE);
        ASSERT_INT(proc_id_liveness(&first), LIVE_DEAD);
        end_child(pid);
    }
    proc_keep_looks(0);
}
