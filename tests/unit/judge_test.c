/* Every rule of lock/judge.h, as a table: what the file says, what time it is, what it means. */
#include "base/fs.h"
#include "harness/test.h"
#include "lock/judge.h"
#include "unit/scene.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE };

/* Who and when, for the placeholders of the files. */
struct scene {
    struct tsk_workspace *ws;
    struct lock_target target;
    struct guard guard;
    struct now now;
    struct proc_id self;
    pid_t gone;
    int64_t started; /* of this process */
};

static void end_at_once(const struct child *me, void *arg)
{
    (void)me, (void)arg;
}

static struct scene scene_begin(enum tsk_lock_kind kind)
{
    struct scene s = {.ws = scene_open(), .now = clock_now()};
    struct tsk_error err;
    struct child child = child_start(end_at_once, NULL);
    s.gone = child.pid;
    child_wait(&child);
    ASSERT_INT(proc_id_of(getpid(), &s.self), 0);
    ASSERT_INT(proc_start_wall(getpid(), &s.now, &s.started), 0);
    const char *id = lock_kind_get(kind)->has_id ? "x" : NULL;
    ASSERT_OK(lock_target_init(&s.target, s.ws, lock_kind_get(kind), id, NULL, &err));
    ASSERT_OK(guard_open(&s.guard, s.target.guard_dir, s.target.guard_name, &err));
    ASSERT_OK(guard_lock(&s.guard, &err));
    ASSERT_OK(guard_meet_boot(&s.guard, &s.now, 0, &err));
    return s;
}

static void scene_end(struct scene *s)
{
    guard_close(&s->guard);
    lock_target_clear(&s->target);
    tsk_workspace_close(s->ws);
}

/* <self> <gone> <start> <ns> <boot>; <wall N> and <started N>: a time N seconds from now, or from our start; <clock N>: the
 * boot clock N seconds from now. */
static void put_placeholder(struct buf *b, const struct scene *s, const char *word)
{
    char text[TIME_TEXT_MAX], name[16] = "";
    long seconds = 0;
    sscanf(word, "%15s %ld", name, &seconds);
    if (strcmp(name, "self") == 0)
        buf_printf(b, "%d", (int)s->self.pid);
    else if (strcmp(name, "gone") == 0)
        buf_printf(b, "%d", (int)s->gone);
    else if (strcmp(name, "start") == 0)
        buf_printf(b, "%llu", (unsigned long long)s->self.start_ticks);
    else if (strcmp(name, "ns") == 0)
        buf_printf(b, "%llu", (unsigned long long)s->self.pid_ns);
    else if (strcmp(name, "boot") == 0)
        buf_puts(b, s->self.boot_id);
    else if (strcmp(name, "clock") == 0)
        buf_printf(b, "%lld", (long long)(s->now.boot_ms + seconds * SECOND));
    else if (strcmp(name, "wall") == 0 || strcmp(name, "started") == 0) {
        time_format_local((name[0] == 'w' ? s->now.wall_ms : s->started) + seconds * SECOND, text);
        buf_puts(b, text);
    } else
        test_fail(__FILE__, __LINE__, "no placeholder <%s>", word);
}

/* Single quotes in the tables stand for the double ones of the files. */
static void write_lock(const struct scene *s, const char *template)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    for (const char *at = template; *at; at++) {
        char word[32];
        int used = 0;
        if (*at == '<' && sscanf(at, "<%31[^>]>%n", word, &used) == 1 && used) {
            put_placeholder(&b, s, word);
            at += used - 1;
        } else {
            buf_put(&b, *at == '\'' ? "\"" : at, 1);
        }
    }
    int fd CLEANUP_FD = openat(s->target.dir, s->target.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ASSERT(fd >= 0);
    ASSERT_INT(fs_write_all(fd, b.data, b.len), 0);
}

struct row {
    const char *rule;
    const char *file;
    enum verdict verdict;
    const char *how;
    int64_t later_ms; /* both clocks run on */
    int64_t step_ms;  /* the wall clock alone is set */
    int64_t mtime_ms; /* of the file, from now */
};

static void check_row(struct scene *s, const struct row *row)
{
    struct tsk_error err;
    struct judgement found;
    struct now now = {.wall_ms = s->now.wall_ms + row->later_ms + row->step_ms,
                      .boot_ms = s->now.boot_ms + row->later_ms};
    write_lock(s, row->file);
    int64_t written = s->now.wall_ms + row->mtime_ms;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = written / 1000, .tv_nsec = written % 1000 * 1000000}};
    ASSERT_INT(utimensat(s->target.dir, s->target.file, times, 0), 0);
    ASSERT_OK(lock_judge(&s->target, &s->guard, &now, &found, NULL, &err));
    if (found.verdict != row->verdict || strcmp(found.how, row->how) != 0)
        test_fail(__FILE__, __LINE__, "%s: verdict %d because \"%s\", expected %d because \"%s\"", row->rule,
                  found.verdict, found.how, row->verdict, row->how);
}

static void check_rows(enum tsk_lock_kind kind, const struct row *rows, size_t count)
{
    struct scene s = scene_begin(kind);
    for (size_t i = 0; i < count; i++)
        check_row(&s, &rows[i]);
    scene_end(&s);
}

#define CHECK_ROWS(kind, rows) check_rows(kind, rows, sizeof rows / sizeof rows[0])

#define OURS(hold, pid, start, ns, boot, expires)                                                                      \
    "{'pid':" pid ",'hold':'" hold "','fence':1099511627777,'token':'t','boot_id':'" boot "','pid_ns':" ns             \
    ",'pid_start':" start ",'expires_boot_ms':" expires ",'ttl_ms':1800000,'created_at':'<wall -60>',"                 \
    "'expires_at':'<wall 1740>'}"
#define OTHER_BOOT "11111111-2222-3333-4444-555555555555"
#define FUTURE     "<clock 1740>"
#define PAST       "<clock -1>"

TEST(j2_ours_with_a_process_lives_exactly_as_long_as_that_process)
{
    static const struct row rows[] = {
        {.rule = "alive",
         OURS("process", "<self>", "<start>", "<ns>", "<boot>", FUTURE),
         VERDICT_HELD,
         "process exists"},
        {.rule = "gone",
         OURS("process", "<gone>", "<start>", "<ns>", "<boot>", FUTURE),
         VERDICT_STALE,
         "process is gone"},
        {.rule = "reused", OURS("process", "<self>", "1", "<ns>", "<boot>", FUTURE), VERDICT_STALE, "pid was reused"},
        {.rule = "rebooted",
         OURS("process", "<self>", "<start>", "<ns>", OTHER_BOOT, FUTURE),
         VERDICT_STALE,
         "machine was rebooted"},
        {.rule = "namespace",
         OURS("process", "<gone>", "<start>", "5", "<boot>", FUTURE),
         VERDICT_HELD,
         "other pid namespace"},
        {.rule = "namespace and expired",
         OURS("process", "<gone>", "<start>", "5", "<boot>", PAST),
         VERDICT_HELD,
         "other pid namespace"},
        {.rule = "rebooted in another namespace",
         OURS("process", "<gone>", "<start>", "5", OTHER_BOOT, FUTURE),
         VERDICT_STALE,
         "machine was rebooted"},
    };
    CHECK_ROWS(TSK_LOCK_NAME, rows);
}

TEST(j4_expiry_alone_never_ends_a_live_holder)
{
    static const struct row rows[] = {
        {.rule = "process",
         OURS("process", "<self>", "<start>", "<ns>", "<boot>", PAST),
         VERDICT_HELD,
         "process exists"},
        {.rule = "guess", OURS("guess", "<self>", "<start>", "<ns>", "<boot>", PAST), VERDICT_HELD, "process exists"},
        {.rule = "long past",
         OURS("process", "<self>", "<start>", "<ns>", "<boot>", "1"),
         VERDICT_HELD,
         "process exists",
         .later_ms = 100LL * HOUR},
        {.rule = "foreign",
         "{'pid':<self>,'created_at':'<started 1>','expires_at':'<wall -1>'}",
         VERDICT_HELD,
         "process exists"},
    };
    CHECK_ROWS(TSK_LOCK_NAME, rows);
}

TEST(j5_what_was_guessed_or_is_foreign_must_have_expired_as_well)
{
    static const struct row rows[] = {
        {.rule = "guess, not expired",
         OURS("guess", "<gone>", "<start>", "<ns>", "<boot>", FUTURE),
         VERDICT_HELD,
         "process is gone"},
        {.rule = "guess, expired",
         OURS("guess", "<gone>", "<start>", "<ns>", "<boot>", PAST),
         VERDICT_STALE,
         "process is gone"},
        {.rule = "guess, of another boot",
         OURS("guess", "<gone>", "<start>", "<ns>", OTHER_BOOT, FUTURE),
         VERDICT_STALE,
         "machine was rebooted"},
        {.rule = "foreign, not expired",
         "{'pid':<gone>,'created_at':'<wall -60>','expires_at':'<wall 60>'}",
         VERDICT_HELD,
         "process is gone"},
        {.rule = "foreign, expired",
         "{'pid':<gone>,'created_at':'<wall -60>','expires_at':'<wall -2>'}",
         VERDICT_STALE,
         "process is gone"},
        {.rule = "foreign without expiry, young",
         "{'pid':<gone>,'created_at':'<wall -1700>'}",
         VERDICT_HELD,
         "process is gone"},
        {.rule = "foreign without expiry, old",
         "{'pid':<gone>,'created_at':'<wall -1900>'}",
         VERDICT_STALE,
         "process is gone"},
        {.rule = "foreign without times: the file's",
         "{'pid':<gone>}",
         VERDICT_HELD,
         "process is gone",
         .mtime_ms = -29 * MINUTE},
        {.rule = "foreign without times, old file",
         "{'pid':<gone>}",
         VERDICT_STALE,
         "process is gone",
         .mtime_ms = -31 * MINUTE},
        {.rule = "half a copy of ours is foreign",
         "{'pid':<gone>,'hold':'process','fence':7,'created_at':'<wall -60>','expires_at':'<wall 60>'}",
         VERDICT_HELD,
         "process is gone"},
    };
    CHECK_ROWS(TSK_LOCK_REQUEST, rows);
}

TEST(j3_another_tools_holder_is_dead_only_by_proof)
{
    static const struct row rows[] = {
        {.rule = "alive",
         "{'pid':<self>,'created_at':'<started 1>','expires_at':'<wall -1>'}",
         VERDICT_HELD,
         "process exists"},
        {.rule = "within the slack",
         "{'pid':<self>,'created_at':'<started -1>','expires_at':'<wall -1>'}",
         VERDICT_HELD,
         "process exists"},
        {.rule = "started after the lock",
         "{'pid':<self>,'created_at':'<started -4>','expires_at':'<wall -1>'}",
         VERDICT_STALE,
         "pid was reused"},
        {.rule = "no time recorded", "{'pid':<self>,'expires_at':'<wall -1>'}", VERDICT_HELD, "process exists"},
        {.rule = "unreadable time",
         "{'pid':<self>,'created_at':'noon','expires_at':'<wall -1>'}",
         VERDICT_HELD,
         "process exists"},
        {.rule = "before this boot",
         "{'pid':1,'created_at':'2001-01-01T00:00:00Z','expires_at':'2001-01-01T00:30:00Z'}",
         VERDICT_STALE,
         "machine was rebooted"},
        {.rule = "times prove nothing after a step of the clock",
         "{'pid':<self>,'created_at':'<started -4>','expires_at':'<wall -1>'}",
         VERDICT_HELD,
         "process exists",
         .step_ms = 5 * MINUTE},
        {.rule = "nor does the boot",
         "{'pid':<self>,'created_at':'2001-01-01T00:00:00Z','expires_at':'2001-01-01T00:30:00Z'}",
         VERDICT_HELD,
         "process exists",
         .step_ms = -5 * MINUTE},
        {.rule = "but nobody is nobody",
         "{'pid':<gone>,'created_at':'<wall -4000>','expires_at':'<wall -3000>'}",
         VERDICT_STALE,
         "process is gone",
         .step_ms = 5 * MINUTE},
    };
    CHECK_ROWS(TSK_LOCK_QUEUE, rows);
}

TEST(j6_without_a_usable_pid_a_lock_is_stale_once_expired)
{
    static const struct row rows[] = {
        {.rule = "not expired", "{'created_at':'<wall -60>','expires_at':'<wall 60>'}", VERDICT_HELD, "no usable pid"},
        {.rule = "expired", "{'created_at':'<wall -60>','expires_at':'<wall -2>'}", VERDICT_STALE, "no usable pid"},
        {.rule = "null", "{'pid':null,'expires_at':'<wall -2>'}", VERDICT_STALE, "no usable pid"},
        {.rule = "negative", "{'pid':-1,'expires_at':'<wall 60>'}", VERDICT_HELD, "no usable pid"},
        {.rule = "zero", "{'pid':0,'expires_at':'<wall -2>'}", VERDICT_STALE, "no usable pid"},
        {.rule = "huge", "{'pid':99999999999,'expires_at':'<wall -2>'}", VERDICT_STALE, "no usable pid"},
        {.rule = "an empty object, young", "{}", VERDICT_HELD, "no usable pid"},
        {.rule = "an empty object, old", "{}", VERDICT_STALE, "no usable pid", .mtime_ms = -31 * MINUTE},
    };
    CHECK_ROWS(TSK_LOCK_NAME, rows);
}

TEST(j7_what_cannot_be_parsed_is_held_for_ten_seconds_and_then_stale)
{
    static const struct row rows[] = {
        {.rule = "empty and new", "", VERDICT_HELD, "may be being written"},
        {.rule = "torn and new", "{'pid':12", VERDICT_HELD, "may be being written", .mtime_ms = -9 * SECOND},
        {.rule = "torn and old", "{'pid':12", VERDICT_STALE, "invalid format", .mtime_ms = -11 * SECOND},
        {.rule = "yaml in json's place", "pid: 1\n", VERDICT_STALE, "invalid format", .mtime_ms = -11 * SECOND},
        {.rule = "from the near future", "x", VERDICT_HELD, "may be being written", .mtime_ms = 5 * SECOND},
        {.rule = "from the far future", "x", VERDICT_STALE, "invalid format", .mtime_ms = HOUR},
    };
    CHECK_ROWS(TSK_LOCK_NAME, rows);
}

TEST(j7_a_file_that_is_too_long_is_no_lock_file)
{
    struct scene s = scene_begin(TSK_LOCK_NAME);
    struct tsk_error err;
    struct judgement found;
    write_lock(&s, "{}");
    int fd CLEANUP_FD = openat(s.target.dir, s.target.file, O_WRONLY | O_CLOEXEC);
    ASSERT_INT(ftruncate(fd, (off_t)LOCK_FILE_MAX + 1), 0);
    s.now = clock_now();
    ASSERT_OK(lock_judge(&s.target, &s.guard, &s.now, &found, NULL, &err));
    ASSERT(!found.is_parsed);
    ASSERT_INT(found.verdict, VERDICT_HELD);
    ASSERT(found.recheck_ms > 0 && found.recheck_ms <= 11 * SECOND);
    scene_end(&s);
}

#define SPRINT(pid, started)                                                                                           \
    "pid: " pid "\nsession_id: 's'\nstarted_at: '" started "'\nepic_spec: 'e'\nlock_version: 1\n"
#define OUR_SPRINT(pid, start, expires)                                                                                \
    SPRINT(pid, "<wall -60>")                                                                                          \
    "hold: process\nfence: 7\ntoken: 't'\nboot_id: '<boot>'\npid_ns: <ns>\npid_start: " start                          \
    "\nexpires_boot_ms: " expires "\n"

TEST(j8_a_sprint_is_a_zombie_when_dead_or_older_than_a_day_and_is_never_simply_taken)
{
    static const struct row rows[] = {
        {.rule = "alive", SPRINT("<self>", "<started 1>"), VERDICT_HELD, "process exists"},
        {.rule = "dead", SPRINT("<gone>", "<wall -60>"), VERDICT_ZOMBIE, "process is gone"},
        {.rule = "no pid", "session_id: s\nstarted_at: '<wall -60>'\n", VERDICT_ZOMBIE, "no usable pid"},
        {.rule = "unreadable, at once", "pid: [", VERDICT_ZOMBIE, "invalid format"},
        {.rule = "empty, at once", "", VERDICT_ZOMBIE, "invalid format"},
        {.rule = "just below a day",
         SPRINT("<self>", "<started 1>"),
         VERDICT_HELD,
         "process exists",
         .later_ms = 24LL * HOUR - 2 * MINUTE},
        {.rule = "above a day",
         SPRINT("<self>", "<started 1>"),
         VERDICT_ZOMBIE,
         "process exists",
         .later_ms = 24LL * HOUR + MINUTE},
        {.rule = "ours, alive", OUR_SPRINT("<self>", "<start>", "<clock 86340>"), VERDICT_HELD, "process exists"},
        {.rule = "ours, dead", OUR_SPRINT("<gone>", "<start>", "<clock 86340>"), VERDICT_ZOMBIE, "process is gone"},
        {.rule = "ours, above a day",
         OUR_SPRINT("<self>", "<start>", "<clock 86340>"),
         VERDICT_ZOMBIE,
         "process exists",
         .later_ms = 24LL * HOUR},
    };
    CHECK_ROWS(TSK_LOCK_SPRINT, rows);
}

TEST(j9_a_step_of_the_wall_clock_expires_nothing_of_ours)
{
    static const struct row guess[] = {
        {.rule = "a day forward",
         OURS("guess", "<gone>", "<start>", "<ns>", "<boot>", FUTURE),
         VERDICT_HELD,
         "process is gone",
         .step_ms = 24LL * HOUR},
        {.rule = "a day back",
         OURS("guess", "<gone>", "<start>", "<ns>", "<boot>", PAST),
         VERDICT_STALE,
         "process is gone",
         .step_ms = -24LL * HOUR},
        {.rule = "but time does",
         OURS("guess", "<gone>", "<start>", "<ns>", "<boot>", FUTURE),
         VERDICT_STALE,
         "process is gone",
         .later_ms = 30LL * MINUTE,
         .step_ms = -24LL * HOUR},
    };
    CHECK_ROWS(TSK_LOCK_NAME, guess);
}

TEST(j9_nor_does_it_age_a_sprint_of_ours)
{
    static const struct row rows[] = {
        {.rule = "two days forward",
         OUR_SPRINT("<self>", "<start>", "<clock 86340>"),
         VERDICT_HELD,
         "process exists",
         .step_ms = 48LL * HOUR},
        {.rule = "a day runs on, the clock went back",
         OUR_SPRINT("<self>", "<start>", "<clock 86340>"),
         VERDICT_ZOMBIE,
         "process exists",
         .later_ms = 24LL * HOUR,
         .step_ms = -48LL * HOUR},
    };
    CHECK_ROWS(TSK_LOCK_SPRINT, rows);
}

TEST(j1_ours_with_a_life_byte_lives_exactly_as_long_as_it_is_locked)
{
    struct scene s = scene_begin(TSK_LOCK_NAME);
    struct guard holder = GUARD_INIT;
    struct tsk_error err;
    const uint64_t fence = 1099511627777;
    static const struct row alive[] = {{.rule = "whatever the process",
                                        OURS("life", "<gone>", "1", "5", OTHER_BOOT, PAST),
                                        VERDICT_HELD,
                                        "life byte is locked"},
                                       {.rule = "expired",
                                        OURS("life", "<self>", "<start>", "<ns>", "<boot>", PAST),
                                        VERDICT_HELD,
                                        "life byte is locked",
                                        .later_ms = 100LL * HOUR}};
    static const struct row dead[] = {{.rule = "although the process lives",
                                       OURS("life", "<self>", "<start>", "<ns>", "<boot>", FUTURE),
                                       VERDICT_STALE,
                                       "life byte is free"}};
    ASSERT_OK(guard_open(&holder, s.target.guard_dir, s.target.guard_name, &err));
    ASSERT_OK(guard_life_take(&holder, fence, &err));
    check_row(&s, &alive[0]);
    check_row(&s, &alive[1]);
    guard_close(&holder);
    check_row(&s, &dead[0]);
    scene_end(&s);
}

TEST(a_life_byte_that_cannot_be_asked_for_is_a_doubt_and_not_a_death)
{
    struct scene s = scene_begin(TSK_LOCK_NAME);
    struct guard none = GUARD_INIT;
    struct tsk_error err;
    struct judgement found;
    write_lock(&s, OURS("life", "<self>", "<start>", "<ns>", "<boot>", FUTURE));
    ASSERT_OK(lock_judge(&s.target, &none, &s.now, &found, NULL, &err));
    ASSERT_INT(found.alive, LIVE_UNKNOWN);
    ASSERT_INT(found.verdict, VERDICT_HELD);
    scene_end(&s);
}

TEST(hostile_numbers_in_a_lock_file_are_judged_without_overflow)
{
    static const char *const numbers[] = {"9223372036854775807", "9223372036854775743", "4611686018427387840", "1"};
    struct scene s = scene_begin(TSK_LOCK_NAME);
    struct tsk_error err;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[600];
        struct judgement found;
        snprintf(text, sizeof text,
                 "{'pid':<self>,'hold':'life','fence':%s,'token':'t','boot_id':'<boot>','pid_ns':%s,'pid_start':%s,"
                 "'expires_boot_ms':%s,'ttl_ms':%s}",
                 numbers[i], numbers[i], numbers[i], numbers[i], numbers[i]);
        write_lock(&s, text);
        ASSERT_OK(lock_judge(&s.target, &s.guard, &s.now, &found, NULL, &err));
    }
    scene_end(&s);
}

TEST(nothing_there_is_free_and_nothing_regular_is_an_error)
{
    struct scene s = scene_begin(TSK_LOCK_NAME);
    struct tsk_error err;
    struct judgement found;
    int fd = 99;
    ASSERT_OK(lock_judge(&s.target, &s.guard, &s.now, &found, &fd, &err));
    ASSERT_INT(found.verdict, VERDICT_FREE);
    ASSERT_INT(fd, -1);
    ASSERT_INT(symlinkat("/etc/passwd", s.target.dir, s.target.file), 0);
    ASSERT_CODE(lock_judge(&s.target, &s.guard, &s.now, &found, NULL, &err), TSK_ENVIRONMENT);
    ASSERT_INT(unlinkat(s.target.dir, s.target.file, 0), 0);
    ASSERT_INT(mkdirat(s.target.dir, s.target.file, 0700), 0);
    ASSERT_CODE(lock_judge(&s.target, &s.guard, &s.now, &found, NULL, &err), TSK_ENVIRONMENT);
    ASSERT_INT(unlinkat(s.target.dir, s.target.file, AT_REMOVEDIR), 0);
    ASSERT_INT(mkfifoat(s.target.dir, s.target.file, 0600), 0);
    ASSERT_CODE(lock_judge(&s.target, &s.guard, &s.now, &found, NULL, &err), TSK_ENVIRONMENT);
    scene_end(&s);
}

TEST(the_next_look_is_due_when_time_alone_may_change_the_verdict)
{
    struct scene s = scene_begin(TSK_LOCK_NAME);
    struct tsk_error err;
    struct judgement found;
    write_lock(&s, "{'pid':<gone>,'created_at':'<wall -60>','expires_at':'<wall 60>'}");
    ASSERT_OK(lock_judge(&s.target, &s.guard, &s.now, &found, NULL, &err));
    ASSERT(found.recheck_ms > 58 * SECOND && found.recheck_ms <= 60 * SECOND);
    write_lock(&s, OURS("process", "<self>", "<start>", "<ns>", "<boot>", FUTURE));
    ASSERT_OK(lock_judge(&s.target, &s.guard, &s.now, &found, NULL, &err));
    ASSERT_INT(found.recheck_ms, -1);
    scene_end(&s);
}
