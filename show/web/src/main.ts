import { App } from "./app";
import { embedded } from "./embedded";
import { HttpSource } from "./source";
import "./colours.css";
import "./style.css";

void (async () => {
  new App((await embedded()) ?? new HttpSource(), document.body);
})();
