#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "harness/test.h"
#include "unit/scene.h"

#include <sys/resource.h>

TEST(the_arena_takes_what_fits_and_never_overruns)
{
    for (size_t len = 1; len < TSK_ERROR_ARENA + 50; len += 97) {
        struct {
            struct tsk_error err;
            unsigned char fence[64];
        } box;
        char *value = malloc(len + 1);
        memset(box.fence, 0xa5, sizeof box.fence);
        memset(value, 'v', len);
        value[len] = '\0';
        error_set(&box.err, TSK_INTERNAL, NULL, "first", "kept", NULL);
        for (int i = 0; i < 400; i++) {
            error_add(&box.err, "key", value);
            error_add_int(&box.err, "number", i);
            error_add_next(&box.err, "command %s", value);
            ASSERT(box.err.used <= TSK_ERROR_ARENA);
        }
        for (size_t i = 0; i < sizeof box.fence; i++)
            ASSERT_INT(box.fence[i], 0xa5);
        ASSERT_STR(tsk_error_context(&box.err, "first"), "kept");
        free(value);
    }
}

TEST(every_way_of_filling_the_arena_leaves_items_that_can_be_walked)
{
    for (size_t filler = 0; filler < 12; filler++) {
        struct tsk_error err;
        struct error_item item;
        char value[TSK_ERROR_ARENA];
        size_t len = TSK_ERROR_ARENA - 16 + filler;
        unsigned cursor = 0, count = 0;
        memset(value, 'v', sizeof value);
        value[len >= sizeof value ? sizeof value - 1 : len] = '\0';
        error_set(&err, TSK_INTERNAL, NULL, "k", value, NULL);
        error_add(&err, "l", "12345");
        error_add_json(&err, "m", "{\"a\":1}");
        while (error_item_next(&err, &cursor, &item)) {
            ASSERT(strchr("sjn", item.type) && item.key >= err.arena && item.value < err.arena + sizeof err.arena);
            count++;
        }
        ASSERT(count >= 1 && count <= 3);
        ASSERT_INT(cursor, err.used);
    }
}

TEST(a_json_value_is_kept_whole_or_dropped)
{
    struct tsk_error err;
    char value[TSK_ERROR_ARENA];
    memset(value, 'v', sizeof value);
    value[TSK_ERROR_ARENA - 20] = '\0';
    error_set(&err, TSK_INTERNAL, NULL, "k", value, NULL);
    error_add_json(&err, "object", "{\"long\":\"12345678901234567890\"}");
    ASSERT(!tsk_error_context(&err, "object"));
    error_add_json(&err, "n", "1");
    ASSERT_STR(tsk_error_context(&err, "n"), "1");
}

TEST(items_are_walked_in_order_with_their_types)
{
    struct tsk_error err;
    struct error_item item;
    unsigned cursor = 0;
    error_set(&err, TSK_LOCK_HELD, "x", "a", "1", "b", NULL, NULL);
    error_add_next(&err, "tasuki %s", "help");
    error_add_int(&err, "c", INT64_MIN);
    static const struct error_item want[] = {
        {'s', "a", "1"}, {'j', "b", "null"}, {'n', "", "tasuki help"}, {'j', "c", "-9223372036854775808"}};
    for (size_t i = 0; i < 4; i++) {
        ASSERT(error_item_next(&err, &cursor, &item));
        ASSERT_INT(item.type, want[i].type);
        ASSERT_STR(item.key, want[i].key);
        ASSERT_STR(item.value, want[i].value);
    }
    ASSERT(!error_item_next(&err, &cursor, &item));
}

TEST(added_context_never_changes_the_first_error)
{
    struct tsk_error err;
    ASSERT_INT(error_set(&err, TSK_LOCK_LOST, "token_differs", "pid", "7", NULL), -1);
    error_add(&err, "pid", "8");
    error_add_next(&err, "one");
    error_add_next(&err, "two");
    ASSERT_INT(err.code, TSK_LOCK_LOST);
    ASSERT_STR(err.text, "token_differs");
    ASSERT_STR(tsk_error_context(&err, "pid"), "7");
    ASSERT_STR(tsk_error_next(&err, 0), "one");
    ASSERT_STR(tsk_error_next(&err, 1), "two");
    ASSERT(!tsk_error_next(&err, 2));
    ASSERT(!tsk_error_context(&err, "absent"));
    ASSERT(!tsk_error_context(&err, "")); /* the commands are not context */
}

TEST(a_failed_system_call_keeps_its_errno_and_says_what_failed)
{
    struct tsk_error err;
    char text[300];
    errno = EACCES;
    ASSERT_INT(error_errno(&err, "open", "some file"), -1);
    ASSERT_INT(err.code, TSK_ENVIRONMENT);
    ASSERT_INT(err.sys_errno, EACCES);
    ASSERT_STR(tsk_error_context(&err, "errno"), "EACCES");
    tsk_error_message(&err, "en", text, sizeof text);
    ASSERT(strstr(text, "some file") && strstr(text, "Permission denied"));
}

TEST(a_full_disk_has_a_code_of_its_own)
{
    static const int full[] = {ENOSPC, EDQUOT, EFBIG}, other[] = {EIO, ENOENT, EROFS, ENOMEM, EINTR, EAGAIN};
    struct tsk_error err;
    for (size_t i = 0; i < sizeof full / sizeof full[0]; i++) {
        errno = full[i];
        error_errno(&err, "write", "x");
        ASSERT_INT(err.code, TSK_STORAGE_FULL);
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        errno = other[i];
        error_errno(&err, "write", "x");
        ASSERT_INT(err.code, TSK_ENVIRONMENT);
    }
}

TEST(a_file_that_is_too_long_to_be_read_is_its_users_not_a_full_disk)
{
    struct tsk_error err;
    errno = EFBIG;
    error_errno(&err, "read", "x");
    ASSERT_INT(err.code, TSK_INVALID_INPUT);
}

TEST(an_errno_that_nobody_knows_is_no_crash)
{
    struct tsk_error err;
    char text[300];
    errno = 99999;
    error_errno(&err, "open", "x");
    ASSERT_INT(err.sys_errno, 99999);
    ASSERT(tsk_error_message(&err, "en", text, sizeof text) == text);
    json_t *document CLEANUP_JSON = json_of_error(&err, "en");
    ASSERT(document);
}

TEST(a_value_that_was_cut_in_the_middle_of_a_character_still_gives_a_document)
{
    struct tsk_error err;
    char value[TSK_ERROR_ARENA * 2];
    size_t len = 0;
    for (; len + 4 < sizeof value; len += 3)
        memcpy(value + len, "\xe9\x8e\x96", 4);
    for (int shift = 0; shift < 3; shift++) {
        error_set(&err, TSK_INVALID_INPUT, NULL, "pad", &"aa"[shift], "value", value, NULL);
        json_t *document CLEANUP_JSON = json_of_error(&err, "ja");
        const json_t *shown = json_at(document, "error.context.value");
        ASSERT(json_is_string(shown));
        ASSERT(json_string_length(shown) > TSK_ERROR_ARENA / 2);
    }
}

TEST(every_code_has_its_row_and_its_texts)
{
    for (enum tsk_code code = TSK_INVALID_INPUT; code < code_count(); code++) {
        const struct code_info *info = code_info(code);
        ASSERT(info->name[0] && info->category[0]);
        ASSERT(info->http_status >= 200 && info->http_status < 600);
        ASSERT(info->exit_code >= 0 && info->exit_code < 10);
        ASSERT_STR(tsk_code_name(code), info->name);
        for (enum lang lang = 0; lang < LANG_COUNT; lang++)
            ASSERT(text_of_code(code, lang)->title[0] && text_of_code(code, lang)->summary[0]);
        for (enum tsk_code other = TSK_OK; other < code; other++)
            ASSERT(strcmp(tsk_code_name(other), info->name) != 0);
    }
    ASSERT_STR(tsk_code_name((enum tsk_code)9999), "UNKNOWN");
}

TEST(a_message_is_cut_to_its_buffer)
{
    struct tsk_error err;
    char text[8];
    error_set(&err, TSK_LOCK_HELD, NULL, NULL);
    for (size_t size = 1; size <= sizeof text; size++) {
        memset(text, 'z', sizeof text);
        tsk_error_message(&err, "en", text, size);
        ASSERT(strnlen(text, size) < size);
        ASSERT(size == sizeof text || text[size] == 'z');
    }
}

TEST(a_broken_assumption_is_reported_with_its_place_and_ends_the_program)
{
    char text[256] = "";
    int both[2], status;
    ASSERT_INT(pipe2(both, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(both[1], STDERR_FILENO);
        BUG(pid == 0);
        _exit(0);
    }
    close(both[1]);
    ASSERT(read(both[0], text, sizeof text - 1) > 0);
    close(both[0]);
    ASSERT_INT(waitpid(pid, &status, 0), pid);
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ASSERT(strstr(text, "tasuki: bug at ") == text && strstr(text, "error_test.c:") && strstr(text, ": pid == 0\n"));
}
