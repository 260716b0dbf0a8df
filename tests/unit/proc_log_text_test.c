#include "base/fs.h"
#include "base/json.h"
#include "proc/words.h"
#include "proc/worktree.h"
#include "unit/log_scene.h"

#include "harness/test.h"
#include "proc/log_text.h"
#include <limits.h>
#include <stdlib.h>

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

/* ---- the last words of a process ---- */

static void assert_last_words(struct proc *p, const char *name, const char *text, const char *expected)
{
    char path[64];
    snprintf(path, sizeof path, "p/log/%s.log", name);
    scene_write(path, text);
    json_t *found CLEANUP_JSON = log_last_stderr(p);
    const char *words = found ? json_string_value(found) : "-";
    if (strcmp(words, expected) != 0)
        test_fail(__FILE__, __LINE__, "of \"%s\" they are \"%s\", expected \"%s\"", text, words, expected);
}

TEST(the_last_words_of_a_process_are_its_last_line_that_shows_something)
{
    static const struct {
        const char *text, *words;
    } table[] = {
        {"", "-"},
        {"\n\n", "-"},
        {"one\n", "one"},
        {"one", "one"},
        {"one\ntwo\n\n \t\r\n", "two"},
        {"  a b\t \n", "a b"},
        {"one\n\033[31m\033[0m\n", "one"},
        {"\033[31mred\033[0m\n", "red"},
        {"10%\r50%\r100%\n", "100%"},
        {"10%\rdone\r\n", "done"},
        {"one\n10%\r  \n", "10%"},
    };
    struct proc p = scene_process("direct");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_last_words(&p, "stderr", table[i].text, table[i].words);
    p.view.stderr_offset = 4; /* what an earlier start has printed is not of this one */
    assert_last_words(&p, "stderr", "one\n", "-");
    assert_last_words(&p, "stderr", "one\ntwo\n", "two");
    close(p.dir);
}

TEST(long_last_words_are_cut_and_of_a_long_log_only_the_tail_is_looked_at)
{
    static char text[40000], expected[600];
    struct proc p = scene_process("direct");
    for (int len = 499; len <= 501; len++) {
        memset(text, 'x', (size_t)len);
        text[len] = '\0';
        memset(expected, 'x', 500);
        expected[len < 500 ? len : 500] = '\0';
        assert_last_words(&p, "stderr", text, expected);
    }
    memset(text, 'x', 499);
    memcpy(text + 499, "\xc3\xa9", 3); /* cut between characters */
    expected[499] = '\0';
    assert_last_words(&p, "stderr", text, expected);
    for (size_t blanks = (16 << 10) - 2; blanks <= 16 << 10; blanks++) {
        memset(text, '\n', 4 + blanks);
        memcpy(text, "last", 4);
        text[4 + blanks] = '\0';
        assert_last_words(&p, "stderr", text, blanks == 16 << 10 ? "-" : blanks == (16 << 10) - 1 ? "t" : "st");
    }
    close(p.dir);
}

TEST(last_words_of_a_stamped_log_are_those_of_stderr_and_a_terminal_has_one_output)
{
    struct proc p = scene_process("stamped");
    assert_last_words(&p, "output", "2026-02-07T13:30:00.000Z err bad\n2026-02-07T13:30:01.000Z out good\n", "bad");
    assert_last_words(&p, "output", "2026-02-07T13:30:00.000Z out good\n", "-");
    assert_last_words(&p, "output", "2026-02-07T13:30:00.000Z err bad\n2026-02-07T13:30:01.000Z err \n", "bad");
    snprintf(p.view.log, sizeof p.view.log, "tty");
    p.view.stdout_offset = 2;
    p.view.stderr_offset = 99;
    assert_last_words(&p, "stdout", "a\nb\n", "b");
    close(p.dir);
}

/* ---- worktrees ---- */

static void put(const char *path, const char *text)
{
    char dir[128];
    snprintf(dir, sizeof dir, "%s", path);
    *strrchr(dir, '/') = '\0';
    ASSERT_INT(fs_make_dirs(AT_FDCWD, dir), 0);
    scene_write(path, text);
}

static void assert_branch(const char *top, const char *expected)
{
    char name[64] = "-";
    bool found = worktree_branch(top, name, sizeof name);
    ASSERT_INT(found, strcmp(expected, "-") != 0);
    ASSERT_STR(name, expected);
}

TEST(worktrees_of_one_repository_are_siblings_and_each_has_its_branch)
{
    char top[PATH_MAX], here[PATH_MAX], below[PATH_MAX + 16];
    put("w/.git/HEAD", "ref: refs/heads/feature/x\n");
    put("w/.git/worktrees/v/HEAD", "0123456789abcdef0123456789abcdef01234567\n");
    put("w/.git/worktrees/v/commondir", "../..\n");
    put("v/.git", "gitdir: ../w/.git/worktrees/v\n");
    put("other/.git/HEAD", "ref: refs/heads/main\n");
    put("odd/.git", "nonsense\n");
    put("w/sub/file", "");
    assert_branch("w", "feature/x");
    assert_branch("v", "0123456789ab");
    assert_branch("odd", "-");
    assert_branch("w/sub", "-");
    ASSERT(worktree_is_sibling("w", "v") && worktree_is_sibling("v", "w"));
    ASSERT(!worktree_is_sibling("w", "w") && !worktree_is_sibling("w", "other") && !worktree_is_sibling("v", "other"));
    ASSERT(!worktree_is_sibling("w", "odd") && !worktree_is_sibling("w", "absent"));
    ASSERT(realpath(".", here));
    snprintf(below, sizeof below, "%s/w", here);
    ASSERT(worktree_of("w/sub", top));
    ASSERT_STR(top, below);
    ASSERT(worktree_of("w", top));
    ASSERT_STR(top, below);
    ASSERT(!worktree_of("absent", top));
    snprintf(below, sizeof below, "%s/w/.git\n", here);
    put("w/.git/worktrees/v/commondir", below);
    ASSERT(worktree_is_sibling("w", "v"));
}

/* ---- lists of words ---- */

TEST(a_variable_is_replaced_in_a_list_and_others_that_begin_alike_stay)
{
    struct words words CLEANUP(words_clear) = {.items = NULL};
    words_unset(&words, "A");
    words_add(&words, "A=1");
    words_add(&words, "AB=2");
    words_add(&words, "A");
    words_printf(&words, "%s=%d", "A", 3);
    words_set(&words, "A", "4");
    ASSERT_INT(words.count, 3);
    ASSERT_STR(words.items[0], "AB=2");
    ASSERT_STR(words.items[1], "A");
    ASSERT_STR(words.items[2], "A=4");
    ASSERT(!words.items[3] && !words.failed);
    words_unset(&words, "AB");
    ASSERT_INT(words.count, 2);
    for (int i = 0; i < 300; i++) {
        words_printf(&words, "N%d", i);
        ASSERT(!words.items[words.count]);
    }
    ASSERT_INT(words.count, 302);
    ASSERT_STR(words.items[301], "N299");
}
