#include "base/fs.h"
#include "hold/protocol.h"
#include "proc/probe.h"

#include <string.h>

#define REPORT_MAX 4096

int probe_report_read(int dir, struct probe_report *ret)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    struct tsk_error ignored; /* without a report nothing was ready: the probe asks again and writes a new one */
    json_t *json CLEANUP_JSON = NULL;
    if (dir < 0 || fs_read_file(dir, HOLD_PHASE_NAME, REPORT_MAX, &b) < 0 ||
        json_parse(b.data, b.len, HOLD_PHASE_NAME, &json, &ignored) < 0)
        return 0;
    *ret = (struct probe_report){.n = json_get_int(json, "n", 0), .since_ms = json_get_int(json, "since_ms", 0)};
    snprintf(ret->phase, sizeof ret->phase, "%s", json_get_string(json, "phase", ""));
    snprintf(ret->detail, sizeof ret->detail, "%s", json_get_string(json, "detail", ""));
    snprintf(ret->failed, sizeof ret->failed, "%s", json_get_string(json, "failed", ""));
    return 1;
}

int probe_report_write(int dir, const struct probe_report *report, struct tsk_error *err)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    buf_puts(&b, "{");
    buf_json_pair_int(&b, "n", report->n);
    buf_json_pair(&b, "phase", report->phase);
    buf_json_pair_int(&b, "since_ms", report->since_ms);
    buf_json_pair(&b, "detail", report->detail);
    if (report->failed[0])
        buf_json_pair(&b, "failed", report->failed);
    buf_puts(&b, "}\n");
    if (b.failed || fs_replace_file(dir, HOLD_PHASE_NAME, 0600, b.data, b.len) < 0)
        return error_errno(err, "write", HOLD_PHASE_NAME);
    return 0;
}

bool probe_was_ready(const struct proc *p, struct probe_report *ret)
{
    struct probe_report report;
    if (!probe_report_read(p->dir, &report) || report.n != p->view.n) /* B1 */
        report = (struct probe_report){0};
    if (ret)
        *ret = report;
    bool has_answered = strcmp(report.phase, "ready") == 0 || strcmp(report.phase, "unhealthy") == 0;
    return has_answered && !report.failed[0];
}
