// The peer: node's own http server. GET answers with a JSON document made for each request; GET /events is a stream, and
// every line on standard input goes to all of them.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

const document = JSON.parse(readFileSync(process.argv[2], "utf8"));
const streams = new Set();
const server = createServer((request, response) => {
    if (request.url === "/events") {
        response.writeHead(200, { "Content-Type": "text/event-stream" });
        response.write(": hello\n\n");
        streams.add(response);
        response.on("close", () => streams.delete(response));
        return;
    }
    const body = JSON.stringify(document);
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
    response.end(body);
});
let id = 0;
createInterface({ input: process.stdin }).on("line", (line) => {
    id++;
    for (const stream of streams) stream.write(`id: ${id}\ndata: ${line}\n\n`);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
