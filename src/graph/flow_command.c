/* flow_command.c - the command of a task: `run`, and the `shell` that executes a text. A text without shell syntax becomes words,
 * unless a shell was chosen; `shell` may be below the tasks, so that this is decided when the file was read. */
#include "graph/flow_pieces.h"

#include <string.h>

static const char blanks[] = " \t\n";

bool flow_needs_shell(const char *command)
{
    static const char *const builtins[] = {
        ".",    ":",     "alias",  "bg",       "break",   "case",  "cd",      "command", "continue",
        "eval", "exec",  "exit",   "export",   "fg",      "for",   "getopts", "hash",    "if",
        "jobs", "local", "read",   "readonly", "return",  "set",   "shift",   "source",  "times",
        "trap", "type",  "ulimit", "umask",    "unalias", "unset", "until",   "wait",    "while"};
    size_t start = strspn(command, blanks), len = strcspn(command + start, blanks);
    if (strpbrk(command + start, "|&;<>()$`\\\"'*?[]#~=%!{}\n"))
        return true;
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++)
        if (strlen(builtins[i]) == len && strncmp(builtins[i], command + start, len) == 0)
            return true;
    return false;
}

/* Words in place: they move together, each with its end. Returns their number. */
static uint32_t split_words(char *at)
{
    char *to = at;
    uint32_t count = 0;
    for (at += strspn(at, blanks); at[0]; count++) {
        size_t len = strcspn(at, blanks);
        char *next_word = at + len + (at[len] != '\0');
        memmove(to, at, len);
        to[len] = '\0';
        to += len + 1;
        at = next_word + strspn(next_word, blanks);
    }
    return count;
}

static char *string_at(struct flow *flow, uint32_t offset)
{
    return (char *)flow->strings.data + offset;
}

void flow_read_run(struct reading *r, void *target)
{
    struct flow_task *task = target;
    task->has_run = true;
    r->run_line = r->piece.line;
    r->run_column = r->piece.column;
    buf_reset(&r->run_text);
    if (r->piece.type == YAML_PIECE_SCALAR)
        buf_put(&r->run_text, r->piece.text, r->piece.len);
    if (r->piece.type == YAML_PIECE_LIST) {
        task->run = piece_strings(r, &task->run_count);
        bool is_empty = !task->run_count || !flow_string(r->flow, task->run)[0]; /* execve takes no empty program */
        if (is_empty && !r->is_broken)
            flow_problem(r->flow, r->run_line, r->run_column, "flow_run_empty", NULL);
        return;
    }
    if (!piece_scalar(r, "flow_want_command"))
        return;
    size_t start = strspn(r->piece.text, blanks);
    if (!r->piece.text[start]) {
        flow_problem(r->flow, r->run_line, r->run_column, "flow_run_empty", NULL);
        return;
    }
    task->is_shell = true; /* until flow_settle_commands */
    task->run = flow_string_add(r->flow, r->piece.text + start, r->piece.len - start);
    task->run_count = 1;
}

/* A program with its options: a text of words, or a list. */
static void command_read_shell(struct reading *r, uint32_t *ret_first, uint32_t *ret_count)
{
    uint32_t line = r->piece.line, column = r->piece.column;
    bool is_list = r->piece.type == YAML_PIECE_LIST;
    *ret_count = 0;
    *ret_first = is_list ? piece_strings(r, ret_count) : piece_string(r);
    if (!is_list && *ret_first)
        *ret_count = split_words(string_at(r->flow, *ret_first));
    bool is_empty = !*ret_count || !flow_string(r->flow, *ret_first)[0];
    if (is_empty && (is_list || *ret_first) && !r->is_broken)
        flow_problem(r->flow, line, column, "flow_run_empty", NULL);
}

void flow_read_shell(struct reading *r, void *target)
{
    (void)target;
    command_read_shell(r, &r->flow->shell, &r->flow->shell_count);
}

void flow_read_task_shell(struct reading *r, void *target)
{
    struct flow_task *task = target;
    r->shell_line = r->piece.line;
    r->shell_column = r->piece.column;
    command_read_shell(r, &task->shell, &task->shell_count);
}

void flow_check_shell(struct reading *r, const struct flow_task *task)
{
    size_t agents = r->flow->agents.count;
    bool is_agents =
        agents && flow_task(r->flow, REGION_AT(&r->flow->agents, struct flow_agent, agents - 1)->task) == task;
    if (task->shell && task->has_run && (!task->is_shell || is_agents))
        flow_problem(r->flow, r->shell_line, r->shell_column, "flow_shell_unused", NULL);
}

void flow_settle_commands(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->tasks.count; i++) {
        struct flow_task *task = flow_task(flow, i);
        if (!task->is_shell)
            continue;
        if (!task->shell) {
            task->shell = flow->shell;
            task->shell_count = flow->shell_count;
        }
        task->is_shell = task->shell || flow_needs_shell(flow_string(flow, task->run));
        if (!task->is_shell)
            task->run_count = split_words(string_at(flow, task->run));
    }
}
