#include "faulty.h"
#include "unit/log_scene.h"

#include <stdlib.h>

static struct tsk_error err;
static size_t bytes_read;

static ssize_t counting_pread(int fd, void *data, size_t len, off_t offset)
{
    ssize_t n = pread(fd, data, len, offset);
    bytes_read += n > 0 ? (size_t)n : 0;
    return n;
}

/* From here on it is counted what is read. */
static void count_reads(void)
{
    static struct fs_calls counting;
    counting = fs_system_calls;
    counting.pread = counting_pread;
    fs = &counting;
    bytes_read = 0;
}

static void put_history(const char *text)
{
    scene_write("p/history", text);
}

/* ---- lines, from the end and by cursor ---- */

TEST(the_last_lines_are_given_and_a_line_without_its_end_is_one)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put(&out, "one\n\nthree\nfour");
    ASSERT_READ(query, "one\n\nthree\nfour…");
    query.lines = 2;
    ASSERT_READ(query, "three\nfour…");
    query.lines = 0;
    ASSERT_READ(query, "");
    query.lines = 99;
    ASSERT_READ(query, "one\n\nthree\nfour…");
    query.whole_lines = true;
    query.lines = 1;
    ASSERT_READ(query, "three\n");
    close(p.dir);
}

TEST(a_process_that_wrote_nothing_or_was_never_started_has_an_empty_log)
{
    struct proc p = scene_process("");
    ASSERT_READ(scene_query(LOG_BOTH), "");
    close(p.dir);
    p.dir = -1;
    int64_t next[2] = {-1, -1}, oldest, end;
    struct log_query query = scene_query(LOG_BOTH);
    ASSERT_OK(log_read(&p, &query, scene_take, NULL, next, &err));
    ASSERT(next[0] == 0 && next[1] == 0);
    ASSERT_OK(log_extent(&p, LOG_STDOUT, &oldest, &end, &err));
    ASSERT(oldest == 0 && end == 0);
}

TEST(the_end_of_a_log_of_ten_gigabytes_costs_nothing)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    int fd = scene_log_open(&out, 0);
    char block[64 << 10];
    for (size_t i = 0; i < sizeof block; i += 16)
        memcpy(block + i, "fifteen letters\n", 16);
    off_t at = (off_t)10 << 30; /* data in front as well: it is no hole that makes it cheap */
    ASSERT(pwrite(fd, "front\n", 6, 0) == 6);
    for (int i = 0; i < 16; i++)
        ASSERT(pwrite(fd, block, sizeof block, at + (off_t)(i * sizeof block)) == sizeof block);
    close(fd);
    struct log_query query = scene_query(LOG_STDOUT);
    query.lines = 2;
    count_reads();
    ASSERT_READ(query, "fifteen letters\nfifteen letters\n");
    ASSERT(bytes_read < (512 << 10));
    close(p.dir);
}

TEST(a_cursor_goes_on_where_the_read_before_ended)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    scene_put(&out, "one\ntwo\n");
    scene_read(&p, &query, &b);
    ASSERT_INT(query.cursor[0], 8);
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "");
    scene_put(&out, "thr");
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "thr…");
    scene_put(&out, "ee\n");
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "ee\n");
    query.whole_lines = true;
    scene_put(&out, "fo");
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "");
    scene_put(&out, "ur\n");
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "four\n");
    close(p.dir);
}

TEST(a_line_that_a_tail_leaves_for_the_next_read_is_not_passed_over)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    scene_put(&out, "fine\nhalf ");
    for (int64_t lines = 0; lines < 2; lines++) {
        struct log_query query = scene_query(LOG_STDOUT);
        query.lines = lines;
        query.whole_lines = true;
        query.grep = "^half";
        scene_read(&p, &query, &b);
        ASSERT_STR(buf_str(&b), "");
        ASSERT_INT(query.cursor[0], 5);
    }
    close(p.dir);
}

TEST(a_stream_that_was_not_read_keeps_its_cursor_or_gets_its_end)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"}, errors = {.name = "stderr"};
    struct log_query query = scene_query(LOG_STDOUT);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    scene_put(&out, "one\n");
    scene_put(&errors, "bad\n");
    scene_read(&p, &query, &b);
    ASSERT(query.cursor[0] == 4 && query.cursor[1] == 4);
    query.cursor[1] = 2;
    scene_read(&p, &query, &b);
    ASSERT(query.cursor[0] == 4 && query.cursor[1] == 2);
    close(p.dir);
}

static bool stop_at_two(void *data, const struct log_line *line)
{
    (void)line;
    return ++*(int *)data < 2;
}

TEST(who_stops_after_a_line_goes_on_behind_it)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"}, errors = {.name = "stderr"};
    struct log_query query = scene_query(LOG_BOTH);
    int count = 0;
    scene_put_at(&out, "one\ntwo\n", TIME_0);
    scene_put_at(&errors, "bad\n", TIME_0 + 1);
    ASSERT_OK(log_read(&p, &query, stop_at_two, &count, query.cursor, &err));
    ASSERT(count == 2 && query.cursor[0] == 8 && query.cursor[1] == 0);
    ASSERT_READ(query, "err:bad\n");
    close(p.dir);
}

TEST(the_newest_bytes_are_kept_of_a_tail_and_the_oldest_from_a_cursor)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put(&out, "one\ntwo\nthree\n");
    query.max_bytes = 8;
    ASSERT_READ(query, "two\nthree\n");
    query.lines = 1;
    ASSERT_READ(query, "three\n");
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    query.lines = -1;
    query.cursor[0] = 0;
    query.max_bytes = 6;
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "one\ntwo\n");
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "three\n");
    close(p.dir);
}

/* ---- long lines ---- */

static void put_long_line(const struct scene_log *log, size_t len)
{
    char *text = malloc(len + 1);
    ASSERT(text);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + i % 26);
    text[len] = '\n';
    scene_put_bytes(log, text, len + 1);
    free(text);
}

struct pieces {
    size_t count, bytes, longest;
    bool is_in_order, ended;
};

static bool take_piece(void *data, const struct log_line *line)
{
    struct pieces *pieces = data;
    pieces->is_in_order = pieces->is_in_order && (!line->len || line->text[0] == (char)('a' + pieces->bytes % 26));
    pieces->count++;
    pieces->bytes += line->len;
    pieces->longest = line->len > pieces->longest ? line->len : pieces->longest;
    pieces->ended = !line->is_partial;
    return true;
}

TEST(a_line_of_a_hundred_megabytes_comes_in_pieces)
{
    enum { LENGTH = 100 << 20 };
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct pieces pieces = {.is_in_order = true};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put(&out, "before\n");
    put_long_line(&out, LENGTH);
    query.lines = 1;
    ASSERT_OK(log_read(&p, &query, take_piece, &pieces, query.cursor, &err));
    ASSERT(pieces.is_in_order && pieces.ended);
    ASSERT_INT(pieces.bytes, LENGTH);
    ASSERT(pieces.longest <= LOG_PIECE_MAX && pieces.count >= LENGTH / LOG_PIECE_MAX);
    close(p.dir);
}

TEST(a_bounded_answer_does_not_look_for_the_beginning_of_an_endless_line)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct pieces pieces = {0};
    struct log_query query = scene_query(LOG_STDOUT);
    put_long_line(&out, 20 << 20);
    query.lines = 1;
    query.max_bytes = 256 << 10;
    count_reads();
    ASSERT_OK(log_read(&p, &query, take_piece, &pieces, query.cursor, &err));
    ASSERT(pieces.ended && pieces.bytes <= query.max_bytes && pieces.bytes > query.max_bytes - 2 * LOG_PIECE_MAX);
    ASSERT(bytes_read < (2 << 20));
    close(p.dir);
}

static bool is_whole_utf8(void *data, const struct log_line *line)
{
    *(bool *)data = *(bool *)data && line->len % 3 == 0;
    return true;
}

TEST(a_piece_does_not_end_inside_a_character)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    bool is_whole = true;
    int64_t next[2];
    struct log_query query = scene_query(LOG_STDOUT);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    for (int i = 0; i < 60000; i++)
        buf_puts(&b, "襷");
    scene_put(&out, buf_str(&b));
    ASSERT_OK(log_read(&p, &query, is_whole_utf8, &is_whole, next, &err));
    ASSERT(is_whole);
    close(p.dir);
}

/* ---- cursors over what happens to the file ---- */

TEST(after_old_bytes_were_dropped_reading_begins_with_a_whole_line)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    int64_t oldest, end;
    for (int i = 0; i < 1024; i++)
        scene_put(&out, "seven!\n");
    scene_put(&out, "the end\n");
    scene_drop(&out, 4096);
    ASSERT_OK(log_extent(&p, LOG_STDOUT, &oldest, &end, &err));
    ASSERT(oldest == 4096 && end == 7 * 1024 + 8);
    struct pieces pieces = {0};
    ASSERT_OK(log_read(&p, &query, take_piece, &pieces, query.cursor, &err));
    ASSERT_INT(pieces.count, (7 * 1024 - 4102) / 7 + 1); /* the line at 4095 was cut, 4102 is the next */
    query.cursor[0] = 5;                                 /* dropped meanwhile */
    struct pieces again = {0};
    ASSERT_OK(log_read(&p, &query, take_piece, &again, query.cursor, &err));
    ASSERT_INT(again.count, pieces.count);
    query = scene_query(LOG_STDOUT);
    query.cursor[0] = 4096; /* a place to continue, although what was before it is gone */
    struct pieces rest = {0};
    ASSERT_OK(log_read(&p, &query, take_piece, &rest, query.cursor, &err));
    ASSERT_INT(rest.count, pieces.count + 1);
    close(p.dir);
}

static int dropping_fd = -1;

/* The holder drops the first blocks between our look at the file and our read. */
static ssize_t dropping_pread(int fd, void *data, size_t len, off_t offset)
{
    struct stat st;
    if (dropping_fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 8192) {
        if (fallocate(dropping_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192) < 0)
            test_skip("no holes can be punched here");
        close(dropping_fd);
        dropping_fd = -1;
    }
    return pread(fd, data, len, offset);
}

TEST(bytes_that_are_dropped_while_they_are_read_are_not_shown_as_zeros)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    static struct fs_calls dropping;
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    for (int i = 0; i < 1180; i++)
        buf_puts(&text, "seven!\n");
    scene_put(&out, buf_str(&text)); /* 8260 bytes: 8192 is inside a line, 8197 begins the next */
    dropping_fd = scene_log_open(&out, 0);
    dropping = fs_system_calls;
    dropping.pread = dropping_pread;
    fs = &dropping;
    ASSERT_READ(scene_query(LOG_STDOUT), "seven!\nseven!\nseven!\nseven!\nseven!\nseven!\nseven!\nseven!\nseven!\n");
    close(p.dir);
}

TEST(a_hole_of_gigabytes_that_the_process_made_itself_is_passed_over)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put(&out, "one\ntw");
    ASSERT_INT(truncate("p/log/stdout.log", (off_t)8 << 30), 0);
    scene_put(&out, "o\nthree\n");
    count_reads();
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    scene_read(&p, &query, &b);
    /* the rest of the block in which "tw" stands is there, as zeros; the line goes no further */
    ASSERT(b.len < 100000 && memcmp(b.data, "one\ntw\0", 7) == 0);
    ASSERT_STR(b.data + b.len - strlen("…three\n"), "…three\n");
    query = scene_query(LOG_STDOUT);
    query.lines = 1;
    ASSERT_READ(query, "three\n");
    ASSERT(bytes_read < (4 << 20));
    close(p.dir);
}

TEST(a_log_that_its_process_cut_goes_on_for_its_readers)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    scene_put_at(&out, "one\ntwo\n", TIME_0);
    scene_read(&p, &query, &b);
    ASSERT_INT(truncate("p/log/stdout.log", 0), 0);
    scene_put(&out, "new\n");
    struct log_query early = query;
    scene_read(&p, &early, &b); /* before the holder has noticed */
    ASSERT_STR(buf_str(&b), "new\n");
    scene_look(&out, TIME_0 + 1000);
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "new\n");
    ASSERT(query.cursor[0] == early.cursor[0] && query.cursor[0] == 12);
    scene_put(&out, "more\n");
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "more\n");
    close(p.dir);
}

TEST(who_read_more_than_the_holder_has_seen_misses_nothing_after_a_cut)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    struct log_seen seen[2] = {0};
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    query.seen = seen;
    scene_put_at(&out, "a long first line\n", TIME_0);
    scene_put(&out, "two\n");
    scene_read(&p, &query, &b);
    ASSERT_INT(truncate("p/log/stdout.log", 0), 0);
    scene_put(&out, "three\n");
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "three\n");
    scene_look(&out, TIME_0 + 1000);
    scene_put(&out, "four\n");
    scene_read(&p, &query, &b);
    ASSERT_STR(buf_str(&b), "four\n");
    close(p.dir);
}

TEST(a_cursor_from_a_log_that_is_shorter_now_starts_anew)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put(&out, "one\n");
    query.cursor[0] = 1000;
    ASSERT_READ(query, "one\n");
    close(p.dir);
}

/* ---- times ---- */

TEST(lines_between_two_looks_have_the_time_of_the_later_one)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put_at(&out, "a\nb\n", TIME_0);
    scene_put_at(&out, "c\nd", TIME_0 + 1000);
    scene_put_at(&out, "d\ne\n", TIME_0 + 2000);
    query.since_ms = TIME_0;
    ASSERT_READ(query, "a\nb\nc\ndd\ne\n");
    query.since_ms = TIME_0 + 1;
    ASSERT_READ(query, "c\ndd\ne\n");
    query.since_ms = TIME_0 + 1001;
    ASSERT_READ(query, "dd\ne\n");
    query.since_ms = -1;
    query.until_ms = TIME_0 + 1000;
    ASSERT_READ(query, "a\nb\nc\n");
    query.until_ms = TIME_0 - 1;
    ASSERT_READ(query, "");
    query.since_ms = TIME_0 + 500;
    query.until_ms = TIME_0 + 1500;
    ASSERT_READ(query, "c\n");
    query.until_ms = -1;
    query.since_ms = TIME_0 + 500;
    query.lines = 1;
    ASSERT_READ(query, "e\n");
    close(p.dir);
}

TEST(what_no_look_has_seen_yet_has_the_time_of_the_last_write)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put_at(&out, "old\n", TIME_0);
    scene_put(&out, "new\n");
    const struct timespec times[2] = {{.tv_sec = TIME_0 / 1000 + 5}, {.tv_sec = TIME_0 / 1000 + 5}};
    ASSERT_INT(utimensat(AT_FDCWD, "p/log/stdout.log", times, 0), 0);
    query.since_ms = TIME_0 + 5000;
    ASSERT_READ(query, "new\n");
    query.since_ms = TIME_0 + 5001;
    ASSERT_READ(query, "");
    query.since_ms = -1;
    query.until_ms = TIME_0 + 4999;
    ASSERT_READ(query, "old\n");
    close(p.dir);
}

TEST(both_streams_are_merged_by_time_with_stdout_first)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"}, errors = {.name = "stderr"};
    struct log_query query = scene_query(LOG_BOTH);
    scene_put_at(&errors, "e1\n", TIME_0);
    scene_put_at(&out, "o1\no2\n", TIME_0 + 1000);
    scene_put_at(&errors, "e2\n", TIME_0 + 1000);
    scene_put_at(&errors, "e3\n", TIME_0 + 2000);
    scene_put_at(&out, "o3\n", TIME_0 + 3000);
    ASSERT_READ(query, "err:e1\nout:o1\nout:o2\nerr:e2\nerr:e3\nout:o3\n");
    query.lines = 3;
    ASSERT_READ(query, "err:e2\nerr:e3\nout:o3\n");
    query.lines = -1;
    query.max_bytes = 5;
    ASSERT_READ(query, "err:e3\nout:o3\n");
    close(p.dir);
}

/* ---- patterns ---- */

TEST(a_pattern_chooses_lines_and_the_last_n_are_those_that_match)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    for (int i = 0; i < 40000; i++)
        scene_put(&out, i == 7 || i == 20000 ? "error here\r\n" : "fine\n");
    query.grep = "^err.*e$";
    ASSERT_READ(query, "error here\r\nerror here\r\n");
    query.lines = 1;
    ASSERT_READ(query, "error here\r\n");
    query.grep = "nothing like it";
    ASSERT_READ(query, "");
    close(p.dir);
}

TEST(a_pattern_sees_binary_lines_and_looks_through_colours)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    static const char lines[] = "a\0b\xff needle\n\033[31mred\033[0m needle\nother\n";
    scene_put_bytes(&out, lines, sizeof lines - 1);
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    query.grep = "needle";
    scene_read(&p, &query, &b);
    ASSERT_INT(b.len, sizeof lines - 1 - 6);
    query = scene_query(LOG_STDOUT);
    query.grep = "^red ";
    ASSERT_READ(query, "\033[31mred\033[0m needle\n");
    query.strip_ansi = true;
    ASSERT_READ(query, "red needle\n");
    close(p.dir);
}

TEST(a_pattern_is_found_where_a_long_line_is_cut)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    struct pieces pieces = {0};
    put_long_line(&out, LOG_PIECE_MAX - 3);
    char text[3 * LOG_PIECE_MAX];
    memset(text, '.', sizeof text);
    memcpy(text + LOG_PIECE_MAX - 3, "needle", 6);
    text[sizeof text - 1] = '\n';
    scene_put_bytes(&out, text, sizeof text);
    query.grep = "needle";
    ASSERT_OK(log_read(&p, &query, take_piece, &pieces, query.cursor, &err));
    ASSERT_INT(pieces.bytes, sizeof text - 1);
    memset(text, '.', sizeof text - 1);
    memcpy(text + LOG_PIECE_MAX - (4 << 10), "anchor", 6); /* where windows begin and end, a line does not */
    memcpy(text + LOG_PIECE_MAX - 6, "anchor", 6);
    scene_put_bytes(&out, text, sizeof text);
    query = scene_query(LOG_STDOUT);
    query.grep = "^anchor|anchor$";
    ASSERT_READ(query, "");
    close(p.dir);
}

TEST(a_pattern_that_is_none_is_refused_before_anything_is_read)
{
    struct proc p = {.dir = -1};
    struct log_query query = scene_query(LOG_STDOUT);
    int64_t next[2];
    static const char *const bad[] = {"(", "[", "a{2,1}", "(((x{99}){99}){99})", "x{32000}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        query.grep = bad[i];
        ASSERT_CODE(log_read(&p, &query, scene_take, NULL, next, &err), TSK_INVALID_INPUT);
    }
}

/* ---- mode stamped ---- */

TEST(stamped_lines_are_parted_by_stream_and_have_their_own_time)
{
    struct proc p = scene_process("stamped");
    struct scene_log both = {.name = "output"};
    scene_put_at(&both,
                 "2026-02-07T13:30:00.100Z out a\n2026-02-07T13:30:00.200Z err b\n2026-02-07T13:30:00.300Z out c\n"
                 "2026-02-07T13:30:00.400Z out \n",
                 TIME_0 + 1000);
    ASSERT_READ(scene_query(LOG_BOTH), "out:a\nerr:b\nout:c\nout:\n");
    ASSERT_READ(scene_query(LOG_STDERR), "b\n");
    struct log_query query = scene_query(LOG_STDOUT);
    query.lines = 2;
    ASSERT_READ(query, "c\n\n");
    int64_t first;
    ASSERT_INT(time_parse("2026-02-07T13:30:00.200Z", &first), 0);
    query = scene_query(LOG_BOTH);
    query.since_ms = first;
    query.until_ms = first + 100;
    ASSERT_READ(query, "err:b\nout:c\n");
    close(p.dir);
}

TEST(a_cursor_inside_a_stamped_line_remembers_whose_it_is)
{
    struct proc p = scene_process("stamped");
    struct scene_log both = {.name = "output"};
    struct log_query query = scene_query(LOG_BOTH), only_out = scene_query(LOG_STDOUT);
    char text[256];
    struct buf b;
    buf_init_fixed(&b, text, sizeof text);
    scene_put(&both, "2026-02-07T13:30:00.100Z err Pass");
    scene_read(&p, &query, &b);
    ASSERT_STR(text, "err:Pass…");
    scene_read(&p, &only_out, &b);
    ASSERT_STR(text, "");
    scene_put(&both, "word: \n2026-02-07T13:30:00.100Z out x\n2026-02-07T13:3");
    scene_read(&p, &query, &b);
    ASSERT_STR(text, "err:word: \nout:x\n");
    scene_put(&both, "0:00.100Z err y\n");
    scene_read(&p, &query, &b);
    ASSERT_STR(text, "err:y\n");
    ASSERT_INT(query.cursor[0], query.cursor[1]);
    scene_read(&p, &only_out, &b);
    ASSERT_STR(text, "out:x\n");
    close(p.dir);
}

TEST(a_line_without_a_stamp_belongs_to_the_one_before_it)
{
    struct proc p = scene_process("stamped");
    struct scene_log both = {.name = "output"};
    scene_put(&both, "2026-02-07T13:30:00.100Z err one\nno stamp here, although it is long enough to have one\n");
    ASSERT_READ(scene_query(LOG_STDERR), "one\nno stamp here, although it is long enough to have one\n");
    close(p.dir);
}

/* ---- starts ---- */

TEST(the_output_of_a_start_is_found_by_its_number)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"}, errors = {.name = "stderr"};
    struct log_query query = scene_query(LOG_STDOUT);
    put_history("{\"base\":0}\n"
                "{\"time\":1,\"what\":\"started\",\"n\":1,\"pid\":7,\"stdout_offset\":0,\"stderr_offset\":0}\n"
                "{\"time\":2,\"what\":\"exited\",\"n\":1,\"status\":0,\"by\":\"itself\"}\n"
                "{\"time\":3,\"what\":\"started\",\"n\":2,\"pid\":8,\"stdout_offset\":6,\"stderr_offset\":2}\n"
                "{\"time\":3,\"what\":\"started\",\"n\":3,\"pid\":8,\"stdout_offset\":10,\"stderr_offset\":2}\n");
    p.view.n = 3;
    p.view.stdout_offset = 10;
    p.view.stderr_offset = 2;
    scene_put_at(&out, "first\nnd 2\n3\n", TIME_0);
    scene_put_at(&errors, "e\nf\n", TIME_0);
    query.run = 1;
    ASSERT_READ(query, "first\n");
    query.run = 2;
    ASSERT_READ(query, "nd 2…");
    query.run = 3;
    ASSERT_READ(query, "\n3\n");
    query.run = -1;
    ASSERT_READ(query, "\n3\n");
    query.stream = LOG_STDERR;
    ASSERT_READ(query, "f\n");
    query.run = 4;
    int64_t next[2];
    ASSERT_CODE(log_read(&p, &query, scene_take, NULL, next, &err), TSK_INVALID_INPUT);
    close(p.dir);
}

/* ---- index ---- */

TEST(an_index_whose_front_was_dropped_still_knows_the_times_of_the_rest)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    char line[32];
    for (int i = 0; i < 400; i++) {
        snprintf(line, sizeof line, "%03d\n", i);
        scene_put_at(&out, line, TIME_0 + i * 1000);
    }
    int fd = open("p/stdout.idx", O_RDWR | O_CLOEXEC);
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192) < 0)
        test_skip("no holes can be punched here");
    close(fd);
    query.since_ms = TIME_0 + 397500;
    ASSERT_READ(query, "398\n399\n");
    query.since_ms = -1;
    query.until_ms = TIME_0 + 260000;
    query.lines = 2;
    ASSERT_READ(query, "259\n260\n");
    close(p.dir);
}

TEST(nonsense_in_the_index_does_not_keep_anybody_from_reading)
{
    struct proc p = scene_process("direct");
    struct scene_log out = {.name = "stdout"};
    struct log_query query = scene_query(LOG_STDOUT);
    scene_put_at(&out, "one\n", TIME_0);
    struct stat st;
    ASSERT_INT(stat("p/log/stdout.log", &st), 0);
    struct hold_index bad[] = {{INT64_MAX, INT64_MAX, 0, 5},         {1, -1, -5, 1},      {0}, {1, 2, 3, 4},
                               {TIME_0, INT64_MAX, 1000, st.st_ino}, {1, 5, 7, st.st_ino}};
    int fd = open("p/stdout.idx", O_WRONLY | O_APPEND | O_CLOEXEC);
    ASSERT_INT(fs_write_all(fd, bad, sizeof bad), 0);
    ASSERT_INT(fs_write_all(fd, "torn", 4), 0);
    close(fd);
    ASSERT_READ(query, "one\n");
    query.since_ms = TIME_0;
    ASSERT_READ(query, "one\n");
    int64_t oldest, end;
    ASSERT_OK(log_extent(&p, LOG_STDOUT, &oldest, &end, &err));
    ASSERT(oldest == 0 && end == 4);
    close(p.dir);
}

/* ---- calls that fail ---- */

/* A process with two starts, both streams, an index, and a line that is longer than a piece. */
static struct proc faulty_process(const char *mode)
{
    struct proc p = scene_process(mode);
    struct scene_log out = {.name = "stdout"}, errors = {.name = "stderr"}, both = {.name = "output"};
    char *text = malloc(3 * LOG_PIECE_MAX);
    ASSERT(text);
    memset(text, 'x', 3 * LOG_PIECE_MAX);
    memcpy(text + 2 * LOG_PIECE_MAX, "needle", 6);
    text[3 * LOG_PIECE_MAX - 1] = '\n';
    scene_put_at(&out, "one\ntwo\n", TIME_0);
    scene_put_at(&errors, "bad\n", TIME_0 + 1000);
    scene_put_bytes(&out, text, 3 * LOG_PIECE_MAX);
    scene_look(&out, TIME_0 + 2000);
    scene_put_at(&out, "last\n", TIME_0 + 3000);
    scene_put_at(&both, "2026-02-07T13:30:00.000Z out one\n2026-02-07T13:30:01.000Z err two\n", TIME_0 + 1000);
    free(text);
    put_history("{\"base\":0}\n{\"what\":\"started\",\"n\":1,\"stdout_offset\":0,\"stderr_offset\":0}\n"
                "{\"what\":\"started\",\"n\":2,\"stdout_offset\":8,\"stderr_offset\":4}\n");
    p.view.n = 2;
    p.view.stdout_offset = 8;
    p.view.stderr_offset = 4;
    return p;
}

static bool take_digest(void *data, const struct log_line *line)
{
    struct buf *b = data;
    buf_printf(b, "%d %lld %zu %.8s%s\n", line->stream, (long long)line->offset, line->len, line->len ? line->text : "",
               line->is_partial ? " ..." : "");
    return true;
}

/* Lets each call of a query fail in turn: it says so, or its answer is the same as ever. */
static void query_with_faults(const struct proc *p, const struct log_query *query, bool uses_times)
{
    struct buf whole CLEANUP(buf_clear) = BUF_INIT, found CLEANUP(buf_clear) = BUF_INIT;
    int64_t next[2] = {-1, -1}, again[2];
    int reported = 0;
    ASSERT_OK(log_read(p, query, take_digest, &whole, next, &err));
    bool has_struck = true;
    for (long n = 1; has_struck; n++) {
        buf_reset(&found);
        again[0] = again[1] = -1;
        err = (struct tsk_error){.code = TSK_OK};
        fault_begin(NULL, n, EIO);
        int result = log_read(p, query, take_digest, &found, again, &err);
        has_struck = fault_end();
        if (result < 0) {
            reported++;
            ASSERT_INT(err.code, TSK_ENVIRONMENT);
            ASSERT_STR(tsk_error_context(&err, "reason"), "Input/output error");
        } else if (!uses_times || !has_struck) { /* times of an index that cannot be read are those of the file */
            ASSERT_STR(buf_str(&found), buf_str(&whole));
            ASSERT(again[0] == next[0] && again[1] == next[1]);
        }
    }
    ASSERT(reported >= 2);
}

TEST(whichever_call_of_a_query_fails_it_is_reported_or_the_answer_is_the_same)
{
    struct proc p = faulty_process("direct");
    struct log_query query = scene_query(LOG_BOTH);
    query_with_faults(&p, &query, false);
    query.lines = 2;
    query_with_faults(&p, &query, false);
    query = scene_query(LOG_STDOUT);
    query_with_faults(&p, &query, false);
    query.grep = "needle";
    query_with_faults(&p, &query, false);
    query.lines = 1;
    query_with_faults(&p, &query, false);
    query = scene_query(LOG_BOTH);
    query.run = 1;
    query_with_faults(&p, &query, false);
    query = scene_query(LOG_STDOUT);
    query.cursor[0] = 4;
    query_with_faults(&p, &query, false);
    query = scene_query(LOG_STDOUT);
    query.since_ms = TIME_0 + 1;
    query.until_ms = TIME_0 + 2500;
    query_with_faults(&p, &query, true);
    close(p.dir);
}

TEST(whichever_call_of_a_query_of_a_stamped_log_fails_it_is_reported_or_the_answer_is_the_same)
{
    struct proc p = faulty_process("stamped");
    struct log_query query = scene_query(LOG_BOTH);
    query_with_faults(&p, &query, false);
    query = scene_query(LOG_STDERR);
    query.lines = 1;
    query_with_faults(&p, &query, false);
    query.cursor[0] = query.cursor[1] = 35;
    query_with_faults(&p, &query, false);
    close(p.dir);
}
