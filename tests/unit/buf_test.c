#include "base/buf.h"
#include "harness/test.h"

#include <stdlib.h>

TEST(a_buffer_grows_and_ends_with_nul)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    ASSERT_STR(buf_str(&b), "");
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%03d,", i);
    ASSERT(!b.failed);
    ASSERT_INT(b.len, 4000);
    ASSERT_INT(b.data[4000], 0);
    ASSERT(strncmp(buf_str(&b) + 3996, "999,", 4) == 0);
}

TEST(a_buffer_fails_at_its_maximum_and_stays_failed)
{
    struct buf b CLEANUP(buf_clear) = {.max = 8};
    buf_puts(&b, "1234567");
    ASSERT(!b.failed);
    buf_puts(&b, "8");
    ASSERT(b.failed);
    ASSERT_STR(buf_str(&b), "1234567");
    ASSERT(!buf_take(&b));
}

TEST(a_fixed_buffer_never_allocates)
{
    char storage[8];
    struct buf b;
    buf_init_fixed(&b, storage, sizeof storage);
    buf_puts(&b, "1234567");
    ASSERT(!b.failed && b.data == storage);
    buf_puts(&b, "8");
    ASSERT(b.failed);
    buf_reset(&b);
    buf_puts(&b, "ok");
    ASSERT(!b.failed);
    ASSERT_STR(storage, "ok");
}

TEST(the_content_can_be_taken)
{
    struct buf b = BUF_INIT;
    char *empty = buf_take(&b);
    ASSERT_STR(empty, "");
    free(empty);
    buf_puts(&b, "abc");
    char *text = buf_take(&b);
    ASSERT_STR(text, "abc");
    ASSERT_INT(b.len, 0);
    free(text);
}

TEST(json_strings_are_escaped_and_valid)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    buf_json_string(&b, "a\"\\\n\t\r\x01\x7f\xc3\xa9\xff");
    ASSERT_STR(buf_str(&b), "\"a\\\"\\\\\\n\\t\\r\\u0001\\u007f\xc3\xa9\xef\xbf\xbd\"");
    buf_reset(&b);
    buf_json_string(&b, NULL);
    ASSERT_STR(buf_str(&b), "null");
}

TEST(pairs_get_their_commas)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&b, "{");
    buf_json_pair(&b, "a", "x");
    buf_json_pair_int(&b, "b", -5);
    buf_json_key(&b, "c");
    buf_puts(&b, "{");
    buf_json_pair(&b, "d", NULL);
    buf_puts(&b, "}}");
    ASSERT_STR(buf_str(&b), "{\"a\":\"x\",\"b\":-5,\"c\":{\"d\":null}}");
}

TEST(room_that_is_not_used_leaves_the_text_as_it_was)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    ASSERT(buf_reserve(&b, 1000));
    ASSERT_STR(buf_str(&b), "");
    buf_puts(&b, "x");
    ASSERT(buf_reserve(&b, 100000));
    ASSERT_STR(buf_str(&b), "x");
}
