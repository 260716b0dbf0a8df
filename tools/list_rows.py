#!/usr/bin/env python3
"""Makes a table from the rows in the given files, in the order of the files.

    list_rows.py operations FILE.c... OUT.c     op_rows[]: `const struct op op_<name> = {`
    list_rows.py printers FILE.c... OUT.c       cli_printers[]: `PRINTER(<name>, `
"""

import re
import sys

TABLES = {"operations": ("ops/ops.h", "op", "op_rows", r"^const struct op (op_\w+) = \{", "{}"),
          "printers": ("cli/cli.h", "cli_printer", "cli_printers", r"^PRINTER\((\w+),", "cli_printer_{}")}

table, *sources, out = sys.argv[1:]
header, kind, array, pattern, symbol = TABLES[table]
rows = []
for source in sources:
    with open(source, encoding="utf-8") as file:
        rows += [symbol.format(name) for name in re.findall(pattern, file.read(), re.MULTILINE)]
with open(out, "w", encoding="utf-8") as file:
    file.write(f'#include "{header}"\n')
    file.writelines(f"extern const struct {kind} {row};\n" for row in rows)
    file.write(f"const struct {kind} *const {array}[] = {{\n")
    file.writelines(f"    &{row},\n" for row in rows)
    file.write("    NULL};\n")
