// Loaded before the official conformance suite, which cannot send a header of ours: adds the server's token to every request.
//   NODE_OPTIONS="--import .../token.mjs" TASUKI_TOKEN=... TASUKI_MODULES=.../node_modules/
import http from "node:http";
import { createRequire, syncBuiltinESMExports } from "node:module";

const { Agent, setGlobalDispatcher } = createRequire(process.env.TASUKI_MODULES)("undici");
const line = `Bearer ${process.env.TASUKI_TOKEN}`;

function withToken(headers) {
    if (Array.isArray(headers)) return [...headers, "authorization", line];
    if (headers && typeof headers[Symbol.iterator] === "function") return [...headers, ["authorization", line]].flat();
    return { ...headers, authorization: line };
}

setGlobalDispatcher(new Agent().compose((dispatch) => (options, handler) =>
    dispatch({ ...options, headers: withToken(options.headers) }, handler)));

const request = http.request;
http.request = (...args) => {
    const made = request(...args);
    if (!made.headersSent) made.setHeader("authorization", line);
    return made;
};
syncBuiltinESMExports();
