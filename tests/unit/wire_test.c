#include "graph/wire.h"
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

static void put_example(struct buf *b)
{
    static char sh[] = "sh", option[] = "-c", text[] = "make deploy";
    static char *argv[] = {sh, option, text, NULL};
    struct wire_spec spec = {.run = "RUN-1",
                             .session = "RUN-1_left",
                             .task = "deploy",
                             .chain = "nightly.yaml",
                             .attempt = 3,
                             .argv = argv,
                             .argc = 3,
                             .env = "A=1\0B=",
                             .env_count = 2,
                             .timeout_ms = 5000,
                             .grace_ms = 3000,
                             .channel = 7,
                             .values = "RUN-1",
                             .answer = "{\"yes\":true}"};
    wire_put_spec(b, &spec);
}

TEST(a_specification_arrives_as_it_was_sent)
{
    struct buf sent CLEANUP(buf_clear) = BUF_INIT, env CLEANUP(buf_clear) = BUF_INIT;
    struct wire_spec got;
    put_example(&sent);
    ASSERT_INT(wire_read_spec((struct parcel){sent.data, sent.len}, &env, &got), 0);
    ASSERT_STR(got.run, "RUN-1");
    ASSERT_STR(got.session, "RUN-1_left");
    ASSERT_STR(got.task, "deploy");
    ASSERT_STR(got.chain, "nightly.yaml");
    ASSERT_INT(got.attempt, 3);
    ASSERT_INT(got.argc, 3);
    ASSERT_STR(got.argv[2], "make deploy");
    ASSERT(!got.argv[3] && !got.cwd && !got.files);
    ASSERT_INT(got.env_count, 2);
    ASSERT(memcmp(got.env, "A=1\0B=", 7) == 0);
    ASSERT_INT(got.timeout_ms, 5000);
    ASSERT_INT(got.grace_ms, 3000);
    ASSERT_INT(got.channel, 7);
    ASSERT_STR(got.values, "RUN-1");
    ASSERT_STR(got.answer, "{\"yes\":true}");
    free(got.argv);
}

TEST(a_specification_that_is_cut_off_anywhere_is_malformed)
{
    struct buf sent CLEANUP(buf_clear) = BUF_INIT, env CLEANUP(buf_clear) = BUF_INIT;
    struct wire_spec got;
    put_example(&sent);
    for (size_t len = 0; len < sent.len; len++) {
        ASSERT_INT(wire_read_spec((struct parcel){sent.data, len}, &env, &got), -1);
        ASSERT(!got.argv);
    }
}

TEST(a_specification_of_another_version_is_left_to_others)
{
    struct buf sent CLEANUP(buf_clear) = BUF_INIT, env CLEANUP(buf_clear) = BUF_INIT;
    struct wire_spec got;
    static const struct {
        int64_t version;
        int want;
    } cases[] = {{WIRE_VERSION + 1, 1}, {1, 1}, {WIRE_VERSIONS - 1, 1}, {WIRE_VERSIONS, -1}, {0, -1}, {-1, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buf_reset(&sent);
        parcel_put_int(&sent, cases[i].version);
        ASSERT_INT(wire_read_spec((struct parcel){sent.data, sent.len}, &env, &got), cases[i].want);
    }
}

TEST(a_result_arrives_as_it_was_sent_with_any_bytes)
{
    struct buf sent CLEANUP(buf_clear) = BUF_INIT;
    struct wire_result got, result = {.end = WIRE_KILLED,
                                      .status = 9,
                                      .has_timed_out = true,
                                      .ms = 1234,
                                      .output = "a\0b",
                                      .output_len = 3,
                                      .is_output_too_large = true};
    wire_put_result(&sent, &result);
    ASSERT_INT(wire_read_result((struct parcel){sent.data, sent.len}, &got), 0);
    ASSERT_INT(got.end, WIRE_KILLED);
    ASSERT_INT(got.status, 9);
    ASSERT(got.has_timed_out && got.is_output_too_large);
    ASSERT_INT(got.ms, 1234);
    ASSERT_INT(got.output_len, 3);
    ASSERT(memcmp(got.output, "a\0b", 3) == 0);
}

TEST(a_frame_is_taken_when_it_is_complete_and_bytes_that_are_none_are_refused)
{
    struct buf stream CLEANUP(buf_clear) = BUF_INIT;
    struct parcel got;
    size_t at = 0, began = frame_begin(&stream);
    parcel_puts(&stream, "end");
    frame_end(&stream, began);
    size_t whole = stream.len;
    for (stream.len = 0; stream.len < whole; stream.len++)
        ASSERT_INT(frame_take(&stream, &at, &got), 0);
    ASSERT_INT(frame_take(&stream, &at, &got), 1);
    ASSERT_INT(at, whole);
    ASSERT_STR(parcel_text(&got), "end");
    ASSERT_INT(frame_take(&stream, &at, &got), 0);
    buf_put(&stream, "GET / HTTP/1.1\r\n", 16);
    ASSERT_INT(frame_take(&stream, &at, &got), -1);
}
