/* The parts that speak to Redis, without a server: the URL, the signatures, the names, the directory of a worker. */
#include "base/fs.h"
#include "graph/wire.h"
#include "harness/test.h"
#include "redis/conn.h"
#include "redis/resolve.h"
#include "redis/scratch.h"
#include "redis/sign.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASSERT_OK(call) ASSERT_INT(call, 0)

/* ---- the URL -------------------------------------------------------------------------------------------- */

TEST(a_url_is_read_part_by_part)
{
    static const struct {
        const char *url, *shown, *host, *port, *user, *password, *db;
    } rows[] = {
        {"redis://h", "redis://h:6379/0", "h", "6379", "", "", "0"},
        {"redis://h/", "redis://h:6379/0", "h", "6379", "", "", "0"},
        {"redis://h:1/7", "redis://h:1/7", "h", "1", "", "", "7"},
        {"rediss://h:65535/1234567", "rediss://h:65535/1234567", "h", "65535", "", "", "1234567"},
        {"redis://me@h", "redis://h:6379/0", "h", "6379", "me", "", "0"},
        {"redis://me:pw@h", "redis://h:6379/0", "h", "6379", "me", "pw", "0"},
        {"redis://:pw@h", "redis://h:6379/0", "h", "6379", "", "pw", "0"},
        {"redis://a:b:c@h", "redis://h:6379/0", "h", "6379", "a", "b:c", "0"},
        {"redis://a:p@ss@h", "redis://h:6379/0", "h", "6379", "a", "p@ss", "0"},
        {"redis://%61:%2F%3a%41%7E@h", "redis://h:6379/0", "h", "6379", "a", "/:A~", "0"},
        {"redis://[::1]", "redis://::1:6379/0", "::1", "6379", "", "", "0"},
        {"redis://[fe80::1]:7000/2", "redis://fe80::1:7000/2", "fe80::1", "7000", "", "", "2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct redis_settings s;
        struct tsk_error err;
        char shown[REDIS_SHOWN_MAX];
        ASSERT_OK(redis_settings_read(&s, rows[i].url, &err));
        redis_show(&s, shown);
        ASSERT_STR(shown, rows[i].shown);
        ASSERT_STR(s.host, rows[i].host);
        ASSERT_STR(s.port, rows[i].port);
        ASSERT_STR(s.user, rows[i].user);
        ASSERT_STR(s.password, rows[i].password);
        ASSERT_STR(s.db, rows[i].db);
        ASSERT_INT(s.is_tls, rows[i].url[5] == 's');
        ASSERT_STR(s.path, "");
        ASSERT_STR(s.prefix, "tasuki");
        ASSERT_STR(s.pool, "default");
        ASSERT_INT(s.sign_key_len, 0);
    }
}

TEST(a_url_that_is_none_is_refused)
{
    static const char *const urls[] = {
        "",
        "h",
        "http://h",
        "redis:/h",
        "redis://",
        "redis://:1",
        "redis://h:",
        "redis://h:x",
        "redis://h:1x",
        "redis://h:12345678",
        "redis://h/x",
        "redis://h/1x",
        "redis://h/12345678",
        "redis://h?db=1",
        "redis://[::1",
        "redis://[]",
        "redis://[::1]x",
        "redis://a%4@h",
        "redis://a%@h",
        "redis://a%4g@h",
        "redis://a%g4@h",
        "redis://a%00@h",
        "redis://h%0",
        "unix://",
        "unix://%zz",
        "sentinel://h",
        "redis+sentinel://h",
        "sentinels",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct redis_settings s;
        struct tsk_error err;
        if (redis_settings_read(&s, urls[i], &err) != -1)
            test_fail(__FILE__, __LINE__, "%s was taken", urls[i]);
        ASSERT_INT(err.code, TSK_INVALID_INPUT);
        ASSERT_STR(err.text, strstr(urls[i], "sentinel") ? "redis_sentinel" : "redis_url_bad");
    }
}

TEST(the_parts_of_a_url_may_be_as_long_as_there_is_room_and_no_longer)
{
    for (int more = 0; more < 2; more++) {
        struct redis_settings s;
        struct tsk_error err;
        char url[1200], name[600];
        memset(name, 'n', sizeof name);
        snprintf(url, sizeof url, "unix:///%.*s", (int)sizeof s.path - 2 + more, name);
        ASSERT_INT(redis_settings_read(&s, url, &err), -more);
        snprintf(url, sizeof url, "redis://%.*s", (int)sizeof s.host - 1 + more, name);
        ASSERT_INT(redis_settings_read(&s, url, &err), -more);
        snprintf(url, sizeof url, "redis://%.*s@h", (int)sizeof s.user - 1 + more, name);
        ASSERT_INT(redis_settings_read(&s, url, &err), -more);
        snprintf(url, sizeof url, "redis://:%.*s@h", (int)sizeof s.password - 1 + more, name);
        ASSERT_INT(redis_settings_read(&s, url, &err), -more);
    }
}

TEST(a_socket_is_named_by_its_path_and_the_environment_says_the_rest)
{
    struct redis_settings s;
    struct tsk_error err;
    char shown[REDIS_SHOWN_MAX];
    setenv("TASUKI_REDIS_PREFIX", "mine", 1);
    setenv("TASUKI_REDIS_POOL", "", 1); /* as if it was not there */
    setenv("TASUKI_REDIS_USER", "me", 1);
    setenv("TASUKI_REDIS_CA", "a", 1);
    setenv("TASUKI_REDIS_CERT", "b", 1);
    setenv("TASUKI_REDIS_KEY", "c", 1);
    ASSERT_OK(redis_settings_read(&s, "unix:///run/a%20b", &err));
    redis_show(&s, shown);
    ASSERT_STR(s.path, "/run/a b");
    ASSERT_STR(shown, "unix:///run/a b");
    ASSERT_STR(s.prefix, "mine");
    ASSERT_STR(s.pool, "default");
    ASSERT_STR(s.user, "me");
    ASSERT_STR(s.ca, "a");
    ASSERT_STR(s.cert, "b");
    ASSERT_STR(s.key, "c");
    ASSERT_STR(s.db, "0");
    ASSERT(!s.is_tls);
}

static void file_write(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT_INT(write(fd, text, strlen(text)), strlen(text));
    ASSERT_OK(fchmod(fd, mode));
    close(fd);
}

TEST(the_password_is_the_first_line_of_its_file)
{
    static const char *const texts[] = {"secret", "secret\n", "secret\r\n", "secret\nmore\n"};
    struct redis_settings s;
    struct tsk_error err;
    setenv("TASUKI_REDIS_PASSWORD_FILE", "pw", 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        file_write("pw", texts[i], 0600);
        ASSERT_OK(redis_settings_read(&s, "redis://u:other@h", &err));
        ASSERT_STR(s.password, "secret");
    }
    ASSERT_OK(unlink("pw"));
    ASSERT_INT(redis_settings_read(&s, "redis://h", &err), -1);
    ASSERT_INT(err.code, TSK_ENVIRONMENT);
    setenv("TASUKI_REDIS_PASSWORD_FILE", "", 1);
    ASSERT_OK(redis_settings_read(&s, "redis://h", &err));
}

TEST(a_password_or_a_key_for_which_there_is_no_room_is_refused_and_not_cut)
{
    static const char *const names[] = {"TASUKI_REDIS_PASSWORD_FILE", "TASUKI_REDIS_KEY_FILE"};
    for (size_t i = 0; i < 2; i++) {
        struct redis_settings s;
        struct tsk_error err;
        char text[600];
        setenv(names[i], "long", 1);
        memset(text, 'p', sizeof text);
        text[511] = '\0';
        file_write("long", text, 0600);
        ASSERT_OK(redis_settings_read(&s, "redis://h", &err));
        ASSERT_INT(i ? s.sign_key_len : strlen(s.password), 511);
        text[511] = 'p';
        text[512] = '\0';
        file_write("long", text, 0600);
        ASSERT_INT(redis_settings_read(&s, "redis://h", &err), -1);
        unsetenv(names[i]);
    }
}

TEST(a_key_has_at_least_16_bytes_and_nobody_else_may_read_its_file)
{
    static const struct {
        const char *text;
        mode_t mode;
        int len; /* -1: refused */
    } rows[] = {
        {"0123456789abcdef", 0600, 16},
        {"0123456789abcdef\r\n", 0400, 16},
        {"0123456789abcdefg\n\n", 0700, 17},
        {"0123456789abcde", 0600, -1},
        {"0123456789abcde\n", 0600, -1},
        {"\n\r\n", 0600, -1},
        {"", 0600, -1},
        {"0123456789abcdef", 0640, -1},
        {"0123456789abcdef", 0604, -1},
        {"0123456789abcdef", 0620, -1},
        {"0123456789abcdef", 0601, -1},
    };
    setenv("TASUKI_REDIS_KEY_FILE", "key", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct redis_settings s;
        struct tsk_error err;
        file_write("key", rows[i].text, rows[i].mode);
        int result = redis_settings_read(&s, "redis://h", &err);
        if (rows[i].len < 0) {
            ASSERT_INT(result, -1);
            ASSERT_INT(err.code, TSK_ENVIRONMENT);
            ASSERT_STR(tsk_error_context(&err, "path"), "key");
        } else {
            ASSERT_INT(result, 0);
            ASSERT_INT(s.sign_key_len, rows[i].len);
            ASSERT(memcmp(s.sign_key, rows[i].text, s.sign_key_len) == 0);
        }
        ASSERT_OK(unlink("key"));
    }
}

/* ---- signatures ----------------------------------------------------------------------------------------- */

static struct redis_settings with_key(const char *key)
{
    struct redis_settings s = {.sign_key_len = strlen(key)};
    memcpy(s.sign_key, key, strlen(key));
    return s;
}

static const char *check(const char *key, const char *signer, const char *root, const char *id)
{
    struct redis_settings to = with_key(key), from = with_key(signer);
    struct buf sent CLEANUP(buf_clear) = BUF_INIT;
    struct piece spec = {"spec", 4};
    struct parcel got = {NULL, 0};
    sign_put(&sent, &from, "root", "id", &spec);
    const char *why = sign_check(&to, root, id, (struct parcel){sent.data, sent.len}, &got);
    ASSERT(why || (got.len == 4 && memcmp(got.data, "spec", 4) == 0));
    return why;
}

TEST(a_signature_counts_for_its_key_its_run_and_its_attempt_only)
{
    ASSERT(!check("key-of-16-bytes!", "key-of-16-bytes!", "root", "id"));
    ASSERT_STR(check("key-of-16-bytes!", "key-of-16-bytes?", "root", "id"), WIRE_SIGNATURE);
    ASSERT_STR(check("key-of-16-bytes!", "key-of-16-bytes!", "boot", "id"), WIRE_SIGNATURE);
    ASSERT_STR(check("key-of-16-bytes!", "key-of-16-bytes!", "root", "i"), WIRE_SIGNATURE);
    ASSERT_STR(check("key-of-16-bytes!", "", "root", "id"), WIRE_UNSIGNED);
    ASSERT(!check("", "", "root", "id"));
    ASSERT(!check("", "key-of-16-bytes!", "root", "id"));
}

TEST(what_is_no_specification_with_a_signature_is_unreadable_and_with_a_key_unsigned)
{
    struct redis_settings plain = with_key(""), key = with_key("key-of-16-bytes!");
    for (int pieces = 0; pieces < 4; pieces++) {
        struct buf sent CLEANUP(buf_clear) = BUF_INIT;
        struct parcel got;
        for (int i = 0; i < pieces; i++)
            parcel_puts(&sent, "x");
        struct parcel item = {sent.data ? sent.data : "", sent.len};
        const char *why = sign_check(&plain, "r", "i", item, &got);
        ASSERT(pieces == 2 ? !why : why && strcmp(why, WIRE_UNREADABLE) == 0);
        ASSERT_STR(sign_check(&key, "r", "i", item, &got), pieces == 2 ? WIRE_SIGNATURE : WIRE_UNSIGNED);
    }
}

TEST(two_with_one_key_show_the_same_name_of_it_and_it_has_12_digits)
{
    struct redis_settings none = with_key(""), one = with_key("key-of-16-bytes!"), other = with_key("key-of-16-bytes?");
    char a[16], b[16], c[16];
    sign_name(&none, a);
    ASSERT_STR(a, "");
    sign_name(&one, a);
    sign_name(&one, b);
    sign_name(&other, c);
    ASSERT_STR(a, b);
    ASSERT(strcmp(a, c) != 0);
    ASSERT_INT(strlen(a), 12);
    ASSERT_INT(strspn(a, "0123456789abcdef"), 12);
}

/* ---- names ---------------------------------------------------------------------------------------------- */

TEST(who_looks_a_name_up_goes_on_with_its_own_work)
{
    int status;
    pid_t caller = fork();
    if (caller == 0) {
        struct resolved list[RESOLVED_MAX];
        const char *why = NULL;
        size_t count = resolve_host("localhost", "1", list, &why);
        _exit(count > 0 ? 42 : 1);
    }
    ASSERT_INT(waitpid(caller, &status, 0), caller);
    ASSERT_INT(WEXITSTATUS(status), 42);
}

TEST(an_address_needs_no_lookup_and_a_lookup_ends_when_something_else_is_due)
{
    struct resolved list[RESOLVED_MAX];
    const char *why = NULL;
    ASSERT_INT(resolve_host("127.0.0.1", "6379", list, &why), 1);
    struct sockaddr_in address;
    memcpy(&address, &list[0].address, sizeof address);
    ASSERT_INT(list[0].len, sizeof address);
    ASSERT_INT(ntohs(address.sin_port), 6379);
    ASSERT_INT(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
    ASSERT_INT(resolve_host("::1", "1", list, &why), 1);
    ASSERT_INT(list[0].address.ss_family, AF_INET6);
    ASSERT(resolve_host("localhost", "1", list, &why) >= 1);
    redis_due(1);
    ASSERT_INT(resolve_host("no-such-host.invalid", "1", list, &why), 0);
    ASSERT_STR(why, "Connection timed out");
}

/* ---- scratch -------------------------------------------------------------------------------------------- */

TEST(the_directory_of_a_worker_stays_as_long_as_it_lives_and_the_next_removes_it_afterwards)
{
    char here[PATH_MAX], one[PATH_MAX], two[PATH_MAX];
    struct tsk_error err;
    struct stat st;
    int attempts, other;
    ASSERT(getcwd(here, sizeof here));
    setenv("TMPDIR", here, 1);
    ASSERT_OK(mkdir("tasuki-work", 0700)); /* somebody else's */
    pid_t worker = fork();
    if (worker == 0)
        _exit(scratch_make(one, 3, &attempts, &err) < 0); /* it ends without removing it */
    ASSERT_INT(waitpid(worker, NULL, 0), worker);
    int life = scratch_make(two, 2, &other, &err);
    ASSERT(life >= 0);
    size_t len = strlen(here);
    ASSERT_OK(fstat(other, &st));
    ASSERT_INT(st.st_size % 2, 0);
    off_t each = st.st_size / 2;
    ASSERT(each > 0);
    ASSERT_OK(scratch_note(other, 2, 0, "r"));
    ASSERT_OK(fstat(other, &st));
    ASSERT_INT(st.st_size, 3 * each);
    ASSERT_INT(scratch_note(-1, 0, 1, "r"), -1);
    ASSERT(strncmp(two, here, len) == 0 && strncmp(two + len, "/tasuki-worker-", 15) == 0);
    ASSERT_OK(stat("tasuki-work", &st));
    pid_t next = fork();
    if (next == 0) { /* the lock is this process's: another one sees that it lives */
        scratch_end(AT_FDCWD, two);
        _exit(stat(two, &st) < 0);
    }
    int status;
    ASSERT_INT(waitpid(next, &status, 0), next);
    ASSERT_INT(status, 0);
    close(life);
    close(other);
    scratch_end(AT_FDCWD, two);
    ASSERT_INT(stat(two, &st), -1);
}
