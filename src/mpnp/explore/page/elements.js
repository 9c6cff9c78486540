// What both pages build with.
"use strict";

const find = (id) => document.getElementById(id);

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name, i) => element("option", { value: i, textContent: name })));
  select.value = chosen;
}

function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function say(text, isError = false) {
  const status = find("status");
  status.textContent = text;
  status.className = isError ? "error" : "";
}

// Make this address the link, and put it on the clipboard if the browser lets us.
async function copyLink(hash) {
  history.replaceState(null, "", hash);
  await navigator.clipboard?.writeText(location.href).then(() => say("link copied"), () => say("the address of this page is the link"));
}

// The other page of this server, if it has two.
function showOther(other, token) {
  if (other) find("other").append(element("a", { href: `${other.path}${token ? `?token=${encodeURIComponent(token)}` : ""}`, textContent: other.name }));
}
