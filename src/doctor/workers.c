/* workers.c - the Redis server over which runs go to workers, and the workers. tasuki-worker asks it. */
#include "base/yaml.h"
#include "doctor/check.h"
#include "run/elsewhere.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_TIGHT 80 /* percent */

static void look_at_server(struct finding *f, const json_t *answer)
{
    const char *version = json_get_string(answer, "version", ""), *policy = json_get_string(answer, "policy", "");
    const char *refused = json_get_string(answer, "refused", NULL), *role = json_get_string(answer, "role", "master");
    int64_t max = json_get_int(answer, "memory_max", 0), used = json_get_int(answer, "memory", 0);
    if (refused)
        finding_add(f, DOCTOR_FAIL, "doctor_workers_refused", "reason", refused, NULL);
    if (strcmp(role, "master") != 0)
        finding_add(f, DOCTOR_FAIL, "doctor_workers_replica", NULL);
    if (strtol(version, NULL, 10) < 7)
        finding_add(f, DOCTOR_WARN, "doctor_workers_old", "version", version, NULL);
    if (max && strcmp(policy, "noeviction") != 0)
        finding_add(f, DOCTOR_WARN, "doctor_workers_evicts", "policy", policy, NULL);
    if (max && used * 100 / max >= MEMORY_TIGHT)
        finding_add(f, DOCTOR_WARN, "doctor_workers_memory", "percent", DIGITS(max ? used * 100 / max : 0), NULL);
}

static void look_at_dead(struct finding *f, const json_t *answer)
{
    const json_t *dead = json_object_get(answer, "dead");
    const char *last = json_string_value(json_array_get(dead, 0));
    if (!last)
        return;
    finding_add(f, DOCTOR_WARN, "doctor_workers_dead", "count", DIGITS(json_get_int(answer, "dead_count", 0)), "last",
                last, NULL);
}

/* The places of those that work for any run. */
static int64_t look_at_workers(struct finding *f, const json_t *answer, size_t *ret_count)
{
    const char *key = json_get_string(answer, "key", ""), *version = json_get_string(answer, "tasuki", "");
    const char *others = json_get_string(answer, "others", "");
    int64_t places = 0;
    *ret_count = 0;
    json_each (json_object_get(answer, "workers"), i, worker) {
        const char *name = json_get_string(worker, "name", ""), *theirs = json_get_string(worker, "version", "");
        places += json_get_int(worker, "places", 0);
        ++*ret_count;
        if (!json_text_is(worker, "key", key))
            finding_add(f, DOCTOR_WARN, "doctor_workers_key", "worker", name, NULL);
        if (strcmp(theirs, version) != 0)
            finding_add(f, DOCTOR_WARN, "doctor_workers_version", "worker", name, "theirs", theirs, "ours", version,
                        NULL);
    }
    if (!*ret_count && *others)
        finding_add(f, DOCTOR_WARN, "doctor_workers_apart", "others", others, "prefix",
                    json_get_string(answer, "prefix", ""), "pool", json_get_string(answer, "pool", ""), NULL);
    return places;
}

void check_workers(struct finding *f)
{
    static const char *const question[] = {"doctor", NULL};
    struct elsewhere elsewhere;
    struct tsk_error err;
    json_t *answer CLEANUP_JSON = NULL;
    size_t count;
    struct yaml *config CLEANUP(yaml_cleanup) = NULL;
    if (workspace_config(f->doctor->ws, &config, &err) < 0) {
        f->is_absent = true; /* the check of config.yaml reports why it cannot be read */
        return;
    }
    int found = elsewhere_find(f->doctor->ws, NULL, NULL, &elsewhere, &err);
    f->is_absent = found == 0 && !elsewhere.program[0];
    if (f->is_absent)
        return;
    if (found == 0)
        found = elsewhere_ask(&elsewhere, question, &answer, &err);
    if (found < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
    } else {
        look_at_server(f, answer);
        const char *places = DIGITS(look_at_workers(f, answer, &count));
        look_at_dead(f, answer);
        finding_summary(f, "doctor_workers_good", "server", elsewhere.shown, "version",
                        json_get_string(answer, "version", ""), "aof",
                        json_get_int(answer, "aof", 0) ? "AOF" : "no AOF", "policy",
                        json_get_string(answer, "policy", ""), "workers", DIGITS(count), "places", places, NULL);
    }
    elsewhere_clear(&elsewhere);
}
