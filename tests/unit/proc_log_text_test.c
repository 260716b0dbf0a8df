#include "harness/test.h"
#include "proc/log_text.h"

#define STRIPPED(text, expected)                                                                                       \
    do {                                                                                                               \
        struct buf b_ CLEANUP(buf_clear) = BUF_INIT;                                                                   \
        log_text_strip(&b_, text, sizeof text - 1);                                                                    \
        ASSERT_STR(buf_str(&b_), expected);                                                                            \
    } while (0)
#define SHOWN(text, has_colour, expected)                                                                              \
    do {                                                                                                               \
        struct buf b_ CLEANUP(buf_clear) = BUF_INIT;                                                                   \
        log_text_for_terminal(&b_, text, sizeof text - 1, has_colour);                                                 \
        ASSERT_STR(buf_str(&b_), expected);                                                                            \
    } while (0)

TEST(escape_sequences_are_removed_and_nothing_else)
{
    STRIPPED("plain\ttext\r", "plain\ttext\r");
    STRIPPED("\033[1;31mred\033[0m", "red");
    STRIPPED("\033]0;a title\007after", "after");
    STRIPPED("\033]8;;http://x\033\\link\033]8;;\033\\", "link");
    STRIPPED("\033(Bset\033=key\033[?25lcursor\033[2 qshape", "setkeycursorshape");
    STRIPPED("\033Pdevice control\033\\x", "x");
    STRIPPED("cut\033", "cut");
    STRIPPED("cut\033[31", "cut");
    STRIPPED("\033]never ends", "");
    STRIPPED("\033[1\001m", "\001m");
}

TEST(a_terminal_gets_colours_that_end_with_their_line)
{
    SHOWN("\033[31mred\nplain\n", true, "\033[31mred\033[0m\nplain\n");
    SHOWN("\033[38:2::1:2:3mx\033[m\n", true, "\033[38:2::1:2:3mx\033[m\033[0m\n");
    SHOWN("\033[31mred\n", false, "red\n");
}

TEST(a_terminal_gets_nothing_that_moves_its_cursor_or_asks_it)
{
    SHOWN("\033[2J\033[H\033[6n\033[5;5Hx\033]0;title\007\033c\n", true, "x\n");
    SHOWN("\033[>4;1m\033[?1mx\n", true, "x\n");
    SHOWN("bell\007 back\b\n", true, "bell\\x07 back\\x08\n");
    SHOWN("\xc2\x9b"
          "31m\n",
          true, "\\x9b31m\n");
    SHOWN("\xe2\x80\xaeoverride\n", true, "\\u{202e}override\n");
    SHOWN("\xff\xfe\n", true, "\\xff\\xfe\n");
    SHOWN("a\0b\n", true, "a\\x00b\n");
}

TEST(on_a_terminal_a_carriage_return_does_not_hide_what_was_before_it)
{
    SHOWN("10%\r20%\r\n", true, "10%\n20%\n");
    SHOWN("10%\r\033[K20%\r\033[K30%\n", true, "10%\n20%\n30%\n");
}

TEST(binary_text_becomes_valid_json)
{
    static const char binary[] = "a\0\xff\xe8\xa5\xb7";
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    json_t *text CLEANUP_JSON = log_text_json(binary, sizeof binary - 1);
    json_write(&b, text, false);
    ASSERT_STR(buf_str(&b), "\"a\\u0000\xef\xbf\xbd\xe8\xa5\xb7\"");
}
