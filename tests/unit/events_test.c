#include "base/fs.h"
#include "base/who.h"
#include "faulty.h"
#include "harness/test.h"
#include "store/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct now some_time = {.wall_ms = 1770471000250, .boot_ms = 1};
static struct tsk_error err;

static int state_dir(void)
{
    int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT(dir >= 0);
    return dir;
}

static int append(struct event_trail *trail, int writer, int number, uint64_t *ret_id)
{
    char data[64];
    snprintf(data, sizeof data, "{\"writer\":%d,\"number\":%d}", writer, number);
    return event_append(trail, &some_time, &(struct event){.type = "test", .data = data}, ret_id, &err);
}

static void append_range(int dir, int from, int to, uint64_t segment_max)
{
    struct event_trail trail;
    event_trail_init(&trail, dir);
    trail.segment_max = segment_max;
    for (int i = from; i < to; i++)
        ASSERT_INT(append(&trail, 0, i, NULL), 0);
    event_trail_clear(&trail);
}

static void add_bytes(const char *name, const char *text)
{
    FILE *file = fopen(name, "ae");
    ASSERT(file);
    ASSERT(fputs(text, file) >= 0);
    ASSERT_INT(fclose(file), 0);
}

/* The number of the next event, or -1 if there is none. Ids must grow. */
static int next_number(struct event_reader *reader, uint64_t *last_id)
{
    json_t *event = NULL;
    int rc = event_read(reader, &event, &err);
    ASSERT(rc >= 0);
    if (rc == 0)
        return -1;
    uint64_t id = (uint64_t)json_get_int(event, "id", -1);
    ASSERT(*last_id == UINT64_MAX || id > *last_id);
    *last_id = id;
    int number = (int)json_get_int(json_object_get(event, "data"), "number", -2);
    json_decref(event);
    return number;
}

/* Asserts that the trail from id `start` on has exactly the numbers from..to-1. */
static void assert_numbers(int dir, uint64_t start, int from, int to)
{
    struct event_reader reader;
    uint64_t last_id = UINT64_MAX;
    ASSERT_INT(event_reader_init(&reader, dir, start, &err), 0);
    for (int i = from; i < to; i++)
        ASSERT_INT(next_number(&reader, &last_id), i);
    ASSERT_INT(next_number(&reader, &last_id), -1);
    event_reader_clear(&reader);
}

static int count_closed(void)
{
    int count = 0;
    DIR *dir = opendir(".");
    ASSERT(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strlen(entry->d_name) == strlen("events.01234567890123456789.ndjson");
    closedir(dir);
    return count;
}

static char *oldest_closed(void)
{
    static char oldest[64];
    oldest[0] = '\0';
    DIR *dir = opendir(".");
    ASSERT(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strlen(entry->d_name) == strlen("events.01234567890123456789.ndjson") &&
            (!oldest[0] || strcmp(entry->d_name, oldest) < 0))
            snprintf(oldest, sizeof oldest, "%.63s", entry->d_name);
    closedir(dir);
    ASSERT(oldest[0]);
    return oldest;
}

TEST(a_line_has_the_fields_of_the_event_in_order)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    struct event event = {
        .type = "lock.acquired", .session_id = "s\"1", .task_id = "t", .data = "{\"a\":1}", .actor = "null"};
    event_put_line(&line, &some_time, &event);
    ASSERT_STR(buf_str(&line), "{\"time\":\"2026-02-07T13:30:00.250Z\",\"type\":\"lock.acquired\","
                               "\"session_id\":\"s\\\"1\",\"task_id\":\"t\",\"actor\":null,\"data\":{\"a\":1}}\n");
}

TEST(a_line_names_the_party_that_acts)
{
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    struct who who = {.label = "claude-code#2", .pid = 7, .note = "say \"hi\""};
    who_enter(&who);
    event_put_line(&line, &some_time, &(struct event){.type = "x"});
    who_enter(NULL);
    ASSERT(strstr(buf_str(&line),
                  "\"type\":\"x\",\"actor\":{\"label\":\"claude-code#2\",\"user\":null,\"program\":null,\"pid\":7,"
                  "\"host\":null,\"instance\":null,\"note\":\"say \\\"hi\\\"\"},\"data\":{}}"));
}

TEST(the_time_of_a_line_is_right_on_the_edges_of_the_calendar)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {1709251199001, "2024-02-29T23:59:59.001Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf line CLEANUP(buf_clear) = BUF_INIT;
        event_put_line(&line, &(struct now){.wall_ms = cases[i].ms}, &(struct event){.type = "t"});
        char time[25];
        snprintf(time, sizeof time, "%.24s", buf_str(&line) + strlen("{\"time\":\""));
        ASSERT_STR(time, cases[i].text);
    }
}

TEST(an_event_is_read_with_the_id_that_its_append_returned)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    uint64_t id;
    json_t *event CLEANUP_JSON = NULL;
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, NULL), 0);
    ASSERT_INT(append(&trail, 0, 1, &id), 0);
    event_trail_clear(&trail);
    struct event_reader reader;
    ASSERT_INT(event_reader_init(&reader, dir, id, &err), 0);
    ASSERT_INT(event_read(&reader, &event, &err), 1);
    ASSERT_INT(json_get_int(event, "id", -1), id);
    ASSERT_STR(json_object_iter_key(json_object_iter(event)), "id");
    event_reader_clear(&reader);
    struct stat st;
    ASSERT_INT(stat("events.ndjson", &st), 0);
    ASSERT_INT(st.st_mode & 0777, 0600);
}

TEST(a_reader_without_a_trail_sees_nothing_and_then_everything)
{
    int dir CLEANUP_FD = state_dir();
    struct event_reader reader, at_end;
    uint64_t last_id = UINT64_MAX;
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    ASSERT_INT(event_reader_init(&at_end, dir, EVENT_FROM_END, &err), 0);
    ASSERT_INT(next_number(&reader, &last_id), -1);
    append_range(dir, 0, 2, 1000);
    ASSERT_INT(next_number(&reader, &last_id), 0);
    ASSERT_INT(next_number(&reader, &last_id), 1);
    last_id = UINT64_MAX;
    ASSERT_INT(next_number(&at_end, &last_id), 0);
    event_reader_clear(&reader);
    event_reader_clear(&at_end);
}

TEST(a_reader_may_begin_inside_a_line_at_the_end_or_beyond_it)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    uint64_t id;
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, &id), 0);
    append_range(dir, 1, 3, 10000);
    assert_numbers(dir, id, 0, 3);
    assert_numbers(dir, id + 1, 1, 3);
    struct event_reader end, beyond;
    uint64_t last_id = UINT64_MAX;
    ASSERT_INT(event_reader_init(&end, dir, EVENT_FROM_END, &err), 0);
    ASSERT_INT(event_reader_init(&beyond, dir, 1000000, &err), 0);
    ASSERT_INT(append(&trail, 0, 3, NULL), 0);
    ASSERT_INT(next_number(&end, &last_id), 3);
    last_id = UINT64_MAX;
    ASSERT_INT(next_number(&beyond, &last_id), 3);
    event_reader_clear(&end);
    event_reader_clear(&beyond);
    event_trail_clear(&trail);
}

TEST(a_torn_tail_is_closed_by_the_next_append_and_skipped)
{
    int dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 2, 10000);
    add_bytes("events.ndjson", "{\"time\":\"2026-02-0");
    append_range(dir, 2, 4, 10000);
    assert_numbers(dir, 0, 0, 4);
}

TEST(a_torn_tail_is_closed_before_its_segment)
{
    int dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 5, 10000);
    add_bytes("events.ndjson", "{\"time\":\"2026-02-0");
    append_range(dir, 5, 6, 100);
    ASSERT_INT(count_closed(), 1);
    assert_numbers(dir, 0, 0, 6);
}

static struct fs_calls faulty;

static ssize_t pread_fails_once(int fd, void *data, size_t len, off_t offset)
{
    if (len != 1)
        return pread(fd, data, len, offset);
    faulty.pread = pread;
    errno = EIO;
    return -1;
}

TEST(behind_a_tail_that_cannot_be_read_an_event_has_a_line_of_its_own)
{
    int dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 2, 10000);
    add_bytes("events.ndjson", "{\"time\":\"2026-02-0");
    faulty = fs_system_calls;
    faulty.pread = pread_fails_once;
    fs = &faulty;
    append_range(dir, 2, 3, 10000);
    fs = &fs_system_calls;
    append_range(dir, 3, 4, 10000);
    assert_numbers(dir, 0, 0, 4);
}

/* Another writer dies in the middle of its write, just before ours. */
static ssize_t write_after_a_torn_line(int fd, const void *data, size_t len)
{
    faulty.write = write;
    add_bytes("events.ndjson", "{\"time\":\"2026-02-0");
    return write(fd, data, len);
}

TEST(a_line_that_was_glued_to_a_torn_tail_is_written_again)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, NULL), 0);
    faulty = fs_system_calls;
    faulty.write = write_after_a_torn_line;
    fs = &faulty;
    uint64_t id;
    ASSERT_INT(append(&trail, 0, 1, &id), 0);
    assert_numbers(dir, 0, 0, 2);
    assert_numbers(dir, id, 1, 2);
    event_trail_clear(&trail);
}

static ssize_t write_after_torn_lines(int fd, const void *data, size_t len)
{
    add_bytes("events.ndjson", "{\"time\":\"2026-02-0");
    return write(fd, data, len);
}

TEST(a_line_that_is_glued_to_a_torn_tail_each_time_is_an_error)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, NULL), 0);
    faulty = fs_system_calls;
    faulty.write = write_after_torn_lines;
    fs = &faulty;
    ASSERT_INT(append(&trail, 0, 99, NULL), -1);
    ASSERT_STR(tsk_error_context(&err, "reason"), strerror(EIO));
    fs = &fs_system_calls;
    event_trail_clear(&trail);
}

static ssize_t write_half(int fd, const void *data, size_t len)
{
    if (len > 1)
        return write(fd, data, len / 2);
    errno = ENOSPC;
    return -1;
}

TEST(a_full_disk_is_reported_and_costs_only_that_event)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, NULL), 0);
    faulty = fs_system_calls;
    faulty.write = write_half;
    fs = &faulty;
    ASSERT_INT(append(&trail, 0, 99, NULL), -1);
    ASSERT_INT(err.code, TSK_STORAGE_FULL);
    fs = &fs_system_calls;
    ASSERT_INT(append(&trail, 0, 1, NULL), 0);
    assert_numbers(dir, 0, 0, 2);
    event_trail_clear(&trail);
}

TEST(ids_stay_valid_over_rotations)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    uint64_t ids[40];
    event_trail_init(&trail, dir);
    trail.segment_max = 500;
    for (int i = 0; i < 40; i++)
        ASSERT_INT(append(&trail, 0, i, &ids[i]), 0);
    event_trail_clear(&trail);
    ASSERT(count_closed() >= 5);
    for (int i = 0; i < 40; i++)
        assert_numbers(dir, ids[i], i, 40);
}

static int no_tmpfile(int dir, const char *path, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) != O_TMPFILE)
        return openat(dir, path, flags, mode);
    errno = EOPNOTSUPP;
    return -1;
}

static int no_sync(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}

static int no_rename(int from, const char *old, int to, const char *new, unsigned flags)
{
    (void)from, (void)old, (void)to, (void)new, (void)flags;
    errno = EIO;
    return -1;
}

TEST(where_no_file_is_without_a_name_a_trail_is_made_and_rotated_and_no_private_name_is_left)
{
    int dir CLEANUP_FD = state_dir();
    glob_t found;
    faulty = fs_system_calls;
    faulty.openat = no_tmpfile;
    fs = &faulty;
    faulty.fdatasync = no_sync;
    struct event_trail trail;
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, NULL), -1);
    event_trail_clear(&trail);
    ASSERT_INT(glob(".tsk-*", 0, NULL, &found), GLOB_NOMATCH);
    faulty.fdatasync = fdatasync;
    append_range(dir, 0, 20, 500);
    assert_numbers(dir, 0, 0, 20);
    ASSERT(count_closed() >= 2);
    ASSERT_INT(glob(".tsk-*", 0, NULL, &found), GLOB_NOMATCH);
    faulty.renameat2 = no_rename;
    event_trail_init(&trail, dir);
    trail.segment_max = 1;
    append(&trail, 0, 20, NULL);
    event_trail_clear(&trail);
    ASSERT_INT(glob(".tsk-*", 0, NULL, &found), GLOB_NOMATCH);
}

TEST(a_rotation_never_overwrites_a_closed_segment)
{
    int dir CLEANUP_FD = state_dir();
    char name[256];
    append_range(dir, 0, 3, 1);
    snprintf(name, sizeof name, "%s",
             oldest_closed()); /* what the first segment of a trail is named when it is closed */
    while (count_closed() > 0)
        ASSERT_INT(unlink(oldest_closed()), 0);
    ASSERT_INT(unlink("events.ndjson"), 0);
    append_range(dir, 0, 1, 1 << 20);
    add_bytes(name, "history\n");
    struct stat before, after;
    ASSERT_INT(stat(name, &before), 0);
    struct event_trail trail;
    event_trail_init(&trail, dir);
    trail.segment_max = 1;
    for (int i = 1; i < 4; i++)
        append(&trail, 0, i, NULL);
    event_trail_clear(&trail);
    ASSERT_INT(stat(name, &after), 0);
    ASSERT(before.st_ino == after.st_ino && before.st_size == after.st_size);
}

TEST(an_id_older_than_what_is_kept_begins_at_the_oldest)
{
    int dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 40, 500);
    struct event_reader reader;
    uint64_t last_id = UINT64_MAX;
    ASSERT_INT(unlink(oldest_closed()), 0);
    ASSERT_INT(event_reader_init(&reader, dir, 1, &err), 0);
    int first = next_number(&reader, &last_id);
    ASSERT(first > 0);
    assert_numbers(dir, 1, first, 40);
    event_reader_clear(&reader);
}

TEST(a_reader_goes_on_when_the_next_segment_was_removed)
{
    int dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 1, 500);
    struct event_reader reader;
    uint64_t last_id = UINT64_MAX;
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    append_range(dir, 1, 40, 500);
    ASSERT_INT(unlink(oldest_closed()), 0); /* the reader has this one open */
    ASSERT_INT(unlink(oldest_closed()), 0);
    int number, last = -1;
    while ((number = next_number(&reader, &last_id)) >= 0)
        last = number;
    ASSERT_INT(last, 39);
    event_reader_clear(&reader);
}

TEST(nobody_waits_for_a_rotation)
{
    int dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 1, 10000);
    int other CLEANUP_FD = open("events.lock", O_RDWR | O_CLOEXEC);
    ASSERT_INT(fs_lock_try(other, F_RDLCK, 0, 1), 0); /* a writer that was stopped in the middle of an append */
    append_range(dir, 1, 10, 10);
    ASSERT_INT(count_closed(), 0);
    ASSERT_INT(fs_lock_try(other, F_UNLCK, 0, 1), 0);
    append_range(dir, 10, 11, 10);
    ASSERT_INT(count_closed(), 1);
    assert_numbers(dir, 0, 0, 11);
}

TEST(an_emptied_or_damaged_trail_is_repaired_by_the_next_append)
{
    int dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 3, 100);
    int closed = count_closed();
    ASSERT_INT(truncate("events.ndjson", 0), 0);
    append_range(dir, 3, 5, 10000);
    ASSERT_INT(truncate("events.ndjson", 0), 0);
    add_bytes("events.ndjson", "no trail at all");
    append_range(dir, 10, 11, 10000);
    ASSERT_INT(count_closed(), closed + 2);
    struct event_reader reader;
    uint64_t last_id = UINT64_MAX;
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    int number, last = -1;
    while ((number = next_number(&reader, &last_id)) >= 0)
        last = number;
    ASSERT_INT(last, 10);
    event_reader_clear(&reader);
}

TEST(a_symbolic_link_is_not_followed)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    event_trail_init(&trail, dir);
    ASSERT_INT(symlink("elsewhere", "events.ndjson"), 0);
    ASSERT_INT(append(&trail, 0, 0, NULL), -1);
    ASSERT_INT(err.code, TSK_ENVIRONMENT);
    ASSERT_INT(access("elsewhere", F_OK), -1);
    event_trail_clear(&trail);
}

TEST(a_large_event_is_kept_whole_and_a_too_large_one_refused)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    struct buf data CLEANUP(buf_clear) = BUF_INIT;
    event_trail_init(&trail, dir);
    buf_puts(&data, "{\"number\":0,\"text\":\"");
    while (data.len < EVENT_LINE_MAX - 1000)
        buf_puts(&data, "xxxxxxxxxxxxxxxx");
    size_t kept = data.len;
    buf_puts(&data, "\"}");
    ASSERT_INT(event_append(&trail, &some_time, &(struct event){.type = "t", .data = buf_str(&data)}, NULL, &err), 0);
    data.len = kept;
    while (data.len < EVENT_LINE_MAX)
        buf_puts(&data, "xxxxxxxxxxxxxxxx");
    buf_puts(&data, "\"}");
    ASSERT_INT(event_append(&trail, &some_time, &(struct event){.type = "t", .data = buf_str(&data)}, NULL, &err), -1);
    ASSERT_INT(err.code, TSK_PAYLOAD_TOO_LARGE);
    ASSERT_INT(append(&trail, 0, 1, NULL), 0);
    assert_numbers(dir, 0, 0, 2);
    event_trail_clear(&trail);
}

TEST(a_repeated_outbox_id_is_skipped)
{
    int dir CLEANUP_FD = state_dir();
    static const int ids[] = {1, 2, 1, 2, 3}, numbers[] = {0, 1, 50, 51, 2};
    struct event_trail trail;
    event_trail_init(&trail, dir);
    for (int i = 0; i < 5; i++) {
        char data[64];
        snprintf(data, sizeof data, "{\"number\":%d,\"outbox_id\":%d}", numbers[i], ids[i]);
        ASSERT_INT(event_append(&trail, &some_time, &(struct event){.type = "t", .data = data}, NULL, &err), 0);
    }
    event_trail_clear(&trail);
    assert_numbers(dir, 0, 0, 3);
}

/* Where he stopped, the reader has seen 1 and 2; what follows are their copies, then 3. */
static struct fs_calls faulty;
static int locks_to_refuse;

static int lock_refuse(int fd, int cmd, struct flock *range)
{
    if (range->l_type != F_UNLCK && locks_to_refuse > 0) {
        locks_to_refuse--;
        errno = EAGAIN;
        return -1;
    }
    return fs_system_calls.ofd_lock(fd, cmd, range);
}

TEST(a_writer_waits_for_a_busy_trail_each_time_anew)
{
    struct event_trail trail;
    int dir = state_dir();
    faulty = fs_system_calls;
    faulty.ofd_lock = lock_refuse;
    fs = &faulty;
    event_trail_init(&trail, dir);
    for (int i = 0; i < 3; i++) {
        locks_to_refuse = 60; /* more than are tried at once */
        ASSERT_INT(append(&trail, 0, i, NULL), 0);
    }
    event_trail_clear(&trail);
    fs = &fs_system_calls;
    assert_numbers(dir, 0, 0, 3);
    close(dir);
}

static int link_pretend(int from, const char *old, int to, const char *new, int flags)
{
    (void)from, (void)old, (void)to, (void)new, (void)flags;
    return 0;
}

static int rename_pretend(int from, const char *old, int to, const char *new, unsigned flags)
{
    return link_pretend(from, old, to, new, (int)flags);
}

static int sync_fail(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}

TEST(a_trail_that_cannot_be_made_is_an_error_and_leaves_no_file)
{
    struct event_trail trail;
    int dir = state_dir();
    faulty = fs_system_calls;
    faulty.linkat = link_pretend;
    faulty.renameat2 = rename_pretend;
    fs = &faulty;
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, NULL), -1); /* it is never there, however often it is made */
    ASSERT_STR(tsk_error_context(&err, "reason"), "Input/output error");
    event_trail_clear(&trail);
    faulty = fs_system_calls;
    faulty.fdatasync = sync_fail;
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, NULL), -1); /* its first line is not on the disk */
    ASSERT_STR(tsk_error_context(&err, "reason"), "Input/output error");
    event_trail_clear(&trail);
    fs = &fs_system_calls;
    ASSERT(access("events.ndjson", F_OK) < 0);
    append_range(dir, 0, 1, 1 << 20);
    assert_numbers(dir, 0, 0, 1);
    close(dir);
}

TEST(who_goes_on_behind_an_event_does_not_see_its_repetition)
{
    int dir CLEANUP_FD = state_dir();
    static const int ids[] = {1, 2, 1, 2, 3};
    uint64_t places[5];
    struct event_trail trail;
    event_trail_init(&trail, dir);
    for (int i = 0; i < 5; i++) {
        char data[64];
        snprintf(data, sizeof data, "{\"outbox_id\":%d}", ids[i]);
        ASSERT_INT(event_append(&trail, &some_time, &(struct event){.type = "t", .data = data}, &places[i], &err), 0);
    }
    event_trail_clear(&trail);
    uint64_t starts[] = {places[1] + 1, places[2], places[3] + 1};
    for (size_t i = 0; i < 3; i++) {
        struct event_reader reader;
        json_t *event;
        ASSERT_INT(event_reader_init(&reader, dir, starts[i], &err), 0);
        ASSERT_INT(event_read(&reader, &event, &err), 1);
        ASSERT_INT(json_get_int(json_object_get(event, "data"), "outbox_id", 0), 3);
        json_decref(event);
        ASSERT_INT(event_read(&reader, &event, &err), 0);
        event_reader_clear(&reader);
    }
}

/* ---- calls that fail ---------------------------------------------------------------------------------- */

TEST(a_writer_follows_the_trail_that_another_has_rotated)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    struct stat before, after;
    uint64_t ids[2];
    event_trail_init(&trail, dir);
    ASSERT_INT(append(&trail, 0, 0, &ids[0]), 0);
    append_range(dir, 1, 2, 1); /* closes the segment that the first writer has open */
    ASSERT_INT(count_closed(), 1);
    ASSERT_INT(stat(oldest_closed(), &before), 0);
    ASSERT_INT(append(&trail, 0, 2, &ids[1]), 0);
    event_trail_clear(&trail);
    ASSERT_INT(stat(oldest_closed(), &after), 0);
    ASSERT_INT(after.st_size, before.st_size);
    ASSERT(ids[1] > ids[0]);
    assert_numbers(dir, 0, 0, 3);
    assert_numbers(dir, ids[1], 2, 3);
}

/* Trails to which an event is appended: none; an open one; one with closed segments; one that has to be rotated, and one whose first
 * line is damaged. How many events they have. */
enum { NO_TRAIL, SHORT_TRAIL, CLOSED_ONLY, LONG_TRAIL, DAMAGED_TRAIL, TRAILS };

static int make_trail(int dir, int which)
{
    if (which == SHORT_TRAIL)
        append_range(dir, 0, 2, 10000);
    if (which >= CLOSED_ONLY)
        append_range(dir, 0, 3, 1);
    if (which == CLOSED_ONLY)
        ASSERT_INT(unlinkat(dir, "events.ndjson", 0), 0);
    if (which == DAMAGED_TRAIL) {
        int fd CLEANUP_FD = openat(dir, "events.ndjson", O_WRONLY | O_TRUNC | O_CLOEXEC);
        ASSERT(fd >= 0);
        ASSERT_INT(write(fd, "damaged\n", 8), 8);
    }
    return which == NO_TRAIL ? 0 : which == SHORT_TRAIL || which == CLOSED_ONLY || which == DAMAGED_TRAIL ? 2 : 3;
}

/* What cannot be examined is no regular file: "Invalid argument". */
static void assert_reason(int error)
{
    const char *reason = tsk_error_context(&err, "reason");
    ASSERT_INT(err.code, error == ENOSPC ? TSK_STORAGE_FULL : TSK_ENVIRONMENT);
    ASSERT(reason && (strcmp(reason, strerror(error)) == 0 || strcmp(reason, strerror(EINVAL)) == 0));
}

/* Appends the number 50 while the n-th call fails; false if there were fewer. */
static bool append_with_fault(int which, const char *only, long n, int error, int *ret)
{
    char name[32];
    static int made;
    snprintf(name, sizeof name, "t%d", made++);
    ASSERT_INT(mkdir(name, 0700), 0);
    int dir CLEANUP_FD = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int count = make_trail(dir, which);
    struct event_trail trail;
    uint64_t id = 0, last_id = UINT64_MAX;
    event_trail_init(&trail, dir);
    trail.segment_max = which == LONG_TRAIL ? 1 : 10000;
    err = (struct tsk_error){.code = TSK_OK};
    fault_begin(only, n, error);
    *ret = append(&trail, 0, 50, &id);
    bool has_struck = fault_end();
    event_trail_clear(&trail);
    if (*ret < 0) {
        assert_reason(error);
    } else
        assert_numbers(dir, id, 50, 51);
    append_range(dir, 60, 61, 10000); /* and the next one finds the trail whole */
    struct event_reader reader;
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    for (int i = 0; i < count; i++)
        ASSERT_INT(next_number(&reader, &last_id), i);
    if (*ret == 0)
        ASSERT_INT(next_number(&reader, &last_id), 50);
    ASSERT_INT(next_number(&reader, &last_id), 60);
    ASSERT_INT(next_number(&reader, &last_id), -1);
    event_reader_clear(&reader);
    return has_struck;
}

TEST(whichever_call_of_an_append_fails_it_is_reported_or_the_event_is_there_and_what_was_there_stays)
{
    int result, dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 1, 10000); /* who this process is is known from here on */
    for (int which = 0; which < TRAILS; which++) {
        for (long n = 1; append_with_fault(which, NULL, n, EIO, &result); n++)
            /* The look for a torn tail, and the look whether the trail is still the same, cost nothing; a rotation can wait. */
            ASSERT(which == LONG_TRAIL || result < 0 || strcmp(fault.struck, "pread") == 0 ||
                   strcmp(fault.struck, "fstatat") == 0);
    }
}

TEST(a_trail_that_another_has_made_meanwhile_is_taken)
{
    int result;
    for (int which = 0; which < TRAILS; which++) {
        append_with_fault(which, "linkat", 1, EEXIST, &result);
        ASSERT_INT(result, 0);
    }
}

TEST(a_trail_that_does_not_reach_the_disk_is_an_error_of_the_sync)
{
    int dir CLEANUP_FD = state_dir();
    struct event_trail trail;
    event_trail_init(&trail, dir);
    ASSERT_INT(event_trail_sync(&trail, &err), 0); /* nothing was written */
    ASSERT_INT(append(&trail, 0, 0, NULL), 0);
    fault_begin("fdatasync", 2, EIO);
    ASSERT_INT(event_trail_sync(&trail, &err), 0);
    ASSERT_INT(fault.made, 1);
    ASSERT_INT(event_trail_sync(&trail, &err), -1);
    ASSERT(fault_end());
    ASSERT_STR(tsk_error_context(&err, "reason"), strerror(EIO));
    event_trail_clear(&trail);
}

TEST(a_disk_without_room_for_a_new_trail_is_said_to_be_full)
{
    int result;
    append_with_fault(NO_TRAIL, "write", 1, ENOSPC, &result);
    ASSERT_INT(result, -1);
    append_with_fault(CLOSED_ONLY, "write", 1, ENOSPC, &result);
    ASSERT_INT(result, -1);
}

TEST(whichever_call_of_a_reader_fails_it_is_reported_or_every_event_is_read)
{
    int dir CLEANUP_FD = state_dir();
    append_range(dir, 0, 5, 1);
    bool has_struck = true;
    int reported = 0;
    for (long n = 1; has_struck; n++) {
        struct event_reader reader;
        json_t *event = NULL;
        int count = 0;
        err = (struct tsk_error){.code = TSK_OK};
        fault_begin(NULL, n, EIO);
        int rc = event_reader_init(&reader, dir, 0, &err);
        while (rc >= 0 && (rc = event_read(&reader, &event, &err)) == 1) {
            ASSERT_INT(json_integer_value(json_at(event, "data.number")), count++);
            json_decref(event);
        }
        has_struck = fault_end();
        if (rc < 0) {
            reported++;
            assert_reason(EIO);
            int64_t last = count;
            for (rc = 1; reader.fd >= 0 && (rc = event_read(&reader, &event, &err)) == 1;
                 last++) { /* the next read continues there */
                ASSERT_INT(json_integer_value(json_at(event, "data.number")), last);
                json_decref(event);
            }
            ASSERT(reader.fd < 0 || (rc == 0 && last == 5));
        } else
            ASSERT_INT(count, 5);
        event_reader_clear(&reader);
    }
    ASSERT(reported > 10);
}

TEST(what_is_not_named_like_a_closed_segment_is_none)
{
    int dir CLEANUP_FD = state_dir();
    static const char *const names[] = {"events.0000000000000000000.ndjson",  "events.000000000000000000009.ndjson",
                                        "events.0000000000000000000x.ndjson", "events.00000000000000000009.ndjsom",
                                        "evints.00000000000000000009.ndjson", "events.00000000000000000009.ndjson~",
                                        "events.99999999999999999999.ndjson", "events.09223372036854775807.ndjson"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add_bytes(names[i], "{\"time\":\"t\",\"type\":\"t\",\"data\":{\"number\":99}}\n");
    append_range(dir, 0, 3, 1);
    assert_numbers(dir, 0, 0, 3);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ASSERT_INT(unlink(names[i]), 0);
    ASSERT_INT(count_closed(), 3);
}

/* ---- crashes ------------------------------------------------------------------------------------------ */

static int calls_left;

static void step(void)
{
    if (calls_left-- == 0)
        raise(SIGKILL);
}

static int step_openat(int dir, const char *path, int flags, mode_t mode)
{
    step();
    return openat(dir, path, flags, mode);
}
static ssize_t step_write(int fd, const void *data, size_t len)
{
    step();
    return write(fd, data, len);
}
static ssize_t step_pread(int fd, void *data, size_t len, off_t offset)
{
    step();
    return pread(fd, data, len, offset);
}
static int step_fdatasync(int fd)
{
    step();
    return fdatasync(fd);
}
static int step_linkat(int from, const char *old, int to, const char *new, int flags)
{
    step();
    return linkat(from, old, to, new, flags);
}
static int step_renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    step();
    return renameat2(from, old, to, new, flags);
}
static int step_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    step();
    return fstatat(dir, path, st, flags);
}
static int step_lock(int fd, int cmd, struct flock *range)
{
    step();
    return fcntl(fd, cmd, range);
}

/* A process appends `count` events with a rotation among them and dies at its n-th call; false when it did
 * not. */
static bool append_and_die(int dir, int n, int count, int *acknowledged)
{
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        faulty = fs_system_calls;
        faulty.openat = step_openat;
        faulty.write = step_write;
        faulty.pread = step_pread;
        faulty.fdatasync = step_fdatasync;
        faulty.linkat = step_linkat;
        faulty.renameat2 = step_renameat2;
        faulty.fstatat = step_fstatat;
        faulty.ofd_lock = step_lock;
        calls_left = n;
        fs = &faulty;
        struct event_trail trail;
        event_trail_init(&trail, dir);
        trail.segment_max = 250;
        for (int i = 0; i < count; i++) {
            if (append(&trail, 0, i, NULL) < 0)
                _exit(1);
            *acknowledged = i + 1;
        }
        _exit(0);
    }
    int status;
    ASSERT_INT(waitpid(pid, &status, 0), pid);
    ASSERT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

TEST(a_writer_may_die_at_any_call)
{
    int *acknowledged = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool is_dying = true;
    int n;
    for (n = 0; is_dying; n++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", n);
        ASSERT_INT(mkdir(name, 0700), 0);
        int dir CLEANUP_FD = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *acknowledged = 0;
        is_dying = append_and_die(dir, n, 6, acknowledged);
        append_range(dir, 100, 101, 250);
        struct event_reader reader;
        uint64_t last_id = UINT64_MAX;
        ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
        for (int i = 0; i < *acknowledged; i++)
            ASSERT_INT(next_number(&reader, &last_id), i);
        int number = next_number(&reader, &last_id);
        if (number == *acknowledged) /* written, but it died before it could say so */
            number = next_number(&reader, &last_id);
        ASSERT_INT(number, 100);
        ASSERT_INT(next_number(&reader, &last_id), -1);
        event_reader_clear(&reader);
    }
    ASSERT(n > 30);
    munmap(acknowledged, sizeof(int));
}

/* ---- crowds ------------------------------------------------------------------------------------------- */

enum { WRITERS = 8, EVENTS_EACH = 400, TINY_SEGMENT = 2000 };

/* What the witness knows: how many events each writer has been acknowledged. */
static volatile int *told;

static pid_t start_writer(int dir, int writer, int from)
{
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid)
        return pid;
    struct event_trail trail;
    event_trail_init(&trail, dir);
    trail.segment_max = TINY_SEGMENT;
    for (int i = from; i < EVENTS_EACH; i++) {
        while (append(&trail, writer, i, NULL) <
               0) /* on a busy machine the others may have the trail for 10 s: nothing was written */
            if (!err.text || strncmp(err.text, "events_busy", 11) != 0)
                _exit(1);
        told[writer] = i + 1;
    }
    _exit(0);
}

/* Reads what there is; every writer's numbers must come in order, each once. seen[w] is the next number
 * expected; a writer that was killed may skip no acknowledged number. */
static void read_some(struct event_reader *reader, int seen[WRITERS], uint64_t *last_id)
{
    json_t *event;
    int rc;
    while ((rc = event_read(reader, &event, &err)) == 1) {
        const json_t *data = json_object_get(event, "data");
        int writer = (int)json_get_int(data, "writer", -1), number = (int)json_get_int(data, "number", -1);
        uint64_t id = (uint64_t)json_get_int(event, "id", -1);
        json_decref(event);
        ASSERT(writer >= 0 && writer < WRITERS);
        ASSERT(*last_id == UINT64_MAX || id > *last_id);
        *last_id = id;
        ASSERT_INT(number, seen[writer]);
        seen[writer]++;
    }
    ASSERT_INT(rc, 0);
}

static void told_map(void)
{
    told = mmap(NULL, WRITERS * sizeof told[0], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(told != MAP_FAILED);
}

TEST(many_writers_and_rotations_lose_and_repeat_nothing)
{
    int dir CLEANUP_FD = state_dir();
    int seen[WRITERS] = {0}, again[WRITERS] = {0}, running = WRITERS;
    uint64_t last_id = UINT64_MAX;
    struct event_reader reader;
    told_map();
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    for (int i = 0; i < WRITERS; i++)
        start_writer(dir, i, 0);
    while (running) {
        int status;
        if (waitpid(-1, &status, WNOHANG) > 0) {
            ASSERT_INT(status, 0);
            running--;
        }
        read_some(&reader, seen, &last_id); /* also across rotations that happen meanwhile */
    }
    read_some(&reader, seen, &last_id);
    event_reader_clear(&reader);
    last_id = UINT64_MAX;
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    read_some(&reader, again, &last_id);
    event_reader_clear(&reader);
    for (int i = 0; i < WRITERS; i++) {
        ASSERT_INT(seen[i], EVENTS_EACH);
        ASSERT_INT(again[i], EVENTS_EACH);
    }
    ASSERT(count_closed() > 10);
}

/* Kills one writer at a random moment and starts its successor with the number after the last one that is in
 * the trail, which must be the acknowledged one, or one more. */
static void replace_writer(int dir, pid_t pids[WRITERS], int writer)
{
    int seen[WRITERS] = {0}, status;
    uint64_t last_id = UINT64_MAX;
    struct event_reader reader;
    ASSERT_INT(kill(pids[writer], SIGKILL), 0);
    ASSERT_INT(waitpid(pids[writer], &status, 0), pids[writer]);
    ASSERT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    read_some(&reader, seen, &last_id);
    event_reader_clear(&reader);
    ASSERT(seen[writer] == told[writer] || seen[writer] == told[writer] + 1);
    pids[writer] = start_writer(dir, writer, seen[writer]);
}

TEST(writers_that_are_killed_lose_nothing_that_was_acknowledged)
{
    int dir CLEANUP_FD = state_dir();
    pid_t pids[WRITERS];
    int seen[WRITERS] = {0};
    uint64_t last_id = UINT64_MAX;
    struct event_reader reader;
    unsigned seed = 7;
    told_map();
    for (int i = 0; i < WRITERS; i++)
        pids[i] = start_writer(dir, i, 0);
    for (int i = 0; i < 60; i++)
        replace_writer(dir, pids, rand_r(&seed) % WRITERS);
    for (int i = 0; i < WRITERS; i++) {
        int status;
        ASSERT_INT(waitpid(pids[i], &status, 0), pids[i]);
        ASSERT_INT(status, 0);
    }
    ASSERT_INT(event_reader_init(&reader, dir, 0, &err), 0);
    read_some(&reader, seen, &last_id);
    event_reader_clear(&reader);
    for (int i = 0; i < WRITERS; i++)
        ASSERT_INT(seen[i], EVENTS_EACH);
}
