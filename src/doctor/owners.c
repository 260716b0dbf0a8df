/* owners.c - workflows whose owner is dead: nobody drives them until somebody claims them. */
#include "doctor/check.h"
#include "own/workflow.h"

void check_owners(struct finding *f)
{
    struct tsk_error err;
    struct owners owners CLEANUP(owners_close) = OWNERS_INIT;
    struct buf word CLEANUP(buf_clear) = BUF_INIT;
    json_t *list CLEANUP_JSON = NULL;
    if (!db_is_open(&f->doctor->db) || f->doctor->db.is_read_only || owners_open(&owners, f->doctor->ws, &err) < 0) {
        f->is_absent = true; /* the check of the database reports why it cannot be opened */
        return;
    }
    if (workflow_list(&owners, NULL, true, &list, &err) < 0) {
        finding_error(f, DOCTOR_FAIL, &err);
        return;
    }
    f->is_absent = json_array_size(list) == 0;
    finding_summary(f, "doctor_owners_good", "count", DIGITS(json_array_size(list)), NULL);
    json_each (list, i, workflow) {
        const char *id = json_get_string(workflow, "ulTaskId", "");
        if (!json_is_false(json_object_get(workflow, "ownerAlive")))
            continue;
        finding_add(f, DOCTOR_WARN, "doctor_owner_dead", "workflow", id, "owner",
                    json_get_string(workflow, "ownerInstanceId", ""), NULL);
        finding_fix_ours(f, "own claim %s", shell_word(&word, id));
    }
}
