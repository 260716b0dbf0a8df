/* The files of a run: its journal, those that travel with it, and the names of runs. */
#include "scene.h"

#include "base/parcel.h"
#include "graph/journal.h"
#include "graph/pack.h"
#include "graph/run_names.h"

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

/* ---- the journal ---------------------------------------------------------------------------------------- */

static void journal_is(const char *wanted)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_INT(fs_read_file(AT_FDCWD, "journal", 1 << 20, &text), 0);
    ASSERT_STR(buf_str(&text), wanted);
}

TEST(what_is_behind_the_last_newline_of_a_journal_was_never_a_record_however_long_it_is)
{
    static const size_t torn[] = {0, 1, 4095, 4096, 4097, 9000};
    for (int has_line = 0; has_line < 2; has_line++)
        for (size_t i = 0; i < COUNT(torn); i++) {
            struct tsk_error err;
            struct journal journal;
            char text[9100];
            const char *line = has_line ? "{\"e\":\"run\"}\n" : "";
            snprintf(text, sizeof text, "%s%.*s", line, 0, "");
            memset(text + strlen(line), 'x', torn[i]);
            text[strlen(line) + torn[i]] = '\0';
            scene_write("journal", text);
            ASSERT_OK(journal_open(&journal, AT_FDCWD, false, &err));
            journal_is(line);
            buf_json_pair_int(journal_begin(&journal, "x"), "n", 1);
            journal_end(&journal);
            journal_is(line);
            ASSERT_OK(journal_flush(&journal, &err));
            json_t *records CLEANUP_JSON = NULL;
            ASSERT_OK(journal_read(AT_FDCWD, &records, &err));
            ASSERT_INT(json_array_size(records), has_line + 1);
            ASSERT(json_text_is(json_array_get(records, (size_t)has_line), "e", "x"));
            journal_close(&journal);
            ASSERT_INT(journal.fd, -1);
        }
}

#define LINE "{\"e\":\"a\"}\n"

TEST(a_damaged_journal_is_read_up_to_the_damage_and_who_appends_cuts_it_there_and_keeps_a_copy)
{
    static const char *const damages[] = {"x\n", "[1]\n", "\n", "{\"e\":\n"};
    for (size_t i = 0; i < COUNT(damages); i++) {
        char text[100];
        struct tsk_error err;
        struct buf kept CLEANUP(buf_clear) = BUF_INIT;
        json_t *records CLEANUP_JSON = NULL, *whole CLEANUP_JSON = NULL;
        snprintf(text, sizeof text, LINE LINE "%s" LINE, damages[i]);
        scene_write("journal", text);
        ASSERT_OK(journal_read(AT_FDCWD, &records, &err));
        ASSERT_INT(json_array_size(records), 2);
        journal_is(text);
        ASSERT_OK(journal_read_whole(AT_FDCWD, &whole, &err));
        ASSERT_INT(json_array_size(whole), 2);
        journal_is(LINE LINE);
        ASSERT_INT(fs_read_file(AT_FDCWD, "journal.damaged", 1000, &kept), 0);
        ASSERT_STR(buf_str(&kept), text);
        ASSERT_INT(unlink("journal.damaged"), 0);
    }
    struct tsk_error err;
    json_t *records CLEANUP_JSON = NULL;
    scene_write("journal", LINE "{\"e\":\"b\"");
    ASSERT_OK(journal_read_whole(AT_FDCWD, &records, &err)); /* a torn tail is no damage */
    ASSERT_INT(json_array_size(records), 1);
    ASSERT(!scene_exists("journal.damaged"));
    ASSERT_INT(unlink("journal"), 0);
    json_t *none CLEANUP_JSON = NULL;
    ASSERT_INT(journal_read(AT_FDCWD, &none, &err), -1);
    ASSERT_INT(journal_read_whole(AT_FDCWD, &none, &err), -1);
    ASSERT_INT(journal_read_behind(AT_FDCWD, 0, &none, &err), -1);
}

TEST(records_behind_a_place_are_all_read_however_the_pieces_fall)
{
    static char text[40000];
    for (size_t size = 16384 - 2; size <= 16384 + 2; size++) {
        struct tsk_error err;
        json_t *records CLEANUP_JSON = NULL;
        memset(text, 'x', size);
        memcpy(text, "{\"e\":\"", 6);
        memcpy(text + size - 3, "\"}\n", 4);
        scene_write("journal", text);
        ASSERT_OK(journal_read_behind(AT_FDCWD, 0, &records, &err));
        ASSERT_INT(json_array_size(records), 1);
    }
}

TEST(records_behind_a_place_are_read_if_it_is_the_end_of_a_line)
{
    static const struct {
        int64_t from;
        size_t count;
    } rows[] = {{0, 3},
                {1, 0},
                {sizeof LINE - 2, 0},
                {sizeof LINE - 1, 2},
                {sizeof LINE, 0},
                {2 * (sizeof LINE - 1), 1},
                {3 * (sizeof LINE - 1), 0}};
    scene_write("journal", LINE LINE LINE);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        json_t *records CLEANUP_JSON = NULL;
        ASSERT_OK(journal_read_behind(AT_FDCWD, rows[i].from, &records, &err));
        if (json_array_size(records) != rows[i].count)
            test_fail(__FILE__, __LINE__, "%zu records behind %lld", json_array_size(records), (long long)rows[i].from);
    }
}

static struct fs_calls calls;
static int syncs, failing; /* how many calls, and the errno with which they fail */

static int count_fdatasync(int fd)
{
    syncs++;
    errno = failing;
    return failing ? -1 : fs_system_calls.fdatasync(fd);
}

static int fail_fstat(int fd, struct stat *st)
{
    (void)fd, (void)st;
    errno = EIO;
    return -1;
}

static ssize_t fail_pread(int fd, void *data, size_t size, off_t at)
{
    (void)fd, (void)data, (void)size, (void)at;
    errno = EIO;
    return -1;
}

static void put_record(struct journal *journal)
{
    journal_begin(journal, "x");
    journal_end(journal);
}

TEST(a_journal_is_synced_once_for_each_flush_that_wrote_if_its_flow_says_so)
{
    calls = fs_system_calls;
    calls.fdatasync = count_fdatasync;
    fs = &calls;
    for (int is_synced = 0; is_synced < 2; is_synced++) {
        struct tsk_error err;
        struct journal journal;
        ASSERT_OK(journal_open(&journal, AT_FDCWD, is_synced, &err));
        put_record(&journal);
        put_record(&journal);
        ASSERT_INT(syncs, 0);
        ASSERT_OK(journal_flush(&journal, &err));
        ASSERT_OK(journal_flush(&journal, &err));
        ASSERT_INT(syncs, is_synced);
        put_record(&journal);
        failing = EIO;
        ASSERT_INT(journal_flush(&journal, &err), -is_synced);
        failing = 0;
        ASSERT_OK(journal_flush(&journal, &err)); /* what was not synced is synced now */
        ASSERT_INT(syncs, is_synced ? 3 : 0);
        journal_close(&journal);
    }
    fs = &fs_system_calls;
}

TEST(a_journal_whose_end_cannot_be_looked_at_is_not_opened)
{
    scene_write("journal", "{}\ntorn");
    for (int i = 0; i < 2; i++) {
        struct tsk_error err;
        struct journal journal;
        calls = fs_system_calls;
        if (i)
            calls.pread = fail_pread;
        else
            calls.fstat = fail_fstat;
        fs = &calls;
        ASSERT_INT(journal_open(&journal, AT_FDCWD, false, &err), -1);
        fs = &fs_system_calls;
        ASSERT_INT(err.sys_errno, EIO);
    }
    journal_is("{}\ntorn");
}

TEST(a_journal_whose_write_has_failed_stays_failed)
{
    struct tsk_error err;
    struct journal journal;
    scene_write("journal", "");
    ASSERT_OK(journal_open(&journal, AT_FDCWD, false, &err));
    close(journal.fd);
    journal.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    journal_begin(&journal, "x");
    journal_end(&journal);
    ASSERT_CODE(journal_flush(&journal, &err), TSK_STORAGE_FULL);
    close(journal.fd);
    journal.fd = open("journal", O_WRONLY | O_APPEND | O_CLOEXEC); /* there is room again */
    ASSERT_CODE(journal_flush(&journal, &err), TSK_STORAGE_FULL);
    journal_is("");
    journal_close(&journal);
}

/* ---- the files that travel ------------------------------------------------------------------------------ */

TEST(a_path_that_travels_has_no_empty_part_no_dot_and_no_dots)
{
    static const struct {
        const char *path;
        bool is_inside;
    } rows[] = {{".", true},    {"a", true},    {"a/b", true}, {"..a", true},     {"a.", true},   {".a/...", true},
                {"a/.b", true}, {"", false},    {"/", false},  {"/a", false},     {"a/", false},  {"a//b", false},
                {"./a", false}, {"a/.", false}, {"..", false}, {"a/../b", false}, {"../a", false}};
    char path[PATH_MAX];
    for (size_t i = 0; i < COUNT(rows); i++)
        if (pack_path_is_inside(rows[i].path) != rows[i].is_inside)
            test_fail(__FILE__, __LINE__, "\"%s\"", rows[i].path);
    memset(path, 'a', sizeof path);
    path[PATH_MAX / 2 - 1] = '\0';
    ASSERT(pack_path_is_inside(path));
    path[PATH_MAX / 2 - 1] = 'a';
    path[PATH_MAX / 2] = '\0';
    ASSERT(!pack_path_is_inside(path));
}

static int pack_here(const char *paths, uint32_t count, struct buf *ret, struct tsk_error *err)
{
    int dir CLEANUP_FD = open("from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *ret = (struct buf)BUF_INIT;
    return pack_make(dir, paths, count, ret, err);
}

static int unpack_to(const char *name, const char *data, size_t len)
{
    ASSERT_INT(mkdir(name, 0700), 0);
    int dir CLEANUP_FD = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = pack_unpack(data, len, dir), problem = errno;
    errno = problem;
    return result;
}

static void make_files(void)
{
    ASSERT_INT(mkdir("from", 0700) | mkdir("from/d", 0700) | mkdir("from/d/e", 0700) | mkdir("from/.git", 0700) |
                   mkdir("from/d/.aiflow", 0700),
               0);
    scene_write("from/a", "A");
    scene_write("from/d/run", "#!");
    ASSERT_INT(chmod("from/d/run", 0711), 0);
    scene_write("from/.git/x", "no");
    scene_write("from/d/.aiflow/x", "no");
    scene_write("from/.gitignore", "yes");
    ASSERT_INT(symlink("../a", "from/d/up"), 0);
    ASSERT_INT(symlink("d/run", "from/down"), 0);
    ASSERT_INT(symlink("..", "from/d/e/dots"), 0);
}

TEST(what_is_packed_arrives_with_its_links_and_executable_bits_but_without_git_and_our_own)
{
    struct tsk_error err;
    struct buf one CLEANUP(buf_clear), two CLEANUP(buf_clear), text CLEANUP(buf_clear) = BUF_INIT;
    struct stat st;
    char target[16] = "";
    make_files();
    ASSERT_OK(pack_here(".", 1, &one, &err));
    ASSERT_OK(pack_here(".", 1, &two, &err));
    ASSERT(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
    ASSERT_INT(unpack_to("to", one.data, one.len), 0);
    ASSERT_INT(fs_read_file(AT_FDCWD, "to/a", 10, &text), 0);
    ASSERT_STR(buf_str(&text), "A");
    ASSERT_INT(stat("to/a", &st), 0);
    ASSERT_INT(st.st_mode & 0777, 0600);
    ASSERT_INT(stat("to/d/run", &st), 0);
    ASSERT_INT(st.st_mode & 0777, 0700);
    ASSERT_INT(readlink("to/d/up", target, sizeof target - 1), 4);
    ASSERT_STR(target, "../a");
    ASSERT(scene_exists("to/down") && scene_exists("to/.gitignore") && scene_exists("to/d/e/dots"));
    ASSERT(!scene_exists("to/.git") && !scene_exists("to/d/.aiflow"));
    ASSERT_INT(pack_unpack(one.data, 0, -1), -1);
    ASSERT_INT(errno, EBADMSG);
}

TEST(only_the_paths_that_are_named_travel_and_one_that_is_not_there_is_an_error)
{
    struct tsk_error err;
    struct buf pack CLEANUP(buf_clear), none CLEANUP(buf_clear), no_dir CLEANUP(buf_clear);
    make_files();
    ASSERT_OK(pack_here("d/run\0.gitignore", 2, &pack, &err));
    ASSERT_INT(unpack_to("to", pack.data, pack.len), 0);
    ASSERT(scene_exists("to/d/run") && scene_exists("to/.gitignore"));
    ASSERT(!scene_exists("to/a") && !scene_exists("to/d/e"));
    ASSERT_CODE(pack_here("a\0missing", 2, &none, &err), TSK_ENVIRONMENT);
    ASSERT_CODE(pack_here("missing/x", 1, &no_dir, &err), TSK_ENVIRONMENT);
    ASSERT(!scene_exists("from/missing"));
}

TEST(a_link_that_leaves_and_what_is_neither_file_nor_directory_do_not_travel)
{
    static const struct {
        const char *target;
        bool is_inside;
    } rows[] = {{"a", true},       {"../a", true}, {"..", true},   {"../..", false}, {"../../a", false}, {"/a", false},
                {"a/../b", false}, {".", false},   {"./a", false}, {"../.", false},  {"a/..", false},    {"../", true}};
    ASSERT_INT(mkdir("from", 0700) | mkdir("from/d", 0700), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tsk_error err;
        struct buf pack CLEANUP(buf_clear);
        ASSERT_INT(symlink(rows[i].target, "from/d/l"), 0);
        int result = pack_here("d", 1, &pack, &err);
        if (result != (rows[i].is_inside ? 0 : -1))
            test_fail(__FILE__, __LINE__, "a link to %s", rows[i].target);
        if (result < 0) {
            ASSERT_INT(err.code, TSK_INVALID_INPUT);
            ASSERT_STR(tsk_error_context(&err, "path"), "d/l");
        }
        ASSERT_INT(unlink("from/d/l"), 0);
    }
    struct tsk_error err;
    struct buf pack CLEANUP(buf_clear);
    ASSERT_INT(mkfifo("from/d/f", 0600), 0);
    ASSERT_CODE(pack_here("d", 1, &pack, &err), TSK_INVALID_INPUT);
    ASSERT_STR(tsk_error_context(&err, "path"), "d/f");
}

TEST(a_pack_that_is_cut_off_anywhere_is_none_unless_between_two_entries)
{
    struct tsk_error err;
    struct buf pack CLEANUP(buf_clear);
    ASSERT_INT(mkdir("from", 0700), 0);
    scene_write("from/a", "A");
    scene_write("from/b", "B");
    ASSERT_OK(pack_here(".", 1, &pack, &err));
    int whole = 0;
    for (size_t len = 0; len <= pack.len; len++) {
        char name[32];
        snprintf(name, sizeof name, "to%zu", len);
        if (unpack_to(name, pack.data, len) == 0)
            whole++;
        else
            ASSERT_INT(errno, EBADMSG);
    }
    ASSERT_INT(whole >= 3, true); /* none, a, both */
}

TEST(an_entry_that_would_leave_is_no_entry)
{
    static const struct {
        const char *kind, *path, *content;
        bool is_good;
    } rows[] = {
        {"f", "a", "x", true},      {"x", "d/a", "x", true},   {"d", "d", "", true},    {"l", "l", "a", true},
        {"l", "d/l", "../a", true}, {"f", "../a", "x", false}, {"f", "/a", "x", false}, {"f", ".", "x", false},
        {"d", ".", "", false},      {"l", "l", "../a", false}, {"l", "l", "/a", false}, {"z", "a", "x", false},
        {"ff", "a", "x", false},    {"", "a", "x", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char name[32];
        struct buf pack CLEANUP(buf_clear) = BUF_INIT;
        parcel_puts(&pack, "tasuki-files 1");
        parcel_puts(&pack, rows[i].kind);
        parcel_puts(&pack, rows[i].path);
        parcel_puts(&pack, rows[i].content);
        snprintf(name, sizeof name, "to%zu", i);
        int result = unpack_to(name, pack.data, pack.len);
        if (result != (rows[i].is_good ? 0 : -1))
            test_fail(__FILE__, __LINE__, "%s %s %s", rows[i].kind, rows[i].path, rows[i].content);
        if (result < 0)
            ASSERT_INT(errno, EBADMSG);
    }
}

TEST(a_file_in_the_place_of_a_directory_ends_the_unpacking)
{
    static const char *const entries[] = {"tasuki-files 1", "f", "a", "x", "f", "a/b", "y"};
    struct buf pack CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < COUNT(entries); i++)
        parcel_puts(&pack, entries[i]);
    ASSERT_INT(unpack_to("to", pack.data, pack.len), -1);
}

TEST(a_directory_that_is_there_already_is_no_mistake_of_a_pack)
{
    static const char *const entries[] = {"tasuki-files 1", "f", "d/a", "x", "d", "d", "", "d", "d", ""};
    struct buf pack CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < COUNT(entries); i++)
        parcel_puts(&pack, entries[i]);
    ASSERT_INT(unpack_to("to", pack.data, pack.len), 0);
    ASSERT(scene_exists("to/d/a"));
}

static int fail_open_of_a(int dir, const char *path, int flags, mode_t mode)
{
    if (strcmp(path, "a") == 0) {
        errno = EACCES;
        return -1;
    }
    return fs_system_calls.openat(dir, path, flags, mode);
}

TEST(a_file_that_cannot_be_read_and_a_path_that_is_too_long_do_not_travel)
{
    struct tsk_error err;
    struct buf pack CLEANUP(buf_clear) = BUF_INIT, deep CLEANUP(buf_clear) = BUF_INIT;
    char name[251];
    ASSERT_INT(mkdir("from", 0700), 0);
    scene_write("from/a", "A");
    calls = fs_system_calls;
    calls.openat = fail_open_of_a;
    fs = &calls;
    ASSERT_CODE(pack_here(".", 1, &pack, &err), TSK_ENVIRONMENT);
    fs = &fs_system_calls;
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    int dir = open("from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 9; i++) {
        ASSERT_INT(mkdirat(dir, name, 0700), 0);
        int next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    close(dir);
    ASSERT_CODE(pack_here(".", 1, &deep, &err), TSK_INVALID_INPUT);
    ASSERT(tsk_error_context(&err, "path"));
}

TEST(more_than_32_MB_do_not_travel_and_the_largest_file_is_named)
{
    struct tsk_error err;
    struct buf pack CLEANUP(buf_clear);
    ASSERT_INT(mkdir("from", 0700), 0);
    scene_write("from/a", "A");
    scene_write("from/b", "");
    scene_write("from/c", "CC");
    ASSERT_INT(truncate("from/b", PACK_MAX), 0);
    ASSERT_CODE(pack_here("a\0b\0c", 3, &pack, &err), TSK_INVALID_INPUT);
    ASSERT_STR(tsk_error_context(&err, "path"), "b");
    ASSERT_STR(tsk_error_context(&err, "largest"), "33554432");
    ASSERT_STR(tsk_error_context(&err, "max"), "33554432");
}

/* ---- the names of runs ---------------------------------------------------------------------------------- */

TEST(many_runs_come_newest_first_whatever_the_order_of_their_names_was)
{
    struct tsk_error err;
    struct tsk_workspace *ws = scene_open();
    struct run_names names;
    char path[64], wanted[64];
    ASSERT_INT(mkdirat(ws->state_dir, "some", 0700), 0);
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof path, "some/RUN-20260101T0000%02d-000aaa", i * 37 % 50);
        ASSERT_INT(mkdirat(ws->state_dir, path, 0700), 0);
    }
    ASSERT_OK(run_names_open(ws, "some", &names, &err));
    for (int i = 49; i >= 0; i--) {
        snprintf(wanted, sizeof wanted, "RUN-20260101T0000%02d-000aaa", i);
        ASSERT_STR(run_names_next(&names), wanted);
    }
    ASSERT(!run_names_next(&names));
    run_names_clear(&names);
    tsk_workspace_close(ws);
}

TEST(runs_come_newest_first_and_are_found_by_a_part_of_their_names)
{
    static const char *const ids[] = {"RUN-20260207T223000-111aaa", "RUN-20260207T223000-222bbb",
                                      "RUN-20270101T000000-333ccc", "RUN-20250101T000000-444abc"};
    static const char *const order[] = {"RUN-20270101T000000-333ccc", "RUN-20260207T223000-222bbb",
                                        "RUN-20260207T223000-111aaa", "RUN-20250101T000000-444abc"};
    static const struct {
        const char *part;
        size_t count;
    } rows[] = {{"bbb", 1}, {"222bbb", 1},   {"abc", 1}, {"a", 2},    {"11", 1},    {"2026", 2},
                {"0", 4},   {"223000-2", 1}, {"zzz", 0}, {"bbbb", 0}, {"RUN-2", 4}, {"T", 4}};
    struct tsk_error err;
    struct tsk_workspace *ws = scene_open();
    struct run_names names;
    const char *one = NULL;
    ASSERT_OK(run_names_open(ws, "some", &names, &err));
    ASSERT_INT(names.count, 0);
    ASSERT(!run_names_next(&names));
    run_names_clear(&names);
    ASSERT_INT(mkdirat(ws->state_dir, "some", 0700), 0);
    for (size_t i = 0; i < COUNT(ids); i++) {
        char path[64];
        snprintf(path, sizeof path, "some/%s", ids[i]);
        ASSERT_INT(mkdirat(ws->state_dir, path, 0700), 0);
    }
    ASSERT_INT(mkdirat(ws->state_dir, "some/.open", 0700) | mkdirat(ws->state_dir, "some/OTHER-1", 0700), 0);
    for (int has_other = 0; has_other < 2; has_other++) {
        if (has_other) /* an id by hand: the parts are looked for everywhere */
            ASSERT_INT(mkdirat(ws->state_dir, "some/RUN-1", 0700), 0);
        ASSERT_OK(run_names_open(ws, "some", &names, &err));
        ASSERT_INT(names.count, COUNT(ids) + (size_t)has_other);
        for (size_t i = 0; i < COUNT(rows); i++) {
            size_t more = has_other && (strcmp(rows[i].part, "RUN-2") != 0 && strstr("RUN-1", rows[i].part)) ? 1 : 0;
            if (run_names_with(&names, rows[i].part, &one) != rows[i].count + more)
                test_fail(__FILE__, __LINE__, "%s: %zu", rows[i].part, run_names_with(&names, rows[i].part, &one));
        }
        for (size_t i = 0; i < COUNT(order); i++)
            ASSERT_STR(run_names_next(&names), order[i]);
        if (has_other)
            ASSERT_STR(run_names_next(&names), "RUN-1");
        ASSERT(!run_names_next(&names));
        ASSERT_INT(run_names_with(&names, "333ccc", &one), 1); /* also those that were returned */
        ASSERT_STR(one, "RUN-20270101T000000-333ccc");
        run_names_clear(&names);
    }
    tsk_workspace_close(ws);
}
