// The peer: a server of the official TypeScript SDK with one tool that answers at once.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

serveStdio(() => {
    const server = new McpServer({ name: "peer", version: "1" }, { capabilities: { tools: {} } });
    server.registerTool("echo", { description: "Answers." }, async () => ({
        content: [{ type: "text", text: "This is a simple text response for testing." }],
    }));
    return server;
});
