/* Which row a request is for, and what its path, its query and its body say together (route.c). */
#include "base/json.h"
#include "harness/test.h"
#include "http/internal.h"

#include <stdlib.h>

/* "operation {arguments}", "404", "405 allowed methods", or the error's code and its operation. */
static void route(const char *request, const char *body, struct buf *ret)
{
    char text[1000], allow[64];
    struct http_head head;
    struct http_refusal refusal;
    struct http_route found = {0};
    struct tsk_error err = {0};
    json_t *document = NULL, *args = NULL;
    snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: localhost\r\n\r\n", request);
    ASSERT(http_parse_head(text, strlen(text), &head, &refusal) == 0);
    if (body)
        ASSERT(json_parse(body, strlen(body), "body", &document, &err) == 0);
    switch (route_find(&head, document, &found, &args, allow, &err)) {
    case ROUTE_NO_PATH:
        buf_puts(ret, "404");
        break;
    case ROUTE_NO_METHOD:
        buf_printf(ret, "405 %s", allow);
        break;
    case ROUTE_FOUND:
        buf_puts(ret, err.code != TSK_OK ? tsk_code_name(err.code) : found.op->name);
        if (err.code == TSK_OK) {
            char *dump = json_dumps(args, JSON_SORT_KEYS | JSON_COMPACT);
            buf_printf(ret, " %s", dump);
            free(dump);
        }
    }
    json_decref(args);
    json_decref(document);
}

static const struct {
    const char *request, *body, *answer;
} cases[] = {
    /* paths */
    {"GET /api/locks", NULL, "lock.list {}"},
    {"HEAD /api/locks", NULL, "lock.list {}"},
    {"GET /api/locks/", NULL, "404"},
    {"GET /api/lock", NULL, "404"},
    {"GET /api/lockss", NULL, "404"},
    {"GET /api", NULL, "404"},
    {"GET /", NULL, "404"},
    {"GET /api/locks/name", NULL, "404"},
    {"GET /api/locks/name/a", NULL, "lock.check {\"id\":\"a\",\"kind\":\"name\"}"},
    {"GET /api/locks//a", NULL, "404"},
    {"GET /api/locks/name/", NULL, "404"},
    {"GET /api/locks/name/a/", NULL, "404"},
    {"GET /api/locks/name/a%2Fb%20c", NULL, "lock.check {\"id\":\"a/b c\",\"kind\":\"name\"}"},
    {"GET /api/locks/name/a+b", NULL, "lock.check {\"id\":\"a+b\",\"kind\":\"name\"}"},
    {"GET /api/locks/name/%zz", NULL, "INVALID_INPUT"},
    {"PATCH /api/locks/name/a", NULL, "405 POST, DELETE, PUT, GET"},
    {"DELETE /api/locks", NULL, "405 GET"},
    {"HEAD /api/sprint/release", NULL, "404"},
    /* a literal segment is worth more than a parameter */
    {"GET /api/processes/export", NULL, "process.export {}"},
    {"GET /api/processes/exports", NULL, "process.status {\"id\":\"exports\"}"},
    {"GET /api/events/counts", NULL, "events {\"counts\":true}"},
    {"GET /api/flows/graph", NULL, "graph {}"},
    {"GET /api/processes/logs/logs", NULL, "process.logs {\"id\":\"logs\"}"},
    {"GET /api/processes/logs/stream", NULL, "process.logs {\"follow\":true}"},
    {"GET /api/processes/p/logs/stream", NULL, "process.logs {\"follow\":true,\"id\":\"p\"}"},
    /* what a path says by itself */
    {"POST /api/locks/name/a/force", NULL, "lock.acquire {\"force\":true,\"id\":\"a\",\"kind\":\"name\"}"},
    {"GET /api/doctor", NULL, "doctor {\"last\":true}"},
    {"GET /api/runs/RUN-1/stage", NULL, "runs.show {\"run\":\"RUN-1\"}"},
    /* the query */
    {"GET /api/processes?alive&x=", NULL, "process.list {\"alive\":\"\",\"x\":\"\"}"},
    {"GET /api/status?register=true", NULL, "status {\"register\":true}"},
    {"GET /api/status?register=1&&", NULL, "status {\"register\":true}"},
    {"GET /api/status?register", NULL, "status {\"register\":true}"},
    {"GET /api/status?register=false", NULL, "status {\"register\":false}"},
    {"GET /api/status?register=0", NULL, "status {\"register\":false}"},
    {"GET /api/status?register=yes", NULL, "status {\"register\":\"yes\"}"},
    {"GET /api/events?limit=5&a+b=c%2Bd+e", NULL, "events {\"a b\":\"c+d e\",\"limit\":\"5\"}"},
    {"GET /api/events?limit=5&limit=6", NULL, "INVALID_INPUT"},
    {"GET /api/events?limit=%c3", NULL, "INVALID_INPUT"},
    {"GET /api/events?%c3=1", NULL, "INVALID_INPUT"},
    {"GET /api/events?a=b=c", NULL, "events {\"a\":\"b=c\"}"},
    {"POST /api/processes?args=a", NULL, "process.create {\"args\":[\"a\"]}"},
    {"POST /api/processes?args=a&args=b&args=c", NULL, "process.create {\"args\":[\"a\",\"b\",\"c\"]}"},
    /* with the body */
    {"POST /api/processes", "{\"id\":\"p\",\"start\":true}", "process.create {\"id\":\"p\",\"start\":true}"},
    {"POST /api/processes?id=p", "{\"id\":\"q\"}", "INVALID_INPUT"},
    {"POST /api/processes?id=p", "{\"id\":\"p\"}", "INVALID_INPUT"},
    {"POST /api/processes?args=b", "{\"args\":[\"a\"]}", "process.create {\"args\":[\"a\",\"b\"]}"},
    {"POST /api/processes/p/start", "{\"id\":\"p\"}", "process.start {\"id\":\"p\"}"},
    {"POST /api/processes/p/start", "{\"id\":\"q\"}", "INVALID_INPUT"},
    {"POST /api/processes/1/start", "{\"id\":1}", "INVALID_INPUT"},
    /* rows that share a path */
    {"POST /api/sprint", "{\"mode\":\"acquire\",\"session\":\"s\"}", "sprint.acquire {\"session\":\"s\"}"},
    {"POST /api/sprint", "{\"mode\":\"release\"}", "sprint.release {}"},
    {"POST /api/sprint", "{\"mode\":\"check\"}", "sprint.check {}"},
    {"POST /api/sprint", "{\"mode\":\"acquired\"}", "INVALID_INPUT"},
    {"POST /api/sprint", "{\"mode\":1}", "INVALID_INPUT"},
    {"POST /api/sprint", NULL, "INVALID_INPUT"},
    {"PUT /api/sprint", "{\"mode\":\"check\"}", "405 POST, GET"},
    {"GET /api/sprint", NULL, "sprint.check {}"},
    {"POST /api/locks", "{\"mode\":\"list\"}", "lock.list {}"},
    {"POST /api/locks", "{\"mode\":\"check\"}", "405 GET"},
    {"POST /api/locks/name/a", "{\"mode\":\"x\"}", "lock.acquire {\"id\":\"a\",\"kind\":\"name\",\"mode\":\"x\"}"},
};

TEST(a_request_is_for_one_row_and_has_its_arguments)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf got CLEANUP(buf_clear) = BUF_INIT;
        route(cases[i].request, cases[i].body, &got);
        if (strcmp(buf_str(&got), cases[i].answer) != 0)
            test_fail(__FILE__, __LINE__, "%s is %s, expected %s", cases[i].request, buf_str(&got), cases[i].answer);
    }
}

/* ---- who calls ---- */

#define LONGEST                                                                                                        \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxx"
#define LONG LONGEST LONGEST /* 240 */

static struct http_head head_of(const char *headers, char text[2000])
{
    struct http_head head;
    struct http_refusal refusal;
    snprintf(text, 2000, "GET / HTTP/1.1\r\nHost: localhost\r\n%s\r\n", headers);
    ASSERT(http_parse_head(text, strlen(text), &head, &refusal) == 0);
    return head;
}

TEST(the_headers_of_who_calls_are_said_once_and_have_256_characters_at_most)
{
    static const struct {
        const char *headers;
        bool is_good;
    } some[] = {{"", true},
                {"Tasuki-Instance: i\r\ntasuki-secret: s\r\n", true},
                {"Tasuki-Instance: i\r\nTASUKI-instance: i\r\n", false},
                {"Tasuki-Secret: i\r\nTasuki-Secret: i\r\n", false},
                {"Tasuki-Instance:\r\n", true},
                {"Tasuki-Instance: " LONG "1234567890123456\r\n", true},
                {"Tasuki-Instance: " LONG "12345678901234567\r\n", false},
                {"Tasuki-Secret: " LONG "1234567890123456\r\n", true},
                {"Tasuki-Secret: " LONG "12345678901234567\r\n", false}};
    ASSERT_INT(strlen(LONG), 240);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        char text[2000];
        struct http_head head = head_of(some[i].headers, text);
        struct http_conn conn = {.head = &head};
        struct tsk_error err = {0};
        if ((caller_check_headers(&conn, &err) == 0) != some[i].is_good)
            test_fail(__FILE__, __LINE__, "%s", some[i].headers);
        ASSERT(some[i].is_good || err.code == TSK_INVALID_INPUT);
    }
}

TEST(who_calls_is_said_by_the_arguments_before_the_headers_and_the_secret_stays_in_neither)
{
    static const struct {
        const char *op, *headers, *args, *left, *instance, *secret;
        bool streams;
    } calls[] = {
#define BOTH "Tasuki-Instance: i\r\nTasuki-Secret: s\r\n"
        {"lock.acquire", "", "{}", "{}", "", "", false},
        {"lock.acquire", BOTH, "{}", "{\"instance\":\"i\"}", "i", "s", false},
        {"lock.acquire", BOTH, "{\"instance\":\"i\"}", "{\"instance\":\"i\"}", "i", "s", false},
        {"lock.acquire", BOTH, "{\"instance\":\"j\"}", "{\"instance\":\"j\"}", "", "", false},
        {"lock.acquire", BOTH, "{\"instance\":\"j\",\"secret\":\"t\"}", "{\"instance\":\"j\"}", "", "t", false},
        {"lock.acquire", BOTH, "{\"instance\":5}", "{\"instance\":5}", "", "", false},
        {"lock.acquire", BOTH, "{\"instance\":null}", "{\"instance\":\"i\"}", "i", "s", false},
        {"lock.list", BOTH, "{}", "{}", "i", "s", false},
        {"lock.list", BOTH, "{\"instance\":\"j\",\"secret\":\"t\"}", "{}", "j", "t", true},
        {"lock.list", BOTH, "{\"instance\":\"j\"}", "{}", "j", "", true},
        {"lock.list", BOTH, "{\"instance\":\"i\"}", "{}", "i", "s", true},
        {"lock.list", BOTH, "{\"instance\":\"i\"}", "{\"instance\":\"i\"}", "i", "s", false},
        {"process.start", "Tasuki-Instance: i\r\n", "{\"id\":\"p\"}", "{\"id\":\"p\"}", "i", "", false},
        {"process.start", BOTH, "{\"instance\":\"j\",\"secret\":\"t\"}", "{}", "j", "t", false},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        char text[2000], *left;
        struct http_head head = head_of(calls[i].headers, text);
        struct http_conn conn = {.head = &head};
        struct tsk_error err = {0};
        json_t *args = NULL;
        ASSERT(json_parse(calls[i].args, strlen(calls[i].args), "args", &args, &err) == 0);
        struct http_caller caller = caller_take(&conn, op_by_name(calls[i].op), args, calls[i].streams);
        left = json_dumps(args, JSON_SORT_KEYS | JSON_COMPACT);
        if (strcmp(left, calls[i].left) != 0 ||
            strcmp(caller.instance ? caller.instance : "", calls[i].instance) != 0 ||
            strcmp(caller.secret ? caller.secret : "", calls[i].secret) != 0)
            test_fail(__FILE__, __LINE__, "%zu %s %s: %s, instance %s, secret %s", i, calls[i].op, calls[i].args, left,
                      caller.instance, caller.secret);
        free(left);
        json_decref(args);
        caller_clear(&caller);
        ASSERT(!caller.instance && !caller.secret);
    }
}
