#!/usr/bin/env python3
"""Makes a C string of a text file, and one of its hash: embed_text.py NAME INPUT OUTPUT."""

import hashlib
import json
import sys

name, source, target = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    lines = file.readlines()
with open(target, "w", encoding="utf-8") as file:
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()[:12]
    file.write(f"extern const char {name}[], {name}_hash[];\nconst char {name}_hash[] = \"{digest}\";\nconst char {name}[] =\n")
    file.writelines(f"    {json.dumps(line)}\n" for line in lines)
    file.write("    ;\n")
