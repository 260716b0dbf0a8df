// The official clients against a server: connect, look around, work, be refused, leave.
//   clients.mjs GENERATION-MODE SERVER...          v1 | v2-legacy | v2-auto | v2-modern
//   clients.mjs GENERATION-MODE http://... TOKEN   over HTTP
// Prints what it saw as one JSON document.
const [mode, command, ...args] = process.argv.slice(2);
const isHttp = command.startsWith("http:");

async function connect() {
    const info = { name: "tasuki-test", version: "1" };
    const options = { capabilities: { elicitation: {} } };
    if (mode === "v1") {
        const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
        const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
        const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
        const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
        const client = new Client(info, options);
        client.setRequestHandler(ElicitRequestSchema, answer);
        return [client, transportOf(StdioClientTransport, StreamableHTTPClientTransport)];
    }
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const negotiation = { "v2-legacy": "legacy", "v2-auto": "auto", "v2-modern": { pin: "2026-07-28" } }[mode];
    const client = new Client(info, { ...options, versionNegotiation: { mode: negotiation } });
    client.setRequestHandler("elicitation/create", answer);
    return [client, transportOf(StdioClientTransport, StreamableHTTPClientTransport)];
}

function transportOf(Stdio, Http) {
    if (!isHttp) return new Stdio({ command, args });
    return new Http(new URL(command), { requestInit: { headers: { Authorization: `Bearer ${args[0]}` } } });
}

const asked = [];
async function answer(request) {
    asked.push(request.params.message);
    return { action: "accept", content: { confirm: true } };
}

async function call(client, name, args = {}) {
    const result = await client.callTool({ name, arguments: args });
    return { isError: !!result.isError, text: result.content[0].text, structure: result.structuredContent };
}

const [client, transport] = await connect();
await client.connect(transport);
const seen = {};
seen.version = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? null;
seen.instructions = client.getInstructions()?.length ?? 0;
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.status = await call(client, "get_status");
const who = {}; // over stdio the server knows it
if (isHttp) {
    const { instance, secret } = (await call(client, "get_status", { register: true })).structure;
    Object.assign(who, { instance, secret });
}
seen.acquired = await call(client, "lock_acquire", { kind: "name", id: "mine", ...who });
seen.refused = await call(client, "lock_acquire", { kind: "name", id: "held", ...who });
seen.forced = await call(client, "lock_acquire", { kind: "name", id: "held", force: true, ...who });
seen.asked = asked.length;
seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
seen.locks = JSON.parse((await client.readResource({ uri: "tasuki://locks" })).contents[0].text).locks.length;
seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
seen.prompt = (await client.getPrompt({ name: "start_work", arguments: { task: "x" } })).messages.length;
seen.released = await call(client, "lock_release", { kind: "name", id: "mine", ...who });
if (isHttp) await call(client, "lock_release", { kind: "name", id: "held", ...who });
await transport.terminateSession?.();
await client.close();
console.log(JSON.stringify(seen));
