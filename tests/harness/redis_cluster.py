"""A Redis Cluster of three primaries, each a real redis-server."""

from harness.redis import Redis
from harness.workspace import free_port

SLOTS = 16384


class Node(Redis):
    """A node; the first one also speaks for the cluster: `call` goes to the node that has the key."""

    def __init__(self, ws):
        self.bus, self.others = free_port(ws), []
        super().__init__(ws, "--cluster-enabled", "yes", "--cluster-port", str(self.bus), "--cluster-node-timeout", "5000")

    def call(self, *words):
        try:
            return super().call(*words)
        except RuntimeError as refusal:
            kind, _, rest = str(refusal).partition(" ")
            if kind != "MOVED" or not self.others:
                raise
            port = int(rest.rsplit(":", 1)[1])
            return [node for node in self.others if node.port == port][0].call(*words)

    def keys_without_ttl(self):
        return [key for node in [self, *self.others] for key in Redis.keys_without_ttl(node)]


def cluster(ws):
    nodes = [Node(ws) for _ in range(3)]
    for number, node in enumerate(nodes):
        node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        node.call("CLUSTER", "ADDSLOTSRANGE", number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1)
    for node in nodes[1:]:
        node.call("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
    for node in nodes:
        ws.until(lambda: knows_all(node), "the cluster")
    nodes[0].others = nodes[1:]
    return nodes


def knows_all(node):
    info = node.call("CLUSTER", "INFO")
    return "cluster_state:ok" in info and "cluster_known_nodes:3" in info and "cluster_slots_ok:16384" in info


def slot_of(nodes, tag):
    """The slot of a hash tag, the node that has it, and another one."""
    slot = Redis.call(nodes[0], "CLUSTER", "KEYSLOT", "{" + tag + "}")
    index = next(i for i in range(3) if (i + 1) * SLOTS // 3 > slot)
    return slot, nodes[index], nodes[(index + 1) % 3]


def begin_move(slot, source, target):
    """From now on the source answers ASK for a key that it does not have."""
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.call("CLUSTER", "MYID"))
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.call("CLUSTER", "MYID"))


def give_up_move(slot, source, target):
    for node in (source, target):
        node.call("CLUSTER", "SETSLOT", slot, "STABLE")


def move_keys(source, target, *keys):
    source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)


def answers(node, word):
    """How often the node has refused a command with that word."""
    info = Redis.call(node, "INFO", "errorstats")
    return next((int(line.split("count=")[1]) for line in info.splitlines() if line.startswith(f"errorstat_{word}:")), 0)


def refusals(node):
    """How many calls of steps the node has refused, or not finished."""
    info = Redis.call(node, "INFO", "commandstats")
    line = next((line for line in info.splitlines() if line.startswith("cmdstat_fcall:")), "rejected_calls=0,failed_calls=0")
    return sum(int(part.split("=")[1]) for part in line.split(",") if part.startswith(("rejected_calls", "failed_calls")))


def move_slot(nodes, slot, source, target):
    """All keys of a slot go to another node, as redis-cli --cluster reshard does it."""
    ids = {node: node.call("CLUSTER", "MYID") for node in nodes}
    begin_move(slot, source, target)
    while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 100):
        move_keys(source, target, *keys)
    for node in [target, source, *[node for node in nodes if node not in (source, target)]]:
        node.call("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
