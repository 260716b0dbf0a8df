#include "base/json.h"
#include "base/log.h"
#include "faulty.h"
#include "proc/files.h"
#include "unit/log_scene.h"

#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>

static struct tsk_error err;

enum { MIB = 1 << 20 };

static ino_t inode_of(const char *path)
{
    struct stat st;
    ASSERT_INT(stat(path, &st), 0);
    return st.st_ino;
}

static off_t size_of(const char *path)
{
    struct stat st;
    ASSERT_INT(stat(path, &st), 0);
    return st.st_size;
}

static int no_sync(int fd)
{
    (void)fd;
    return 0;
}

static int no_rename(int from, const char *old, int to, const char *new, unsigned flags)
{
    (void)from, (void)old, (void)to, (void)new, (void)flags;
    errno = EIO;
    return -1;
}

static int no_tmpfile(int dir, const char *path, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) != O_TMPFILE)
        return openat(dir, path, flags, mode);
    errno = EOPNOTSUPP;
    return -1;
}

/* The system's calls, with one of them replaced. */
static struct fs_calls *own_calls(void)
{
    static struct fs_calls calls;
    calls = fs_system_calls;
    calls.fdatasync = no_sync; /* these tests are about order, not about power failures */
    fs = &calls;
    return &calls;
}

static void compact(const struct proc *p)
{
    bool can_punch;
    ASSERT_OK(log_compact(p->dir, false, &can_punch, &err));
}

/* Numbered lines of 16 bytes, `count` of them. */
static void put_lines(const struct scene_log *log, int from, int count)
{
    char *text = malloc((size_t)count * 16 + 1);
    ASSERT(text);
    for (int i = 0; i < count; i++)
        snprintf(text + (size_t)i * 16, 17, "line %010d\n", from + i);
    scene_put_bytes(log, text, (size_t)count * 16);
    free(text);
}

enum { LINES_PER_MIB = MIB / 16 };

TEST(the_space_of_dropped_bytes_is_given_back_and_cursors_stay_valid)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    own_calls();
    put_lines(&out, 0, 3 * LINES_PER_MIB);
    scene_look(&out, TIME_0);
    scene_drop(&out, 2 * MIB);
    compact(&p);
    ASSERT(size_of("p/log/stdout.log") <= MIB);
    query.cursor[0] = 3 * MIB - 32;
    ASSERT_READ(query, "line 0000196606\nline 0000196607\n");
    query = scene_query(LOG_STDOUT);
    query.lines = 1;
    query.since_ms = query.until_ms = TIME_0;
    ASSERT_READ(query, "line 0000196607\n");
    int64_t oldest, end;
    ASSERT_OK(log_extent(&p, LOG_STDOUT, &oldest, &end, &err));
    ASSERT_INT(end, 3 * MIB);
    ASSERT(oldest >= 2 * MIB && oldest <= 2 * MIB + 16);
    close(p.dir);
}

TEST(where_no_file_is_without_a_name_a_log_is_compacted_and_no_private_name_is_left)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    glob_t found;
    own_calls()->openat = no_tmpfile;
    put_lines(&out, 0, 3 * LINES_PER_MIB);
    scene_drop(&out, 2 * MIB);
    close(open("p/log/stdout.new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)); /* of one that was killed */
    compact(&p);
    ASSERT(size_of("p/log/stdout.log") <= MIB);
    ASSERT(access("p/log/stdout.new", F_OK) < 0);
    ASSERT_INT(glob("p/.tsk-*", 0, NULL, &found), GLOB_NOMATCH);
    ASSERT_INT(glob("p/log/.tsk-*", 0, NULL, &found), GLOB_NOMATCH);
    close(p.dir);
}

TEST(compaction_touches_nothing_when_there_is_little_to_gain_or_somebody_writes)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    bool can_punch = false;
    put_lines(&out, 0, 5 * LINES_PER_MIB);
    scene_drop(&out, 2 * MIB); /* 3 MiB would have to be copied for 2 MiB */
    ino_t before = inode_of("p/log/stdout.log");
    compact(&p);
    ASSERT_INT(inode_of("p/log/stdout.log"), before);
    scene_drop(&out, 4 * MIB);
    ASSERT_OK(log_compact(p.dir, true, &can_punch, &err));
    ASSERT(can_punch);
    ASSERT_INT(inode_of("p/log/stdout.log"), before);
    ASSERT(!scene_exists("p/stdout.idx"));
    compact(&p);
    ASSERT(inode_of("p/log/stdout.log") != before);
    close(p.dir);
}

static void ignore_problem(const struct tsk_error *problem, void *data)
{
    (void)problem;
    ++*(int *)data;
}

TEST(a_compaction_that_dies_before_its_rename_has_changed_nothing)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    int problems = 0;
    put_lines(&out, 0, 3 * LINES_PER_MIB);
    scene_look(&out, TIME_0);
    scene_drop(&out, 2 * MIB);
    struct fs_calls *calls = own_calls();
    calls->renameat2 = no_rename;
    log_to(ignore_problem, &problems);
    compact(&p);
    ASSERT_INT(problems, 1);
    ASSERT_INT(size_of("p/log/stdout.log"), 3 * MIB);
    query.cursor[0] = 3 * MIB - 16;
    ASSERT_READ(query, "line 0000196607\n");
    put_lines(&out, 196608, 1);
    ASSERT_READ(query, "line 0000196607\nline 0000196608\n");
    calls->renameat2 = fs_system_calls.renameat2;
    compact(&p);
    ASSERT(size_of("p/log/stdout.log") <= MIB + 16);
    ASSERT(!scene_exists("p/log/stdout.new"));
    ASSERT_READ(query, "line 0000196607\nline 0000196608\n");
    close(p.dir);
}

TEST(an_index_that_grew_too_long_keeps_its_newest_records_and_the_base)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put_at(&out, "gone\n", TIME_0);
    ASSERT_INT(truncate("p/log/stdout.log", 0), 0);
    scene_put_at(&out, "one\n", TIME_0 + 1);
    struct hold_index record = {.inode = 1, .base = 3}; /* compactions that came to nothing */
    int fd = open("p/stdout.idx", O_WRONLY | O_APPEND | O_CLOEXEC);
    for (int i = 0; i < 70000; i++) {
        record.time_ms = TIME_0 + 2 + i;
        record.offset = out.base + out.size;
        ASSERT_INT(fs_write_all(fd, &record, sizeof record), 0);
    }
    close(fd);
    scene_put(&out, "two\n");
    compact(&p);
    ASSERT(size_of("p/stdout.idx") <= (512 << 10) + 32);
    query.cursor[0] = 5;
    ASSERT_READ(query, "one\ntwo\n");
    query = scene_query(LOG_STDOUT);
    query.since_ms = TIME_0 + 80000;
    ASSERT_READ(query, "two\n");
    close(p.dir);
}

TEST(a_long_history_is_shortened_and_its_offsets_stay_the_same)
{
    struct proc p = scene_process("direct");
    int64_t next, place = 0, again;
    FILE *file = fopen("p/history", "we");
    ASSERT(file && fputs("{\"base\":0}\n", file) >= 0);
    for (int i = 0; i < 5000; i++) {
        if (i == 4990)
            place = ftell(file);
        fprintf(file, "{\"time\":%d,\"what\":\"exited\",\"n\":%d,\"status\":0,\"by\":\"itself\"}\n", i, i);
    }
    next = ftell(file);
    ASSERT_INT(fclose(file), 0);
    for (int round = 0; round < 2; round++) { /* once more: there is nothing to do */
        compact(&p);
        ASSERT(size_of("p/history") <= (64 << 10) + 40 && size_of("p/history") > (60 << 10));
        ASSERT_INT(proc_history_end(p.dir), next);
        json_t *facts CLEANUP_JSON = NULL;
        ASSERT_OK(proc_history_read(p.dir, place, &facts, &again, &err));
        ASSERT(json_array_size(facts) == 10 && again == next);
        ASSERT_INT(json_get_int(json_array_get(facts, 0), "n", 0), 4990);
    }
    json_t *all CLEANUP_JSON = NULL;
    ASSERT_OK(proc_history_read(p.dir, 0, &all, &again, &err));
    ASSERT_INT(json_get_int(json_array_get(all, json_array_size(all) - 1), "n", 0), 4999);
    close(p.dir);
}

/* ---- anything in any order ---- */

/* What was written, by logical offset, and from where on it must be readable. */
struct model {
    char *bytes;
    int64_t end, kept; /* kept: nothing before it is asked for */
    struct scene_log log;
    bool is_cut; /* and the holder has not looked since */
    unsigned long long random;
};

enum { MODEL_MAX = 64 * MIB };

static unsigned long next_random(struct model *m, unsigned long limit)
{
    m->random = m->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned long)(m->random >> 33) % limit;
}

static void model_look(struct model *m)
{
    scene_look(&m->log, TIME_0 + m->end);
    m->is_cut = false;
    ASSERT_INT(m->log.base + m->log.size, m->end);
}

static void model_write(struct model *m)
{
    size_t len = next_random(m, 10) ? 1 + next_random(m, 300) : 1 + next_random(m, 700000);
    unsigned long line = 1 + next_random(m, next_random(m, 8) ? 80 : 200000);
    if (m->is_cut && m->end > m->kept)
        model_look(m);
    if (m->is_cut && (int64_t)len >= m->log.size) /* sizes tell of a cut only while the file is shorter than it was */
        len = (size_t)m->log.size - 1;
    if (m->end + (int64_t)len > MODEL_MAX)
        return;
    for (size_t i = 0; i < len; i++)
        m->bytes[m->end + (int64_t)i] = next_random(m, line) == 0 ? '\n' : (char)('a' + (m->end + (int64_t)i) % 26);
    scene_put_bytes(&m->log, m->bytes + m->end, len);
    m->end += (int64_t)len;
}

static void model_step_write(struct model *m)
{
    bool was_cut = m->is_cut;
    model_write(m);
    if (was_cut && next_random(m, 2)) /* else readers find out by themselves */
        model_look(m);
}

static void model_cut(struct model *m)
{
    model_look(m);
    ASSERT_INT(truncate("p/log/stdout.log", 0), 0);
    m->kept = m->end;
    m->is_cut = m->log.size > 0;
}

static void model_drop(struct model *m)
{
    int64_t keep = (int64_t)next_random(m, 200000), size = m->end - m->log.base;
    if (m->is_cut || size < keep)
        return;
    int64_t bytes = (size - keep) / 4096 * 4096;
    scene_drop(&m->log, bytes);
    if (m->log.base + bytes > m->kept)
        m->kept = m->log.base + bytes;
}

static void model_compact(struct model *m, const struct proc *p)
{
    int64_t oldest, end;
    if (m->is_cut)
        model_look(m);
    compact(p);
    ASSERT_OK(log_extent(p, LOG_STDOUT, &oldest, &end, &err));
    ASSERT_INT(end, m->end);
    ASSERT(oldest <= m->kept + LOG_PIECE_MAX + 1);
    m->log.base = end - size_of("p/log/stdout.log");
    m->log.size = end - m->log.base;
    if (m->log.base > m->kept)
        m->kept = m->log.base;
}

struct model_reader {
    struct model *m;
    int64_t at; /* what is expected next */
    bool may_skip;
};

static bool model_take(void *data, const struct log_line *line)
{
    struct model_reader *reader = data;
    struct model *m = reader->m;
    if (reader->may_skip && line->offset > reader->at) { /* up to a whole line of what is kept */
        int64_t from = reader->at < m->kept ? m->kept : reader->at;
        ASSERT(line->offset >= from);
        const char *newline = memchr(m->bytes + from, '\n', (size_t)(line->offset - from));
        ASSERT(line->offset == from || newline == m->bytes + line->offset - 1 || line->offset - from > LOG_PIECE_MAX);
        reader->at = line->offset;
    }
    reader->may_skip = false;
    ASSERT_INT(line->offset, reader->at);
    ASSERT(memcmp(line->text, m->bytes + line->offset, line->len) == 0);
    reader->at += (int64_t)line->len + !line->is_partial;
    ASSERT(reader->at <= m->end);
    ASSERT(line->is_partial || m->bytes[reader->at - 1] == '\n');
    return true;
}

static void model_read(struct model *m, const struct proc *p, int64_t *cursor)
{
    struct log_query query = scene_query(LOG_STDOUT);
    struct model_reader reader = {.m = m, .at = *cursor, .may_skip = *cursor < m->kept};
    query.cursor[0] = *cursor;
    query.whole_lines = next_random(m, 2);
    query.max_bytes = next_random(m, 3) ? 0 : 1 + next_random(m, 100000);
    ASSERT_OK(log_read(p, &query, model_take, &reader, query.cursor, &err));
    if (!reader.may_skip)
        ASSERT_INT(query.cursor[0], reader.at);
    if (!query.max_bytes && !query.whole_lines)
        ASSERT_INT(query.cursor[0], m->end);
    ASSERT(query.cursor[0] >= *cursor && query.cursor[0] <= m->end);
    *cursor = query.cursor[0];
}

/* The last lines, against the model: as many newlines as asked for. */
static void model_tail(struct model *m, const struct proc *p)
{
    struct log_query query = scene_query(LOG_STDOUT);
    query.lines = (int64_t)next_random(m, 50);
    int64_t start = m->end, left = query.lines + (m->end > m->kept && m->bytes[m->end - 1] == '\n');
    while (start > m->kept && left - (m->bytes[start - 1] == '\n') > 0)
        left -= m->bytes[--start] == '\n';
    struct model_reader reader = {.m = m, .at = query.lines ? start : m->end, .may_skip = start == m->kept};
    ASSERT_OK(log_read(p, &query, model_take, &reader, query.cursor, &err));
    ASSERT(reader.may_skip || reader.at == m->end);
}

static void random_walk(unsigned long long seed)
{
    struct proc p = scene_process("direct");
    struct model m = {.bytes = malloc(MODEL_MAX), .log = {.name = "stdout"}, .random = seed};
    int64_t cursors[4] = {0};
    ASSERT(m.bytes);
    own_calls();
    model_look(&m);
    for (int i = 0; i < 400; i++) {
        unsigned long what = next_random(&m, 100);
        if (what < 40)
            model_step_write(&m);
        else if (what < 50)
            model_look(&m);
        else if (what < 55)
            model_drop(&m);
        else if (what < 57)
            model_cut(&m);
        else if (what < 60)
            model_compact(&m, &p);
        else if (what < 70)
            model_tail(&m, &p);
        else
            model_read(&m, &p, &cursors[next_random(&m, 4)]);
    }
    free(m.bytes);
    close(p.dir);
}

/* Removes what a walk leaves. */
static void remove_process(void)
{
    static const char *const files[] = {"p/log/stdout.log", "p/stdout.idx"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        ASSERT_INT(unlink(files[i]), 0);
    ASSERT(rmdir("p/log") == 0 && rmdir("p") == 0);
}

TEST(whatever_happens_to_a_log_no_cursor_repeats_or_skips_kept_bytes)
{
    for (unsigned long long seed = 1; seed <= 30; seed++) {
        printf("# seed %llu\n", seed);
        random_walk(seed);
        remove_process();
    }
}

/* Files of which a compaction shortens all: a log, its index, the history. */
static void put_long_files(struct scene_log *out)
{
    static char lines[MIB + MIB / 4];
    for (size_t i = 0; i < sizeof lines; i += 16)
        memcpy(lines + i, "fifteen letters\n", 16);
    scene_put_bytes(out, lines, sizeof lines);
    scene_look(out, TIME_0);
    scene_drop(out, MIB + 4096);
    static struct hold_index records[70000];
    struct stat st;
    ASSERT_INT(stat("p/log/stdout.log", &st), 0);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        records[i] = (struct hold_index){TIME_0 + 1, sizeof lines, 0, st.st_ino};
    int fd CLEANUP_FD = open("p/stdout.idx", O_WRONLY | O_APPEND | O_CLOEXEC);
    ASSERT_INT(fs_write_all(fd, records, sizeof records), 0);
    static char facts[300 << 10];
    static const char fact[] = "{\"what\":\"exited\",\"n\":1234567}\n";
    const size_t len = sizeof fact - 1;
    size_t end = 11;
    memcpy(facts, "{\"base\":0}\n", end);
    for (; end + len <= sizeof facts; end += len)
        memcpy(facts + end, fact, len);
    int history CLEANUP_FD = open("p/history", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_INT(fs_write_all(history, facts, end), 0);
}

static bool is_short(void)
{
    return size_of("p/log/stdout.log") < MIB && size_of("p/stdout.idx") <= (512 << 10) + 64 &&
           size_of("p/history") <= (64 << 10) + 40;
}

TEST(whichever_call_of_a_compaction_fails_it_is_logged_the_log_stays_readable_and_the_next_one_does_the_rest)
{
    bool has_struck = true;
    int unsaid = 0;
    for (long n = 1; has_struck; n++) {
        struct proc p = scene_process("direct");
        struct scene_log out = {.name = "stdout"};
        struct log_query query = scene_query(LOG_STDOUT);
        int problems = 0;
        bool can_punch = false;
        put_long_files(&out);
        log_to(ignore_problem, &problems);
        fault_begin(NULL, n, EIO);
        ASSERT_OK(log_compact(p.dir, false, &can_punch, &err));
        has_struck = fault_end();
        ASSERT(problems <= 1);
        if (has_struck && problems == 0 && can_punch)
            unsaid++;
        ASSERT(problems == 1 || is_short());
        ASSERT(!has_struck || problems == 1 || n < 3 || is_short());
        query.cursor[0] = MIB + MIB / 4 - 32;
        ASSERT_READ(query, "fifteen letters\nfifteen letters\n");
        compact(&p);
        ASSERT(is_short());
        ASSERT_READ(query, "fifteen letters\nfifteen letters\n");
        ASSERT(!scene_exists("p/log/stdout.new"));
        log_to(NULL, NULL);
        close(p.dir);
        ASSERT(unlink("p/history") == 0);
        remove_process();
    }
    printf("# %d failures were not said, and all was done\n", unsaid);
}

TEST(a_compaction_syncs_the_new_log_and_its_record)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    bool can_punch;
    put_long_files(&out);
    fault_begin("fdatasync", 0, 0);
    ASSERT_OK(log_compact(p.dir, false, &can_punch, &err));
    fault_end();
    ASSERT_INT(fault.made, 2);
    close(p.dir);
}
