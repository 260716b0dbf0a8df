#include "base/buf.h"
#include "base/utf8.h"
#include "harness/test.h"

TEST(well_formed_sequences_are_known_by_their_length)
{
    ASSERT_INT(utf8_sequence("a", 1), 1);
    ASSERT_INT(utf8_sequence("\xc3\xa9", 2), 2);
    ASSERT_INT(utf8_sequence("\xe6\x97\xa5", 3), 3);
    ASSERT_INT(utf8_sequence("\xf0\x9f\x98\x80", 4), 4);
    ASSERT_INT(utf8_sequence("\xf4\x8f\xbf\xbf", 4), 4);
}

TEST(overlong_forms_surrogates_and_cut_sequences_are_not_valid)
{
    static const char *const bad[] = {
        "\xc0\x80",         "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\x80",     "\xff",         "\xc3",         "\xe6\x97",         "\xc3("};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ASSERT_INT(utf8_sequence(bad[i], strlen(bad[i])), 0);
        ASSERT(!utf8_is_valid(bad[i], strlen(bad[i])));
    }
    ASSERT(utf8_is_valid("", 0));
    ASSERT(utf8_is_valid("a\xc3\xa9", 3));
}

TEST(width_counts_terminal_columns)
{
    ASSERT_INT(utf8_width("abc"), 3);
    ASSERT_INT(utf8_width("\xe6\x97\xa5\xe6\x9c\xac"), 4);
    ASSERT_INT(utf8_width("e\xcc\x81"), 1);
    ASSERT_INT(utf8_width("\xff"), 1);
}

TEST(fit_counts_the_bytes_that_fit_into_columns)
{
    ASSERT_INT(utf8_fit("abc", 2), 2);
    ASSERT_INT(utf8_fit("abc", 3), 3);
    ASSERT_INT(utf8_fit("abc", 0), 0);
    ASSERT_INT(utf8_fit("\xe6\x97\xa5\xe6\x9c\xac", 3), 3);
    ASSERT_INT(utf8_fit("e\xcc\x81z", 1), 3);
    ASSERT_INT(utf8_fit("\xff\xff", 1), 1);
}

static void assert_visible(const char *s, bool lines, const char *expected)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    utf8_put_visible(&b, s, lines);
    ASSERT_STR(buf_str(&b), expected);
}

TEST(what_could_harm_a_terminal_is_shown_as_text)
{
    assert_visible("\x1b[31mred", false, "\\x1b[31mred");
    assert_visible("a\nb\tc", false, "a\\x0ab\\x09c");
    struct buf line CLEANUP(buf_clear) = BUF_INIT;
    utf8_put_line(&line, "a\nb\tc\033\xff");
    ASSERT_STR(buf_str(&line), "a⏎ b\\x09c\\x1b\\xff");
    assert_visible("a\nb\tc", true, "a\nb\tc");
    assert_visible("\xc2\x9b", true, "\\x9b");
    assert_visible("\xe2\x80\xae", false, "\\u{202e}");
    assert_visible("\xff", false, "\\xff");
    assert_visible("\xe6\x97\xa5", false, "\xe6\x97\xa5");
}

/* The first and the last of each range, and their neighbours, which have one column unless they begin another range. */
TEST(the_width_of_a_character_is_known_at_the_edges_of_each_range)
{
    static const struct {
        unsigned first, last;
        size_t width;
    } ranges[] = {
        {0x300, 0x36f, 0},   {0x200b, 0x200f, 0}, {0xfe00, 0xfe0f, 0}, {0x3099, 0x309a, 0},   {0x1100, 0x115f, 2},
        {0x2e80, 0x303e, 2}, {0x3041, 0x3098, 2}, {0x309b, 0xa4cf, 2}, {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},
        {0xfe30, 0xfe6f, 2}, {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2},
        {0xfff, 0xfff, 1},   {0x3040, 0x3040, 1}, {0xfdff, 0xfdff, 1}, {0x40000, 0x40000, 1},
    };
    size_t count = sizeof ranges / sizeof ranges[0];
    for (size_t i = 0; i < count; i++)
        for (int edge = 0; edge < 4; edge++) {
            unsigned c = edge < 2 ? ranges[i].first - (edge == 0) : ranges[i].last + (edge == 3);
            size_t width = 1;
            for (size_t j = 0; j < count; j++)
                if (c >= ranges[j].first && c <= ranges[j].last)
                    width = ranges[j].width;
            char text[5] = {0};
            if (c < 0x800)
                snprintf(text, sizeof text, "%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)));
            else if (c < 0x10000)
                snprintf(text, sizeof text, "%c%c%c", (char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3f)),
                         (char)(0x80 | (c & 0x3f)));
            else
                snprintf(text, sizeof text, "%c%c%c%c", (char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 0x3f)),
                         (char)(0x80 | (c >> 6 & 0x3f)), (char)(0x80 | (c & 0x3f)));
            if (utf8_width(text) != width)
                test_fail(__FILE__, __LINE__, "U+%X has %zu columns, expected %zu", c, utf8_width(text), width);
        }
}
