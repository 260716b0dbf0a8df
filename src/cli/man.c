/* man.c - manual pages in roff, made from the operation table: tasuki(1), and one per noun. */
#include "cli/cli.h"

#include <ctype.h>
#include <string.h>

/* Text for roff: backslashes, leading dots and quotes, and hyphens that must stay hyphens. */
static void man_put(FILE *out, const char *text)
{
    for (const char *at = text; *at; at++) {
        if (*at == '\\')
            fputs("\\e", out);
        else if (*at == '-')
            fputs("\\-", out);
        else if ((*at == '.' || *at == '\'') && (at == text || at[-1] == '\n'))
            fprintf(out, "\\&%c", *at);
        else
            fputc(*at, out);
    }
}

static void man_put_examples(FILE *out, const char *examples)
{
    while (*examples) {
        size_t len = strcspn(examples, "\n");
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)len, examples);
        fputs(".nf\n.RS 4\n", out);
        man_put(out, line);
        fputs("\n.RE\n.fi\n", out);
        examples += len + (examples[len] == '\n');
    }
}

static void man_put_op(FILE *out, const struct op *op)
{
    struct buf usage CLEANUP(buf_clear) = BUF_INIT;
    char name[64];
    cli_usage_line(op, &usage);
    fputs(".SS ", out);
    man_put(out, buf_str(&usage));
    fputs("\n", out);
    man_put(out, op->summary);
    fputs("\n", out);
    for (const struct op_param *param = op->params; param->name; param++) {
        if (param->flags & OP_REMOTE_ONLY)
            continue;
        cli_option_name(param, name);
        fputs(".TP\n", out);
        if (param->flags & OP_NOT_AN_OPTION)
            fprintf(out, "\\fI%s\\fR\n", param->value);
        else if (param->letter)
            fprintf(out, "\\fB\\-%c\\fR, \\fB\\-\\-%s\\fR \\fI%s\\fR\n", param->letter, name,
                    param->value ? param->value : "");
        else
            fprintf(out, "\\fB\\-\\-%s\\fR \\fI%s\\fR\n", name, param->value ? param->value : "");
        man_put(out, param->help);
        if (param->fallback && !(op->flags & OP_KEEPS_REST))
            fprintf(out, " Default: %s.", param->fallback);
        fputs("\n", out);
    }
    if (op->detail) {
        fputs(".PP\n", out);
        man_put(out, op->detail);
        fputs("\n", out);
    }
    if (op->errors[0]) {
        fputs(".PP\nErrors:", out);
        for (const enum tsk_code *code = op->errors; *code; code++)
            fprintf(out, " %s (%d)%s", tsk_code_name(*code), code_info(*code)->exit_code, code[1] ? "," : ".");
        fputs("\n", out);
    }
    if (op->examples) {
        fputs(".PP\nExamples:\n", out);
        man_put_examples(out, op->examples);
    }
}

static void man_put_exit_codes(FILE *out)
{
    fputs(".SH EXIT STATUS\n0 success; 2 bad input; 3 environment; 4 held or conflict; 5 not found; 6 needs "
          "confirmation, or a dead "
          "holder's lock; 7 failed; 8 a run waits for an answer; 9 internal error. \\fBtasuki lock run\\fR "
          "returns the command's "
          "own.\n",
          out);
}

static void put_title(FILE *out, const char *noun)
{
    fputs(".TH TASUKI", out);
    if (noun)
        fputs("\\-", out);
    for (; noun && *noun; noun++)
        fputc(toupper((unsigned char)*noun), out);
    fprintf(out, " 1 \"\" \"tasuki %s\" \"User Commands\"\n", TASUKI_VERSION);
}

static void man_put_globals(FILE *out)
{
    fputs(".SH OPTIONS\nEvery command takes these, before or after its own words.\n", out);
    for (const struct cli_global *global = cli_globals; global->name; global++) {
        fputs(".TP\n\\fB", out);
        man_put(out, global->name);
        fputs("\\fR", out);
        if (global->value)
            fprintf(out, " \\fI%s\\fR", global->value);
        fputs("\n", out);
        man_put(out, global->help);
        fputs("\n", out);
    }
}

void cli_man(const char *noun, FILE *out)
{
    const char *nouns[64];
    put_title(out, noun);
    fputs(".SH NAME\n", out);
    if (noun)
        fprintf(out, "tasuki\\-%s \\- the %s commands of tasuki\n", noun, noun);
    else
        fputs("tasuki \\- run controller: nothing runs twice, nothing is lost in a crash\n", out);
    fputs(".SH SYNOPSIS\n\\fBtasuki\\fR [\\fB\\-\\-root\\fR \\fIDIR\\fR] [\\fB\\-\\-json\\fR] "
          "[\\fB\\-\\-lang\\fR \\fIL\\fR] "
          "[\\fB\\-\\-quiet\\fR] [\\fB\\-\\-verbose\\fR] [\\fB\\-\\-no\\-color\\fR] ",
          out);
    fprintf(out, "%s%s\\fIVERB\\fR ...\n.SH COMMANDS\n", noun ? noun : "[\\fINOUN\\fR]", " ");
    op_foreach (op)
        if (op_has_noun(op, noun))
            man_put_op(out, op);
    man_put_globals(out);
    man_put_exit_codes(out);
    if (!noun)
        fputs(".SH ENVIRONMENT\n.TP\nTASUKI_ROOT\nThe workspace, if \\-\\-root is not "
              "given.\n.TP\nTASUKI_LANG\nja, en or zh.\n.TP\n"
              "TASUKI_INSTANCE_ID\nThe instance that the caller is.\n.TP\nNO_COLOR\nNo colours.\n",
              out);
    fputs(".SH SEE ALSO\n", out);
    size_t found = cli_nouns(nouns, 64);
    fputs(noun ? "tasuki(1)" : "", out);
    for (size_t i = 0; i < found; i++)
        if (!noun || strcmp(noun, nouns[i]) != 0)
            fprintf(out, "%stasuki\\-%s(1)", i || noun ? ", " : "", nouns[i]);
    fputs("\n", out);
}
