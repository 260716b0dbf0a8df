// The peer over HTTP: the official TypeScript SDK on node's http server, with one tool that answers at once.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const server = new McpServer({ name: "peer", version: "1" }, { capabilities: { tools: {} } });
server.registerTool("echo", { description: "Answers." }, async () => ({
    content: [{ type: "text", text: "This is a simple text response for testing." }],
}));
const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID(), enableJsonResponse: true });
await server.connect(transport);
const listener = createServer((request, response) => transport.handleRequest(request, response));
listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
