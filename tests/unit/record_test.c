#include "base/json.h"
#include "harness/test.h"
#include "lock/record.h"
#include "unit/scene.h"

#include "base/utf8.h"

static const char *const hostile[] = {
    "",
    "plain",
    "\"quotes\" and 'others'",
    "back\\slash\\n",
    "line\nbreak\r\n\ttab",
    "\x01\x02\x1f\x7f",
    "- [a, b]: {c: d} # no comment",
    "&anchor *alias !tag |",
    "\xf0\x9f\x94\x92 \xe9\x8e\x96 \xc3\xa9",
    "null",
    "~",
    "true",
    "0x10",
    "12",
    " leading and trailing ",
    "---",
    "...",
    "%YAML 1.1",
    "\xe2\x80\xa8\xc2\x85\xef\xbb\xbf",
    "a: b",
    "</script>",
    "${HOME} `id` $(id)",
};

enum { HOSTILE_COUNT = sizeof hostile / sizeof hostile[0] };

static void put(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text);
}

static struct lock_record sample(enum hold hold)
{
    struct lock_record r = {.hold = hold,
                            .pid = 4321,
                            .fence = (7ULL << 40) + 9,
                            .created_ms = 1770471000000,
                            .expires_ms = 1770472800000,
                            .expires_boot_ms = 123456789,
                            .ttl_ms = 1800000};
    r.holder = (struct proc_id){.pid = 4321, .start_ticks = 99887766, .pid_ns = 4026531836};
    put(r.holder.boot_id, sizeof r.holder.boot_id, "01234567-89ab-cdef-0123-456789abcdef");
    put(r.token, sizeof r.token, "00112233445566778899aabbccddeeff");
    put(r.hostname, sizeof r.hostname, "host");
    put(r.host, sizeof r.host, "127.0.0.1");
    if (hold == HOLD_LEASE) {
        r.pid = r.holder.pid = 0;
        put(r.instance, sizeof r.instance, "http-0123456789abcdef");
    }
    return r;
}

static void assert_same(const struct lock_record *a, const struct lock_record *b)
{
    ASSERT_INT(a->hold, b->hold);
    ASSERT_INT(a->pid, b->pid);
    ASSERT_INT(a->fence, b->fence);
    ASSERT_INT(a->holder.pid, b->holder.pid);
    ASSERT_INT(a->holder.start_ticks, b->holder.start_ticks);
    ASSERT_INT(a->holder.pid_ns, b->holder.pid_ns);
    ASSERT_STR(a->holder.boot_id, b->holder.boot_id);
    ASSERT_INT(a->created_ms, b->created_ms);
    ASSERT_INT(a->expires_boot_ms, b->expires_boot_ms);
    ASSERT_STR(a->token, b->token);
    ASSERT_STR(a->hostname, b->hostname);
    ASSERT_STR(a->session_id, b->session_id);
    ASSERT_STR(a->run_id, b->run_id);
    ASSERT_STR(a->instance, b->instance);
}

static void json_round_trip(const struct lock_record *record)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct lock_record back;
    record_write_json(record, "name", &b);
    ASSERT(!b.failed);
    if (record_parse_json(b.data, b.len, &back) < 0)
        test_fail(__FILE__, __LINE__, "cannot be read back: %s", b.data);
    assert_same(&back, record);
    ASSERT_INT(back.expires_ms, record->expires_ms);
    ASSERT_INT(back.ttl_ms, record->ttl_ms);
    ASSERT_STR(back.name, record->name);
    ASSERT_STR(back.request_id, record->request_id);
    ASSERT_STR(back.host, record->host);
}

static void yaml_round_trip(const struct lock_record *record)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct lock_record back;
    record_write_yaml(record, &b);
    ASSERT(!b.failed);
    if (record_parse_yaml(b.data, b.len, &back) < 0)
        test_fail(__FILE__, __LINE__, "cannot be read back: %s", b.data);
    assert_same(&back, record);
    ASSERT_STR(back.epic_spec, record->epic_spec);
    ASSERT_STR(back.registry, record->registry);
}

TEST(hostile_texts_survive_both_formats)
{
    for (size_t i = 0; i < HOSTILE_COUNT; i++)
        for (enum hold hold = HOLD_LIFE; hold <= HOLD_LAST; hold++) {
            struct lock_record record = sample(hold);
            put(record.session_id, sizeof record.session_id, hostile[i]);
            const char *instance = hostile[(i + 1) % HOSTILE_COUNT];
            if (hold != HOLD_LEASE || instance[0]) /* a lease is somebody's */
                put(record.instance, sizeof record.instance, instance);
            put(record.run_id, sizeof record.run_id, hostile[(i + 2) % HOSTILE_COUNT]);
            put(record.hostname, sizeof record.hostname, hostile[(i + 3) % HOSTILE_COUNT]);
            json_round_trip(&record);
            put(record.epic_spec, sizeof record.epic_spec, hostile[(i + 4) % HOSTILE_COUNT]);
            put(record.registry, sizeof record.registry, hostile[(i + 5) % HOSTILE_COUNT]);
            yaml_round_trip(&record);
        }
}

TEST(texts_of_the_full_256_bytes_survive_both_formats)
{
    static const char *const units[] = {"x", "\"", "\\", "\x01", "\xf0\x9f\x94\x92", "\n"};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        struct lock_record record = sample(HOLD_LIFE);
        for (size_t at = 0, len = strlen(units[i]); at < 256; at += len)
            memcpy(record.session_id + at, units[i], len);
        json_round_trip(&record);
        memcpy(record.epic_spec, record.session_id, sizeof record.epic_spec);
        yaml_round_trip(&record);
    }
}

TEST(our_json_has_the_keys_of_the_specification_in_their_types)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct lock_record record = sample(HOLD_PROCESS);
    struct tsk_error err;
    json_t *root CLEANUP_JSON = NULL;
    record_write_json(&record, "queue", &b);
    ASSERT_OK(json_parse(b.data, b.len, "lock", &root, &err));
    ASSERT_STR(json_get_string(root, "version", ""), "1.0");
    ASSERT_STR(json_get_string(root, "lock_type", ""), "queue");
    ASSERT(json_is_null(json_object_get(root, "request_id")) && json_is_null(json_object_get(root, "run_id")));
    ASSERT_INT(json_get_int(root, "pid", 0), 4321);
    ASSERT_STR(json_get_string(root, "host", ""), "127.0.0.1");
    ASSERT_STR(json_get_string(root, "hold", ""), "process");
    ASSERT_INT(json_get_int(root, "fence", 0), (7LL << 40) + 9);
    ASSERT(!json_object_get(root, "name") && !json_object_get(root, "session_id"));
}

TEST(the_request_lock_of_seed_000_is_read_as_another_tools)
{
    static const char text[] = "{\n\"version\": \"1.0\",\n\"lock_type\": \"request\",\n\"request_id\": \"RQ-...\",\n"
                               "\"run_id\": \"RUN-...\",\n\"pid\": 12345,\n\"host\": \"127.0.0.1\",\n"
                               "\"created_at\": \"2025-12-14T15:01:02+09:00\",\n"
                               "\"expires_at\": \"2025-12-14T15:31:02+09:00\"\n}\n";
    struct lock_record record;
    ASSERT_INT(record_parse_json(text, strlen(text), &record), 0);
    ASSERT_INT(record.hold, HOLD_FOREIGN);
    ASSERT_INT(record.pid, 12345);
    ASSERT_INT(record.created_ms, 1765692062000);
    ASSERT_INT(record.expires_ms - record.created_ms, 30 * 60 * 1000);
    ASSERT_STR(record.request_id, "RQ-...");
    ASSERT_STR(record.run_id, "RUN-...");
    ASSERT_STR(record.host, "127.0.0.1");
    ASSERT_INT(record.fence, 0);
}

TEST(the_sprint_lock_of_seed_002_is_read_as_another_tools)
{
    static const char text[] = "# .sprint-running\npid: 12345                                    # "
                               "\xe5\xbd\x93\xe5\x89\x8d\xe8\xbf\x9b\xe7\xa8\x8b PID\n"
                               "session_id: \"sprint-2026-02-07-001\"           # Sprint\n"
                               "started_at: \"2026-02-07T22:30:00Z\"            # ISO 8601 UTC\n"
                               "epic_spec: \"epic5\"                            # Epic\nlock_version: 1\n";
    struct lock_record record;
    ASSERT_INT(record_parse_yaml(text, strlen(text), &record), 0);
    ASSERT_INT(record.hold, HOLD_FOREIGN);
    ASSERT_INT(record.pid, 12345);
    ASSERT_INT(record.created_ms, 1770503400000);
    ASSERT_INT(record.expires_ms, -1);
    ASSERT_STR(record.session_id, "sprint-2026-02-07-001");
    ASSERT_STR(record.epic_spec, "epic5");
}

TEST(what_is_no_lock_file_is_refused_and_leaves_the_record_untouched)
{
    static const char *const json[] = {"",
                                       " ",
                                       "{",
                                       "{\"pid\": 1",
                                       "[]",
                                       "null",
                                       "1",
                                       "\"x\"",
                                       "{}x",
                                       "pid: 1\n",
                                       "{\"pid\":1}{\"pid\":2}",
                                       "{\"a\":1,\"a\":2}",
                                       "{\"a\":\"\xff\"}"};
    static const char *const yaml[] = {"",
                                       " ",
                                       "# only a comment\n",
                                       "- a\n",
                                       "text\n",
                                       "pid: [",
                                       "pid: 1\npid: 2\n",
                                       "a: &x 1\nb: *x\n",
                                       "---\na: 1\n---\nb: 1\n",
                                       "\xff\xfe",
                                       "{}"};
    struct lock_record record = {.pid = 77};
    for (size_t i = 0; i < sizeof json / sizeof json[0]; i++)
        ASSERT_INT(record_parse_json(json[i], strlen(json[i]), &record), -1);
    for (size_t i = 0; i < sizeof yaml / sizeof yaml[0]; i++)
        if (record_parse_yaml(yaml[i], strlen(yaml[i]), &record) == 0)
            test_fail(__FILE__, __LINE__, "accepted: %s", yaml[i]);
    ASSERT_INT(record.pid, 77);
}

TEST(every_torn_piece_of_our_own_file_is_refused)
{
    struct lock_record record = sample(HOLD_LIFE), back;
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    record_write_json(&record, "name", &b);
    for (size_t len = 0; len + 2 < b.len; len++)
        ASSERT_INT(record_parse_json(b.data, len, &back), -1);
}

TEST(missing_keys_and_wrong_types_leave_what_is_unknown_unknown)
{
    static const char *const texts[] = {
        "{}",
        "{\"other\": 1}",
        "{\"pid\": null, \"created_at\": 5, \"expires_at\": null, \"fence\": [], \"token\": {}, \"run_id\": 7.5}",
        "{\"pid\": \"abc\", \"created_at\": \"yesterday\", \"expires_at\": \"\", \"fence\": \"\", \"hold\": \"maybe\"}",
        "{\"pid\": -5, \"fence\": -1, \"pid_ns\": -1, \"pid_start\": -3, \"expires_boot_ms\": -9, \"ttl_ms\": -1}",
        "{\"pid\": 4294967296, \"hold\": 3}",
        "{\"pid\": 1.5}",
        "{\"pid\": true}",
        "{\"pid\": 2147483648}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct lock_record record;
        ASSERT_INT(record_parse_json(texts[i], strlen(texts[i]), &record), 0);
        ASSERT_INT(record.hold, HOLD_FOREIGN);
        ASSERT_INT(record.pid, 0);
        ASSERT_INT(record.fence, 0);
        ASSERT_INT(record.created_ms, -1);
        ASSERT_INT(record.expires_ms, -1);
        ASSERT_INT(record.expires_boot_ms, 0);
        ASSERT_INT(record.ttl_ms, 0);
        ASSERT_STR(record.token, "");
    }
}

TEST(numbers_beyond_64_bits_are_unknown_and_never_another_number)
{
    static const char yaml[] = "pid: 99999999999999999999\nfence: 99999999999999999999\nttl_ms: 18446744073709551617\n";
    struct lock_record record;
    ASSERT_INT(record_parse_yaml(yaml, strlen(yaml), &record), 0);
    ASSERT_INT(record.pid, 0);
    ASSERT_INT(record.fence, 0);
    ASSERT_INT(record.ttl_ms, 0);
}

TEST(a_fence_that_no_guard_can_have_given_is_not_ours)
{
    /* Above 2^62 there are the tickets, and the byte of the largest number does not exist at all. */
    static const char *const fences[] = {"9223372036854775807", "9223372036854775744", "4611686018427387904"};
    for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++) {
        struct lock_record record = sample(HOLD_LIFE), back;
        record.fence = strtoull(fences[i], NULL, 10);
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        record_write_json(&record, "name", &b);
        if (record_parse_json(b.data, b.len, &back) == 0 && back.hold != HOLD_FOREIGN)
            test_fail(__FILE__, __LINE__, "fence %s is taken for ours", fences[i]);
    }
}

TEST(numbers_may_be_written_as_texts)
{
    static const char text[] = "{\"pid\": \"321\", \"ttl_ms\": \"17\"}";
    struct lock_record record;
    ASSERT_INT(record_parse_json(text, strlen(text), &record), 0);
    ASSERT_INT(record.pid, 321);
    ASSERT_INT(record.ttl_ms, 17);
}

TEST(a_half_copy_of_our_file_is_another_tools)
{
    static const char *const keys[] = {"fence", "token", "boot_id", "hold", "pid", "pid_ns", "instance"};
    for (enum hold hold = HOLD_LIFE; hold <= HOLD_LAST; hold++)
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            bool has_process = hold == HOLD_PROCESS || hold == HOLD_GUESS;
            if (i >= 4 &&
                (i < 6 ? !has_process : hold != HOLD_LEASE)) /* its life byte alone decides; its lease alone */
                continue;
            struct lock_record record = sample(hold), back;
            struct buf b CLEANUP(buf_clear) = BUF_INIT;
            struct buf cut CLEANUP(buf_clear) = BUF_INIT;
            struct tsk_error err;
            json_t *root CLEANUP_JSON = NULL;
            record_write_json(&record, "name", &b);
            ASSERT_OK(json_parse(b.data, b.len, "lock", &root, &err));
            ASSERT_INT(json_object_del(root, keys[i]), 0);
            json_write(&cut, root, false);
            ASSERT_INT(record_parse_json(cut.data, cut.len, &back), 0);
            ASSERT_INT(back.hold, HOLD_FOREIGN);
        }
}

TEST(another_tools_long_text_is_cut_between_characters)
{
    for (int shift = 0; shift < 3; shift++) {
        struct buf b CLEANUP(buf_clear) = BUF_INIT;
        struct lock_record record;
        buf_printf(&b, "{\"session_id\":\"%s", &"aa"[shift]);
        for (int i = 0; i < 200; i++)
            buf_puts(&b, "\xe9\x8e\x96");
        buf_puts(&b, "\"}");
        ASSERT_INT(record_parse_json(b.data, b.len, &record), 0);
        ASSERT(strlen(record.session_id) > 250);
        ASSERT(utf8_is_valid(record.session_id, strlen(record.session_id)));
    }
}

TEST(unknown_keys_and_nested_values_are_accepted)
{
    static const char text[] = "{\"pid\": 5, \"future\": {\"pid\": 6, \"a\": [1, 2]}, \"lock_type\": \"other\"}";
    static const char yaml[] = "pid: 5\nfuture:\n  pid: 6\n  a: [1, 2]\n";
    struct lock_record record;
    ASSERT_INT(record_parse_json(text, strlen(text), &record), 0);
    ASSERT_INT(record.pid, 5);
    ASSERT_INT(record_parse_yaml(yaml, strlen(yaml), &record), 0);
    ASSERT_INT(record.pid, 5);
}
