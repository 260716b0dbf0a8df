// An agent that does as it is told: the official client over stdio. Each line on standard input is a call, {"tool", "arguments"};
// each line on standard output its result.
//   rival.mjs SERVER...
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "rival", version: "1" }, { capabilities: {}, versionNegotiation: { mode: "auto" } });
await client.connect(new StdioClientTransport({ command, args }));
console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
    const { tool, arguments: given } = JSON.parse(line);
    const result = await client.callTool({ name: tool, arguments: given });
    console.log(JSON.stringify({ isError: !!result.isError, text: result.content[0].text, structure: result.structuredContent }));
}
await client.close();
