/* test.h - the unit test harness: a process per test, TAP on stdout.
 *
 *     #include "harness/test.h"
 *     TEST(a_buffer_grows_up_to_its_maximum_and_then_fails)
 *     {
 *         ...
 *         ASSERT(b.len == 3);
 *         ASSERT_STR(buf_str(&b), "abc");
 *         ASSERT_INT(n, 7);
 *     }
 *
 * Every test is forked, runs in a private empty temporary directory (its working directory), and fails when it leaves
 * a process or an open descriptor behind. Link the file with tests/harness/test.c; there is no list to keep. */
#ifndef HARNESS_TEST_H
#define HARNESS_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *test);
void test_fail(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
/* Ends the test as skipped, said aloud. */
void test_skip(const char *reason) __attribute__((noreturn));

#define TEST(id)                                                                                                       \
    static void test_##id(void);                                                                                       \
    __attribute__((constructor)) static void test_register_##id(void)                                                  \
    {                                                                                                                  \
        static struct test test = {.name = #id, .run = test_##id};                                                     \
        test_register(&test);                                                                                          \
    }                                                                                                                  \
    static void test_##id(void)

#define ASSERT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            test_fail(__FILE__, __LINE__, "%s", #condition);                                                           \
    } while (0)
#define ASSERT_INT(actual, expected)                                                                                   \
    do {                                                                                                               \
        long long a_ = (long long)(actual), e_ = (long long)(expected);                                                \
        if (a_ != e_)                                                                                                  \
            test_fail(__FILE__, __LINE__, "%s is %lld, expected %lld", #actual, a_, e_);                               \
    } while (0)
#define ASSERT_STR(actual, expected)                                                                                   \
    do {                                                                                                               \
        const char *a_ = (actual), *e_ = (expected);                                                                   \
        if (!a_ || !e_ || strcmp(a_, e_) != 0)                                                                         \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #actual, a_ ? a_ : "(null)",                \
                      e_ ? e_ : "(null)");                                                                             \
    } while (0)

#endif
