/* Words, parcels and addresses: pure functions, by table. */
#include "base/address.h"
#include "base/fs.h"
#include "base/parcel.h"
#include "base/word.h"
#include "harness/test.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(of_known_words_the_one_that_was_meant_is_found_and_others_are_not)
{
    static const char *const known[] = {"status", "start", "stop", "restart", "list", "logs", "lock", "remove"};
    static const struct {
        const char *word, *nearest;
    } table[] = {
        {"sttaus", "status"},  {"statsu", "status"}, {"tsatus", "status"}, {"stats", "status"},
        {"sta", "status"},     {"star", "start"},    {"stopp", "stop"},    {"lsit", "list"},
        {"lgos", "logs"},      {"lok", "lock"},      {"rem", "remove"},    {"re", "restart"},
        {"x", NULL},           {"s", NULL},          {"zz", NULL},         {"abcdef", NULL},
        {"rstart", "restart"}, {"xtop", "stop"},     {"xxop", NULL},       {"removing", NULL},
        {"remoev", "remove"},  {"", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *found = nearest_word(table[i].word, known, sizeof known / sizeof known[0]);
        if (found != table[i].nearest && (!found || !table[i].nearest || strcmp(found, table[i].nearest) != 0))
            test_fail(__FILE__, __LINE__, "%s: %s", table[i].word, found ? found : "-");
    }
    char almost[70];
    memset(almost, 'a', 63);
    almost[63] = '\0';
    const char *long_words[] = {"b", almost};
    ASSERT(nearest_word(almost, long_words, 2) == almost);
}

/* /bin/sh reads the word as the text. */
static void assert_shell_reads(const char *text)
{
    struct buf word CLEANUP(buf_clear) = BUF_INIT, command CLEANUP(buf_clear) = BUF_INIT,
                    got CLEANUP(buf_clear) = BUF_INIT;
    int status;
    buf_printf(&command, "printf '%%s.' %s >out", shell_word(&word, text));
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-ec", buf_str(&command), NULL);
        _exit(127);
    }
    ASSERT_INT(waitpid(pid, &status, 0), pid);
    ASSERT_INT(status, 0);
    ASSERT_INT(fs_read_file(AT_FDCWD, "out", 1000, &got), 0);
    ASSERT(got.len > 0 && got.data[got.len - 1] == '.');
    got.data[got.len - 1] = '\0';
    ASSERT_STR(got.data, text);
}

TEST(a_word_for_the_shell_is_quoted_when_it_has_to_be_and_then_means_the_same)
{
    static const char *const plain[] = {"a", "azAZ09_-./:=@%+,", "-x", "/tmp/a-b.c"};
    static const char *const quoted[] = {"",  " ", "a b", "it's", "$HOME",    "`x`", "a\"b", "a\\b",
                                         "~", "*", "#",   "a;b",  "\xc3\xa9", "{a}", "!x",   "'"};
    static const char *const odd[] = {"a\nb",  "a\tb",   "\x01",  "\x7f",     "\xff",
                                      "50%\n", "it's\n", "a\\\n", "\x1b[31m", "\x1f"};
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        ASSERT_STR(shell_word(&word, plain[i]), plain[i]);
    for (size_t i = 0; i < sizeof quoted / sizeof quoted[0]; i++) {
        ASSERT(strcmp(shell_word(&word, quoted[i]), quoted[i]) != 0);
        ASSERT(!strstr(buf_str(&word), "printf"));
        assert_shell_reads(quoted[i]);
    }
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        for (const char *at = shell_word(&word, odd[i]); *at; at++)
            ASSERT(*at >= 0x20 && *at < 0x7f);
        ASSERT_STR(buf_str(&word) + word.len - 2, ")\"");
    }
    assert_shell_reads("a\nb");
    assert_shell_reads("50%'\\\x01\x7f\xff");
}

TEST(a_text_as_a_file_name_reads_back_and_has_no_other_form)
{
    static const struct {
        const char *text, *name;
    } table[] = {
        {"abc", "abc"}, {"a.b_c-d", "a.b_c-d"},   {".a", "%2Ea"},         {"-a", "%2Da"},
        {"_", "%5F"},   {"src/api", "src%2Fapi"}, {"a b", "a%20b"},       {"\xc3\xa9", "%C3%A9"},
        {"%", "%25"},   {"a~", "a%7E"},           {"\x7f\x01", "%7F%01"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        char text[64];
        word_put_encoded(&b, table[i].text);
        ASSERT_STR(buf_str(&b), table[i].name);
        snprintf(text, sizeof text, "%s", table[i].name);
        ASSERT(word_decode(text));
        ASSERT_STR(text, table[i].text);
    }
    static const char *const wrong[] = {"%",    "a%",  "%2",  "%2f", "%g0", "%0g", "%00",
                                        "a%-1", "%/0", "%:0", "%@0", "%G0", "%1@"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[16];
        snprintf(text, sizeof text, "%s", wrong[i]);
        if (word_decode(text))
            test_fail(__FILE__, __LINE__, "%s is decoded", wrong[i]);
    }
    char edges[] = "%01%10%0F%F0%99%AF";
    ASSERT(word_decode(edges));
    ASSERT_STR(edges, "\x01\x10\x0f\xf0\x99\xaf");
}

TEST(a_line_is_split_at_its_blanks_into_no_more_words_than_there_is_room_for)
{
    char line[] = "  one two\t three\nfour ", few[] = "a b c", none[] = " \t\n";
    char *word[5] = {0};
    ASSERT_INT(words_split(line, word, 5), 4);
    ASSERT(strcmp(word[0], "one") == 0 && strcmp(word[1], "two") == 0 && strcmp(word[2], "three") == 0);
    ASSERT(strncmp(word[3], "four", 4) == 0);
    ASSERT_INT(words_split(few, word, 2), 2);
    ASSERT(strcmp(word[0], "a") == 0 && word[1][0] == 'b');
    ASSERT_INT(words_split(none, word, 5), 0);
    ASSERT_INT(words_split(few, word, 0), 0);
}

TEST(small_helpers_of_words)
{
    static const char *const list[] = {"a", "bc", NULL};
    ASSERT(word_is_in("a", list) && word_is_in("bc", list) && !word_is_in("b", list) && !word_is_in("", list) &&
           !word_is_in("a", list + 2));
    ASSERT_STR(path_name("/a/b"), "b");
    ASSERT_STR(path_name("b"), "b");
    ASSERT_STR(path_name("a/"), "");
    ASSERT(!text_or_null(NULL) && !text_or_null(""));
    ASSERT_STR(text_or_null("x"), "x");
    ASSERT_STR(DIGITS(0), "0");
    ASSERT_STR(DIGITS(INT64_MIN), "-9223372036854775808");
    ASSERT_STR(DIGITS(INT64_MAX), "9223372036854775807");
    ASSERT_STR(DIGITS(-10), "-10");
}

TEST(what_is_packed_is_unpacked_and_a_parcel_that_was_cut_ends_before_the_cut)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    parcel_puts(&b, "one");
    parcel_put(&b, "a\0b", 3);
    parcel_puts(&b, NULL);
    parcel_put_int(&b, -42);
    for (size_t len = 0; len <= b.len; len++) {
        char *copy = malloc(len + 1); /* of that length: a read behind it would be noticed */
        ASSERT(copy);
        memcpy(copy, b.data, len);
        struct parcel p = {copy, len};
        struct piece piece;
        size_t count = 0;
        while (parcel_next(&p, &piece)) {
            ASSERT_INT(piece.data[piece.len], 0);
            ASSERT_INT(piece.len, ((size_t[]){3, 3, 0, 3})[count]);
            count++;
        }
        ASSERT_INT(count, len < 8 ? 0 : len < 16 ? 1 : len < 21 ? 2 : len < 29 ? 3 : 4);
        free(copy);
    }
    struct parcel p = {b.data, b.len};
    ASSERT_STR(parcel_text(&p), "one");
    struct piece piece;
    ASSERT(parcel_next(&p, &piece) && memcmp(piece.data, "a\0b", 4) == 0);
    ASSERT_STR(parcel_text(&p), "");
    ASSERT_INT(parcel_int(&p), -42);
    ASSERT_STR(parcel_text(&p), "");
    ASSERT_INT(parcel_int(&p), 0);
    struct parcel no_end = {"\1\0\0\0ab", 6}; /* its byte behind the end is none */
    ASSERT(!parcel_next(&no_end, &piece));
}

TEST(a_frame_is_taken_when_all_of_it_is_there_and_one_that_is_too_long_is_refused)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    for (int i = 0; i < 2; i++) {
        size_t began = frame_begin(&b);
        parcel_puts(&b, i ? "second" : "first");
        frame_end(&b, began);
    }
    const size_t whole = b.len, first = 4 + 4 + 5 + 1;
    for (size_t len = 0; len <= whole; len++) {
        size_t at = 0;
        struct parcel p;
        b.len = len;
        int count = 0;
        while (frame_take(&b, &at, &p) == 1)
            ASSERT_STR(parcel_text(&p), count++ ? "second" : "first");
        ASSERT_INT(count, len < first ? 0 : len < whole ? 1 : 2);
        ASSERT_INT(at, len < first ? 0 : len < whole ? first : whole);
    }
    for (int more = 0; more <= 1; more++) {
        uint32_t length = htole32((uint32_t)(FRAME_MAX + (unsigned)more));
        struct parcel p;
        size_t at = 0;
        buf_reset(&b);
        buf_put(&b, &length, sizeof length);
        ASSERT_INT(frame_take(&b, &at, &p), more ? -1 : 0);
    }
}

TEST(a_host_is_an_address_of_either_kind_or_localhost)
{
    union address list[ADDRESSES_MAX];
    static const char *const wrong[] = {"", "1.2.3", "1.2.3.256", "::g", "[::1]", "localhostx", "x.invalid"};
    ASSERT(address_parse("1.2.3.4", 258, &list[0]));
    ASSERT(list[0].any.sa_family == AF_INET && list[0].v4.sin_port == htons(258) &&
           list[0].v4.sin_addr.s_addr == htonl(0x01020304));
    ASSERT_INT(address_len(&list[0]), sizeof list[0].v4);
    ASSERT(address_parse("::2", 80, &list[0]));
    ASSERT(list[0].any.sa_family == AF_INET6 && list[0].v6.sin6_port == htons(80) &&
           list[0].v6.sin6_addr.s6_addr[15] == 2);
    ASSERT_INT(address_len(&list[0]), sizeof list[0].v6);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ASSERT(!address_parse(wrong[i], 80, &list[0]));
        ASSERT_INT(host_addresses(wrong[i], 80, list), 0);
    }
    static const char *const local[] = {"localhost", "LOCALHOST", "a.localhost", "A.B.LocalHost"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        ASSERT_INT(host_addresses(local[i], 7, list), 2);
        ASSERT(list[0].any.sa_family == AF_INET && list[0].v4.sin_addr.s_addr == htonl(0x7f000001) &&
               list[0].v4.sin_port == htons(7));
        ASSERT(list[1].any.sa_family == AF_INET6 && list[1].v6.sin6_addr.s6_addr[15] == 1 &&
               list[1].v6.sin6_port == htons(7));
    }
    ASSERT_INT(host_addresses(".localhost", 7, list), 0);
    ASSERT_INT(host_addresses("9.9.9.9", 7, list), 1);
}
