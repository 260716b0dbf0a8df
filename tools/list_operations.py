#!/usr/bin/env python3
"""Makes the operation table from the rows in the given files: `const struct op op_<name> = {`, in the order of the files.

    list_operations.py FILE.c... OUT.c
"""

import re
import sys

*sources, out = sys.argv[1:]
rows = []
for source in sources:
    with open(source, encoding="utf-8") as file:
        rows += re.findall(r"^const struct op (op_\w+) = \{", file.read(), re.MULTILINE)
with open(out, "w", encoding="utf-8") as file:
    file.write('#include "ops/ops.h"\n')
    file.writelines(f"extern const struct op {row};\n" for row in rows)
    file.write("const struct op *const op_rows[] = {\n")
    file.writelines(f"    &{row},\n" for row in rows)
    file.write("};\nconst size_t op_row_count = sizeof op_rows / sizeof op_rows[0];\n")
