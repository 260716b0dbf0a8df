import { render } from "preact";
import { takeToken } from "./api/http";
import { App } from "./app";
import { start } from "./live";
import { chooseLanguage, firstLanguage } from "./text";
import { applyTheme } from "./theme";

takeToken();
applyTheme();
const words = chooseLanguage(firstLanguage());
start();
await words;
render(<App />, document.body);
