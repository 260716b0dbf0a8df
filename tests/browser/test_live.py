#!/usr/bin/env python3
"""What the page shows is true: never old as if new, text stays text, events and logs as they come."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser_common import scenarios  # noqa: E402
from harness.harness import main  # noqa: E402

scenarios(
    "live.mjs",
    killed_server="the server is killed: the page says so, its buttons are off; a new server: it is live and right again",
    silent_server="the server is silent: the page says so, does nothing by buttons, keys and palette, and is live again when it answers",
    focused_row="the keys of the list act on the row that has the focus",
    open_thing="a menu and a search by key are those of the thing that is open, or of the row that has the focus",
    cut_network="the network is cut: the page says so, and has read everything anew when it is back",
    access="without the token the page says where to get it; with it, it keeps it, and not in the address",
    true_states="after a storm of starts, stops and kills both windows show what is true",
    hostile="names, logs, questions and errors with markup, escapes, NUL, RTL and long lines are shown as text",
    events="events: live, none moves under the pointer, filters, JSON in place",
    doctor="doctor: opening examines nothing; findings have their command",
    refusing="a server that cannot read its configuration: the page says so, and is live when it can",
    fixes="a finding's command is a button where it is an operation: it asks, is done, and all is examined again; a task shows its command",
    log_viewer="the log viewer: draws what is seen, pauses, goes on, finds",
)
main(__name__)
