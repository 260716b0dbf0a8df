/* The sweep of the holder program: what it does about a process in the middle of an exec. */
#include "harness/test.h"
#include "hold/hold.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct holder h;
static pid_t watched;     /* whose look is changed */
static int looks_in_exec; /* so many looks find it in an exec; -1: all */
static int looks_missed;  /* so many looks do not find it */

int __real_stat_read(pid_t pid, char *line, size_t size);
int __wrap_stat_read(pid_t pid, char *line, size_t size);

/* Between the bounds of the environment and the place of the code the kernel shows an empty environment for an instant. */
int __wrap_stat_read(pid_t pid, char *line, size_t size)
{
    if (__real_stat_read(pid, line, size) < 0)
        return -1;
    if (pid == watched && looks_missed > 0)
        return looks_missed--, -1;
    if (pid != watched || looks_in_exec == 0)
        return 0;
    looks_in_exec -= looks_in_exec > 0;
    char changed[STAT_SIZE], *at = strrchr(line, ')');
    for (int field = 2; field < STAT_CODE_START; field++)
        at = strchr(at + 1, ' ');
    snprintf(changed, sizeof changed, "%.*s 0%s", (int)(at - line), line, strchr(at + 1, ' '));
    snprintf(line, size, "%s", changed);
    return 0;
}

static pid_t child_with_empty_environment(void)
{
    int go[2];
    char byte;
    ASSERT(pipe2(go, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        execve("/bin/sleep", (char *[]){"sleep", "1000", NULL}, (char *[]){NULL});
        _exit(127);
    }
    close(go[1]);
    ASSERT_INT(read(go[0], &byte, 1), 0); /* its exec has closed the other end */
    close(go[0]);
    return pid;
}

static void begin(void)
{
    snprintf(h.env_mark, sizeof h.env_mark, "%s=ours", HOLD_ENV_START);
    h.self = getpid();
    h.run.pid = -1;
    watched = child_with_empty_environment();
}

static void expect_killed(void)
{
    int status;
    ASSERT_INT(waitpid(watched, &status, 0), watched);
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_child_in_an_exec_is_counted_but_gets_no_signal)
{
    begin();
    looks_in_exec = -1;
    ASSERT_INT(sweep(&h, SIGKILL), 1);
    ASSERT_INT(sweep(&h, SIGTERM), 1);
    ASSERT_INT(h.herd_count, 0);
    ASSERT_INT(waitpid(watched, NULL, WNOHANG), 0);
    looks_in_exec = 0;
    ASSERT_INT(sweep(&h, SIGKILL), 1);
    expect_killed();
}

TEST(a_child_whose_environment_is_empty_after_its_exec_is_ended)
{
    begin();
    looks_in_exec = 3;
    ASSERT_INT(sweep(&h, SIGKILL), 1);
    expect_killed();
    ASSERT_INT(sweep(&h, 0), 0);
}

/* Makes `watched` a member of a session whose leader has ended; it is not below us. Returns the leader. */
static pid_t member_of_a_session(void)
{
    char line[STAT_SIZE];
    int said[2];
    ASSERT(pipe(said) == 0);
    pid_t leader = fork();
    if (leader == 0) {
        setsid();
        pid_t member = fork();
        if (member == 0) {
            close(said[0]);
            close(said[1]);
            execve("/bin/sleep", (char *[]){"sleep", "1000", NULL}, (char *[]){NULL});
            _exit(127);
        }
        _exit(write(said[1], &member, sizeof member) != sizeof member);
    }
    ASSERT_INT(read(said[0], &watched, sizeof watched), sizeof watched);
    ASSERT(stat_read(leader, line, sizeof line) == 0);
    h.first_ticks = stat_field(line, STAT_TICKS);
    ASSERT_INT(waitpid(leader, NULL, 0), leader);
    close(said[0]);
    close(said[1]);
    return leader;
}

TEST(a_later_session_that_has_the_number_of_the_childs_is_not_ours)
{
    char line[STAT_SIZE];
    snprintf(h.env_mark, sizeof h.env_mark, "%s=ours", HOLD_ENV_START);
    h.self = getpid();
    h.run.pid = -1;
    h.is_foreign = true;
    ASSERT_INT(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    h.foreign_session = member_of_a_session();
    ASSERT(stat_read(watched, line, sizeof line) == 0);
    h.session_until = stat_field(line, STAT_TICKS) - 1;
    ASSERT_INT(sweep(&h, SIGKILL), 0);
    h.session_until = clock_boot_ticks();
    ASSERT_INT(sweep(&h, 0), 1);
    ASSERT_INT(h.herd[0], watched);
    ASSERT_INT(kill(watched, SIGKILL), 0);
}

TEST(a_stop_is_not_over_when_one_pass_has_missed_a_process_that_may_be_elsewhere)
{
    begin();
    h.is_foreign = true;
    h.first_ticks = UINT64_MAX; /* nobody but our children can be meant */
    h.state = STOPPING;
    looks_missed = 1;
    holder_check_stop(&h);
    ASSERT_INT(h.state, STOPPING);
    ASSERT(h.due[TIMER_CHECK] > 0);
    ASSERT(kill(watched, SIGKILL) == 0);
    expect_killed();
}
