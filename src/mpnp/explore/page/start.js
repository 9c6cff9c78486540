// The scripts of the interpreter travel as text too, because a worker runs them.
"use strict";

window.page = new Page({ ...JSON.parse(find("data").textContent), scripts: find("interpreter")?.textContent ?? "" });
