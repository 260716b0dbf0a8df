"""TASUKI_STOP_ON_SHUTDOWN and VANTAGE_STOP_ON_SHUTDOWN: `tasuki mcp` stops what its agent started, when it ends."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402


def state(ws, id):
    return ws.tasuki("--json", "proc", "status", id).expect(0).json["state_name"]


@test("with the variable set, the end of the connection stops what the agent started, and nothing else; without it, nothing", slow=True)
def _(ws):
    ws.tasuki("proc", "create", "other", "--start", "--", "sleep", "1000").expect(0)
    for name, value, after in (("TASUKI_STOP_ON_SHUTDOWN", "true", "Stopped"), ("VANTAGE_STOP_ON_SHUTDOWN", "1", "Stopped"),
                               ("TASUKI_STOP_ON_SHUTDOWN", "false", "Running")):
        agent = Agent(ws, env={name: value})
        id = f"{name[0].lower()}-{value}"
        for tool, arguments in (("create_process", {"id": id, "command": "sleep", "args": ["1000"]}), ("start_process", {"id": id}),
                                ("get_process_status", {"id": "other"}), ("list_processes", {})):
            answer = agent.request("tools/call", {"name": tool, "arguments": arguments})["result"]
            assert not answer.get("isError"), answer
        agent.proc.stdin.close()
        agent.proc.wait(60)
        eq((state(ws, id), state(ws, "other")), (after, "Running"), f"{name}={value}")
    ws.tasuki("proc", "stop", "--all").expect(0)


main(__name__)
